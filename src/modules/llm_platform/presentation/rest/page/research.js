// A turn of a thread: a question, the steps of its research, its answer as it is written, and what is known about it at the end.

import { actionsRow, askAgain, askDeeper, origin, relatedQuestions, rememberEnd, stoppedActions, wish } from "./actions.js";
import { AnswerText } from "./answer.js";
import { cancelResearch, errorParts, finishResearch, follow, getResearch, Refused, stream, submit, untilWorthATry } from "./api.js";
import { announce, byId, el, icon, pause, Step } from "./dom.js";
import { contentsOf } from "./contents.js";
import { exportMenu } from "./export.js";
import { isOn } from "./preferences.js";
import { openQuote, SourceTexts } from "./quote.js";
import { plainWords } from "./source_text.js";
import { differenceOf } from "./receipts.js";
import { SourceCards } from "./sources.js";
import { rememberDuration, Steps } from "./steps.js";
import { answerNotes, correction, sentTable, sourceList, Tabs, verdictLine, writtenBy } from "./summary.js";
import { harmless, t } from "./texts.js";

const NOT_FOUND = 404;
const CHECK_MS = 3000; // in which the server compares the text of a stopped run with its sources
const inBrowser = () => import("./kept_files.js");
const DEPTHS = { shallow: () => t("Quick"), deep: () => t("Deep"), report: () => t("Report") };

/** What a request asks, in the words of the person. */
export const askedText = (request) => harmless(request.query ?? request.message ?? "");

const lasted = (job) => new Date(job.finished_at) - new Date(job.started_at ?? job.created_at);
function wholeText({ message, context }) {
  const text = message ?? context;
  return text && el("details", { class: "whole-text" },
    el("summary", {}, t("The whole text")), el("p", { dir: "auto" }, harmless(text)));
}

/** A question with its answer: a turn of a thread, which runs or has ended. `leave()` ends what belongs to the page alone.

`thread` hears of it: `begun(turn)` when it is waited for, `stored(turn)` when the server has stored it, `ended(turn)`,
`again(turn)` to ask once more, and `edit(turn)` to write its question anew. */
export class ResearchView {
  constructor(thread, number) {
    this.thread = thread;
    this.number = number;
    this.element = el("article", { class: "turn", "aria-labelledby": this.#titleId });
    this.controller = new AbortController();
    this.texts = new SourceTexts();
    this.id = "";
    this.isBackground = false;
    this.isOver = false;
    this.isFound = false; // whether a stored run came from the server, or could not
    this.isLive = true; // false for a stored run that has ended before: nobody waits for it
    this.replaces = ""; // the stored run in whose place this one is asked
    this.ending = Promise.withResolvers(); // of a run that ends without an answer
    this.submission = null; // while the server has not taken the question: `abort()` cancels what it takes
  }

  get #titleId() {
    return this.number ? `turn-${this.number}-title` : "result-title";
  }

  /** Ask. The server stores the run, in the thread of the run `joined` if there is one, and goes on without the page; where
  it may not, the run ends with the page. */
  async run(request, joined) {
    this.#draw(request);
    this.focus();
    this.thread.begun(this);
    try {
      // Files are not stored, so that such a run ends with the page; its answer is stored.
      const isKept = isOn("store");
      const asked = { ...request, ...(isKept && joined && { thread_id: joined }) };
      if (isKept && !request.files && (await this.#submit(asked))) return;
      if (this.#isLeft) return;
      const isStored = isKept && Boolean(request.files);
      await this.#read(stream(isStored ? { ...asked, store: true } : request, this.controller.signal));
    } catch (error) {
      this.#broken(error);
    }
  }

  /** Show the question of a stored run, as its thread names it, before the run is there. */
  announceStored({ id, query, depth }) {
    Object.assign(this, { id, isBackground: true, isLive: false });
    this.#draw({ query, depth });
  }

  /** Show a stored run, whatever its state; where a reader looks for it `again`, it gets the focus. */
  async open(id, again = false) {
    this.id = id;
    this.isBackground = true;
    try {
      const job = await getResearch(id);
      const files = job.response?.metadata.files?.length ? await (await inBrowser()).keptFiles(id) : null;
      if (this.#isLeft) return;
      this.isLive ||= !job.response && !job.problem;
      this.#draw({ ...(job.request ?? job), ...(files && { files }) });
      this.isFound = true;
      if (again) byId(this.#titleId)?.focus({ preventScroll: true });
      if (job.finished_at) this.steps.offer(() => follow(id, this.controller.signal, () => {}), lasted(job));
      if (job.response && job.finished_at) rememberEnd(job.response, job.finished_at);
      if (job.response) return await this.#done(job.response);
      if (job.status === "cancelled") await this.#readStopped();
      if (this.#isLeft) return;
      if (job.problem) return this.#failed({ ...job.problem, retry_after_s: 0 }, job.status === "cancelled"); // it was long ago
      this.thread.begun(this);
      if (job.status === "queued") this.steps.add({ type: "queued" });
      await this.#read(this.#follow());
    } catch (error) {
      if (this.#isLeft) return;
      this.isFound = true;
      if (!this.status) this.#draw({ query: "", depth: "report" });
      this.#broken(error);
    }
  }

  /** The id that a question names to follow this one. */
  get answerId() {
    return this.isBackground ? this.id : this.response.metadata.request_id;
  }

  /** Whether the question can be asked again as it was: files are not stored, so that a stored run lacks them. */
  get isRepeatable() {
    return this.request.files?.length > 0 || !this.response.metadata.files?.length;
  }

  /** The id of the run where the server stores it, else nothing. */
  get storedId() {
    return this.isBackground || (this.request.files && isOn("store")) ? this.id : "";
  }

  /** Let the reader begin here. */
  focus() {
    byId(this.#titleId)?.focus({ preventScroll: true });
    if (this.number) this.element.scrollIntoView({ block: "start" });
  }

  leave() {
    this.controller.abort();
    this.answer?.leave();
  }

  get #isLeft() {
    return this.controller.signal.aborted;
  }

  /** Whether the server takes the question as a background run, or the reader cancelled it before. */
  async #submit(request) {
    const { signal } = (this.submission = new AbortController());
    try {
      const job = await submit(request, signal);
      this.id = job.id;
      this.isBackground = true;
      this.#showQuestion(job.request?.query);
      if (!this.#isLeft) this.thread.stored(this);
    } catch (error) {
      const isRefused = error instanceof Refused && error.problem.code === "background";
      if (!isRefused && error !== signal.reason) throw error;
    } finally {
      this.submission = null;
    }
    if (signal.aborted) await this.#cancel();
    if (this.isBackground && !this.#isLeft) await this.#read(this.#follow());
    return this.isBackground || signal.aborted;
  }

  #follow() {
    return follow(this.id, this.controller.signal, () => this.#notice(t("The connection is lost. Trying again…"), "warning"));
  }

  #draw(request) {
    this.request = request;
    this.isChecked = false;
    this.answer?.leave();
    this.sections = null;
    this.steps = new Steps(request.depth);
    this.answer = new AnswerText((index, citation, isWriting) => this.#openQuote(index, citation, isWriting));
    this.status = el("div", { class: "notices" });
    this.cancelButton = el("button", { type: "button", class: "cancel", onclick: () => this.#cancel() }, t("Cancel"));
    this.finishButton = el("button", { type: "button", class: "finish", hidden: true, onclick: () => this.#finish() }, t("Write the answer now"));
    this.tools = el("div", { class: "tools" }, this.finishButton, this.cancelButton);
    this.cards = new SourceCards((index) => this.#openQuote(index, undefined, !this.response));
    this.text = el("div", { class: "answer-panel" }, this.cards.element, el("div", { class: "answer-column" }, this.answer.element, this.answer.receipts.element));
    this.found = el("div", {});
    this.sent = el("div", {});
    const parts = [[t("Answer"), this.text], [t("Sources"), this.found], [t("What left this machine"), this.sent]];
    this.tabs = new Tabs(parts, this.number ? `turn-${this.number}-` : "");
    this.body = el("div", { class: "result-body working" }, this.tabs.element);
    this.printed = el("p", { class: "on-paper" }); // when the answer was made, and where it is
    this.understood = el("p", { class: "muted understood", hidden: !request.previous_id });
    this.bar = el("div", { class: "turn-bar" }, this.answer.strip.element);
    this.answer.strip.line.append(this.tools);
    this.editButton = el("button", { type: "button", class: "quiet round edit", disabled: true, "aria-label": t("Edit the question"), title: t("Edit the question"),
      onclick: () => this.edit() }, icon("edit"));
    const kicker = el("p", { class: "kicker" }, DEPTHS[request.depth]?.() ?? "");
    this.writer = el("p", { class: "writer", dir: "auto" });
    this.element.replaceChildren(
      el("div", { class: "result-head" },
        el(this.number ? "h2" : "h1", { id: this.#titleId, class: `turn-title${request.message ? " clamped" : ""}`, tabindex: "-1", dir: "auto" }, askedText(request)),
        this.editButton, this.printed, wholeText(request) || "", this.understood, wish(request) || ""),
      this.bar,
      el("div", { class: "turn-row" }, kicker, this.steps.element, this.writer, this.status),
      this.tabs.list,
      this.body);
  }

  async #read(events) {
    const step = new Step();
    for await (const event of events) {
      if (!step.hasTime) await step.next(); // thousands may come at once
      if (this.#isLeft) return;
      this.id ||= event.request_id;
      if (!this.noticeStays) this.status.replaceChildren();
      this.steps.add(event);
      this.cards.add(event);
      this.#offerFinish(event);
      await this.#fill(event);
      if (event.type === "sources") this.answer.setSources(event.sources);
      else if (event.type === "token") this.#write(event.text);
      else if (event.type === "reset") this.#reset();
      else if (event.type === "verified") this.#verified(event);
      else if (event.type === "done") return await this.#done(event.response);
      else if (event.type === "failed") return this.#failed(event.problem, event.problem.code === "research_cancelled");
    }
    if (this.#isLeft) return;
    if (!this.isBackground) throw new TypeError("the stream ended early");
    const job = await getResearch(this.id);
    if (this.#isLeft) return;
    if (job.response) await this.#done(job.response);
    else if (job.problem) this.#failed(job.problem, job.status === "cancelled");
  }

  /** The text that a stopped run has written, where its events are still stored. */
  async #readStopped() {
    try {
      for await (const event of follow(this.id, this.controller.signal, () => {})) {
        if (this.#isLeft) return;
        this.cards.add(event);
        if (event.type === "sources") this.answer.setSources(event.sources);
        else if (event.type === "token") this.answer.append(event.text);
        else if (event.type === "reset") this.answer.reset();
        else if (event.type === "verified") this.#verified(event);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }

  /** Show what is found for each sub-question, until the text is there. */
  async #fill(event) {
    if (event.type === "planned" && !this.sections && !this.answer.text && this.request.depth !== "shallow") {
      const { Sections } = await import("./sections.js");
      this.sections = new Sections(this.number ? "h3" : "h2");
      this.answer.element.before(this.sections.element);
    }
    if (event.type === "token" || event.type === "done" || event.type === "failed") this.sections?.giveWayTo(this.answer.element);
    else this.sections?.add(event);
  }

  #write(text) {
    this.answer.append(text);
    this.cancelButton.textContent = t("Stop and keep");
  }

  #reset() {
    this.answer.reset();
    this.cancelButton.textContent = t("Cancel");
  }

  /** The text is complete; a model may still change the verdicts, which come with the next event. */
  #verified(event) {
    this.isChecked = true;
    this.texts.id = this.id;
    this.answer.setCitations(event.citations);
  }

  async #done(response) {
    this.isOver = true;
    this.response = response;
    if (!this.isBackground && this.storedId) { // its address is known to what is drawn below
      this.thread.stored(this);
      if (isOn("files")) inBrowser().then(({ keepFiles }) => keepFiles(this.id, this.thread.id, this.request.files));
    }
    this.texts.id = this.answerId;
    this.texts.response = response;
    this.steps.end(response.metadata.latency_ms, response.metadata);
    this.writer.textContent = this.writer.title = writtenBy(response);
    if (this.isLive) rememberDuration(response.depth, response.metadata);
    this.#showQuestion(response.query);
    this.#showUnderstood(response.metadata.understood_question);
    this.status.replaceChildren(...answerNotes(response, this.isRepeatable));
    this.tools.replaceChildren(exportMenu(response, this.thread, this.texts, this.storedId));
    this.printed.textContent = origin(response);
    await this.answer.finish(response);
    if (this.#isLeft) return;
    this.sections?.element.remove();
    this.answer.element.style.minHeight = "";
    this.body.classList.remove("working");
    this.editButton.disabled = !this.isRepeatable;
    this.tools.before(contentsOf(this.answer.element));
    this.cards.finish(response, this.answerId);
    this.text.append(this.isRepeatable ? correction(response, (query) => askAgain(this, { query })) : "", actionsRow(this, response), askDeeper(this, response),
      verdictLine(response), relatedQuestions(this, response));
    await pause();
    if (this.#isLeft) return;
    this.found.replaceChildren(sourceList(response, (index, citation) => this.#openQuote(index, citation, false)));
    this.sent.replaceChildren(sentTable(response, this.cards.sites.map(({ host }) => host)));
    this.tabs.enable([t("Answer"), `${t("Sources")} (${response.sources.length})`, t("What left this machine")]);
    if (this.isLive) announce(t("The answer is complete. Sources: {n}.", { n: response.sources.length }));
    if (this.isLive && document.hidden) import("./ready.js").then(({ tellReady }) => tellReady(this.id, response));
    this.thread.ended(this);
  }

  /** Let the reader write the question anew, where it stands; or ask it with these `changes`, below. */
  async edit(changes = null) {
    const head = this.editButton.parentElement;
    this.editButton.disabled = true;
    const close = () => {
      form.element.remove();
      head.classList.remove("editing");
      this.editButton.focus();
    };
    const form = await this.thread.editForm(this, close, Boolean(changes));
    this.editButton.disabled = false;
    head.classList.add("editing");
    head.append(form.element);
    form.composer.focus();
    if (!changes) return;
    form.composer.choices.set(changes);
    form.composer.send();
  }

  /** The question that the server found in a longer text. */
  #showQuestion(query) {
    const { message, ...rest } = this.request;
    if (!message || !query) return;
    this.request = { ...rest, query, context: message };
    byId(this.#titleId).textContent = query;
    byId(this.#titleId).classList.remove("clamped");
  }

  /** What was searched, where the question does not say it by itself. */
  #showUnderstood(question) {
    if (!question || question === this.request.query) return;
    this.understood.replaceChildren(`${t("Understood as")}: `, el("span", { dir: "auto" }, question));
    this.understood.hidden = false;
  }

  #failed(problem, isCancelled) {
    const text = isCancelled ? t("This research was cancelled.") : errorParts(new Refused(problem.status, problem));
    const isKept = isCancelled && this.answer.text;
    this.#end(isKept ? this.#stoppedText : text, isCancelled ? "info" : "warning", () => this.thread.again(this));
    if (isKept) this.text.append(stoppedActions(this.answer.text));
  }

  get #stoppedText() {
    return this.isChecked ? t("Stopped. The text so far stays here; its citations were compared by their words.")
      : t("Stopped. The text so far stays here; its citations were not checked.");
  }

  /** The page lost the research. One in the background goes on: trying again looks for it, and starts no other one. */
  #broken(error) {
    if (this.#isLeft) return;
    const isGone = this.isBackground && error instanceof Refused && error.status === NOT_FOUND;
    const again = this.isBackground ? () => this.#reopen() : () => this.thread.again(this);
    this.#end(errorParts(error), "warning", isGone ? null : again);
    if (this.isBackground && !(error instanceof Refused)) this.#lookAgain();
  }

  /** A server that was away may be back: ask when that is likely, until the reader does or leaves. */
  async #lookAgain() {
    const button = this.tools.firstChild;
    await untilWorthATry(this.controller.signal).catch(() => {});
    if (this.#isLeft || !button.isConnected || button.disabled) return;
    const isFocused = document.activeElement === button;
    this.isOver = false;
    await this.open(this.id, isFocused);
  }

  /** `again` is what "Try again" does; null where that leads nowhere. */
  #end(text, kind, again) {
    this.isOver = true;
    this.ending.resolve();
    this.sections?.element.remove();
    this.body.classList.remove("working");
    this.editButton.disabled = !askedText(this.request);
    if (!this.answer.text) this.tabs.list.hidden = this.answer.strip.band.hidden = true;
    this.steps.end();
    this.#notice(text, kind);
    const act = () => {
      button.disabled = true;
      again();
    };
    const button = again ? el("button", { type: "button", onclick: act }, t("Try again")) : el("a", { href: "#" }, t("New question"));
    this.tools.replaceChildren(button);
    if (this.isLive && !document.activeElement.closest(".follow-up")) button.focus({ preventScroll: true }); // nobody writes
    this.thread.ended(this);
  }

  async #reopen() {
    this.isOver = false;
    this.isLive = true;
    announce(t("Working…"));
    await this.open(this.id, true);
  }

  /** With `stays`, the notice is about what the reader asked for, which events of the run do not answer. */
  #notice(text, kind, stays = false) {
    this.noticeStays = stays;
    this.status.replaceChildren(el("div", { class: `notice ${kind}`, role: "alert" }, icon(kind), el("div", {}, text)));
  }

  async #cancel() {
    this.cancelButton.disabled = true;
    if (this.submission) {
      this.cancelButton.textContent = t("Cancelling…");
      this.submission.abort();
      return;
    }
    if (this.isBackground) {
      try {
        await cancelResearch(this.id);
      } catch (error) {
        this.cancelButton.disabled = false;
        this.cancelButton.textContent = this.answer.text ? t("Stop and keep") : t("Cancel");
        if (!this.isOver) this.#notice(errorParts(error), "warning", true);
        return;
      }
      if (this.answer.text) await Promise.race([this.ending.promise, pause(CHECK_MS)]); // the last events have its verdicts
    }
    if (this.#isLeft || this.isOver) return;
    this.controller.abort();
    if (!this.isOver) this.#failed({}, true);
  }

  /** Once something is found, the reader may end the search, until the text is written. */
  #offerFinish(event) {
    if (!this.isBackground || this.request.depth === "shallow") return;
    if (event.type === "searched" && event.count) this.finishButton.hidden = false;
    else if (event.type === "sources") this.finishButton.hidden = true;
  }

  async #finish() {
    const label = (text, isDisabled) => {
      this.finishButton.textContent = text;
      this.finishButton.disabled = isDisabled;
    };
    label(t("Writing the answer…"), true);
    this.noticeStays = false;
    announce(t("Writing the answer…"));
    try {
      await finishResearch(this.id);
    } catch (error) {
      if (this.isOver || this.#isLeft) return;
      label(t("Write the answer now"), false);
      this.#notice(errorParts(error), "warning", true);
    }
  }

  #openQuote(index, citation, isWriting) {
    const source = this.answer.sources.get(index) ?? this.cards.sources.get(index);
    const points = [...this.answer.text];
    const part = ({ start, end }) => plainWords(points.slice(start, end).join(""));
    const statement = citation ? part(citation) : "";
    const cells = (citation?.cells ?? []).map((cell) => ({ ...cell, text: part(cell) }));
    const difference = differenceOf(citation, this.answer.text, this.texts.held(index));
    openQuote({ source, citation, statement, difference, cells, texts: this.texts, isWriting });
  }
}
