// "Check a text": which sentences of a text that somebody else wrote its sources bear out, as these are read.

import { copyButton } from "./actions.js";
import { AnswerText } from "./answer.js";
import { errorParts, options, Refused, verify } from "./api.js";
import { markedAnswer } from "./clipboard.js";
import { announce, byId, el, icon, Step } from "./dom.js";
import { exportMenu } from "./export.js";
import { details, notesOf } from "./problems.js";
import { openQuote, SourceTexts } from "./quote.js";
import { differenceOf } from "./receipts.js";
import { plainWords } from "./source_text.js";
import { folded, isJudgesRest, sentTable, sourceList, Tabs, verdictLine } from "./summary.js";
import { number, onLanguage, t } from "./texts.js";
import { SOURCE_STATES } from "./verdicts.js";
import { asAnswer } from "./verified_text.js";

const MAX_CHARS = 100_000; // of a text, as the server counts them
const NEAR = 80_000; // characters from which they are counted in view
const DRAWING_MS = 700; // between two drawings of the verdicts while pages are read

const STORED = "llm-platform.check";

let view = null;

/** Show the form, or the text that was checked last. */
export function openVerification() {
  if (!view) {
    view = new VerificationView();
    onLanguage(() => view.draw());
  }
  view.open();
}

/** Forget the text and its verdicts, here and in this tab's storage. */
export function forgetVerification() {
  store(null);
  view?.clear();
}

/** What a reload of this tab left: {text, findsSources, id, verified}; `verified` is missing where the check had not ended. */
function stored() {
  try {
    const found = JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
    return typeof found?.text === "string" ? found : {};
  } catch {
    return {};
  }
}

/** Store a value of `stored()` for this tab; without its verdicts where they have no room. */
function store(value) {
  for (const kept of value ? [value, { ...value, verified: undefined }] : [null])
    try {
      if (kept) sessionStorage.setItem(STORED, JSON.stringify(kept));
      else sessionStorage.removeItem(STORED);
      return;
    } catch {
      // the storage is full, or the browser forbids it
    }
}

class VerificationView {
  constructor() {
    const { text = "", findsSources = false, id, verified } = stored();
    this.text = text;
    this.findsSources = findsSources;
    this.element = el("div", { class: "thread" });
    this.#forget();
    if (verified) {
      this.controller = new AbortController();
      this.#settle(verified, id);
    }
    window.addEventListener("pagehide", () => {
      store(this.text ? { text: this.text, findsSources: this.findsSources, id: this.id, verified: this.verified } : null);
    });
    this.draw();
  }

  /** Begin with an empty form. */
  clear() {
    this.text = "";
    this.findsSources = false;
    this.#forget();
    this.draw();
  }

  /** Take the verdicts of the whole text. */
  #settle(verified, id) {
    this.verified = verified;
    this.id = id;
    this.sources = new Map(verified.sources.map((source) => [source.index, source]));
    this.sentences = new Map(verified.sentences.map((sentence) => [sentence.start, sentence]));
  }

  #forget() {
    this.controller?.abort();
    this.answerText?.leave();
    Object.assign(this, { controller: null, answerText: null, verified: null, problem: null, isStopped: false, id: "", timer: 0 });
    this.sources = new Map(); // by number
    this.unread = new Set(); // addresses that are still to be read
    this.sentences = new Map(); // by their beginning
  }

  open() {
    byId("result").replaceChildren(this.element);
    document.title = `${t("Check a text")} – llm-platform`;
    (byId("check-text") ?? byId("result-title")).focus({ preventScroll: true });
    if (this.answerText) this.#drawText();
  }

  /** Draw it anew in the language of the page. */
  draw() {
    const { element } = this;
    element.replaceChildren(...(this.controller ? this.#result() : this.#form()));
    if (this.controller) this.#drawState();
  }

  #form() {
    const input = el("textarea", { id: "check-text", rows: 12, dir: "auto", placeholder: t("Paste an answer, an article or a note together with its sources"),
      "aria-describedby": "check-note check-error" });
    const counter = el("span", { class: "counter" });
    const error = el("p", { class: "error", id: "check-error", role: "alert" });
    const finding = el("input", { type: "checkbox", name: "find-sources", checked: this.findsSources });
    const find = el("label", { class: "check-option", hidden: true }, finding, el("span", {}, t("Search the web for sentences that no source supports")));
    const documents = el("p", { class: "hint", hidden: true }, t("A text without sources is compared with the documents of this server."));
    const complain = (text) => {
      error.textContent = text;
      input.setAttribute("aria-invalid", String(Boolean(text)));
      return text;
    };
    const lengthProblem = () => {
      const count = [...input.value].length;
      counter.textContent = count < NEAR ? "" : `${number(count)} / ${number(MAX_CHARS)}`;
      counter.classList.toggle("over", count > MAX_CHARS);
      return count > MAX_CHARS ? t("A text has at most {max} characters: this is {n} too long.", { max: number(MAX_CHARS), n: number(count - MAX_CHARS) }) : "";
    };
    const form = el("form", { class: "card check-form", novalidate: true },
      el("label", { for: "check-text", class: "sr" }, t("Text to check")), input, find,
      el("div", { class: "composer-bar" }, counter, el("button", { type: "submit", class: "primary" }, t("Check"))),
      el("p", { class: "hint", id: "check-note" }, t("Each sentence is compared with the sources that it cites: numbers with a list below, links, footnotes, or (Author, 2021) with a bibliography.")), documents, error);
    input.value = this.text;
    input.addEventListener("input", () => {
      this.text = input.value;
      complain(lengthProblem());
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.findsSources = finding.checked && !find.hidden;
      if (complain((/[\p{L}\p{N}]/u.test(input.value) ? "" : t("Paste a text first.")) || lengthProblem())) input.focus();
      else this.#start();
    });
    options().then(({ sources }) => {
      find.hidden = !sources.includes("web");
      documents.hidden = !sources.includes("documents");
    }, () => {});
    return [el("h1", { id: "result-title", class: "turn-title", tabindex: "-1" }, t("Check a text")), el("div", { class: "composer" }, form)];
  }

  /** Send the text, and show the verdicts as they come. */
  async #start() {
    this.#forget();
    const { signal } = (this.controller = new AbortController());
    this.draw();
    byId("result-title").focus({ preventScroll: true });
    announce(t("Working…"));
    const step = new Step();
    try {
      for await (const event of verify({ text: this.text, ...(this.findsSources && { find_sources: true }) }, signal)) {
        if (!step.hasTime) await step.next(); // thousands may come at once
        if (signal.aborted) return;
        this.#take(event);
        if (event.type === "done" || event.type === "failed") return;
      }
      throw new TypeError("the stream ended early");
    } catch (error) {
      if (!signal.aborted) this.#end(error);
    }
  }

  #take(event) {
    this.id ||= event.request_id;
    switch (event.type) {
      case "sources":
        for (const source of event.sources) this.sources.set(source.index, { ...source, state: source.url ? "reading" : "no_text" });
        this.unread = new Set(event.sources.map(({ url }) => url).filter(Boolean));
        break;
      case "read":
        this.unread.delete(event.url);
        for (const source of this.sources.values()) if (source.url === event.url) source.state = event.status === "read" ? "read" : "unread";
        break;
      case "sentence":
        this.sentences.set(event.sentence.start, event.sentence);
        break;
      case "done":
        this.#settle(event.response, this.id);
        return this.#end(null);
      case "failed":
        return this.#end(new Refused(event.problem.status, event.problem));
    }
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.#drawState();
    }, this.sources.size && !this.answerText.text ? 0 : DRAWING_MS);
  }

  /** All is there, or `problem` has ended it. */
  #end(problem) {
    clearTimeout(this.timer);
    this.problem = problem;
    this.#drawState();
    if (!this.verified) return;
    const { supported, sentences } = this.verified.counts;
    announce(t("The text is checked. {n} of {all} sentences hold.", { n: number(supported), all: number(sentences) }));
  }

  #stop() {
    this.controller.abort();
    clearTimeout(this.timer);
    this.isStopped = true;
    this.#drawState();
    byId("result-title").focus({ preventScroll: true });
  }

  get #isOver() {
    return Boolean(this.verified || this.problem || this.isStopped);
  }

  #answer() {
    return asAnswer(this.text, this.sentences.values(), [...this.sources.values()], this.verified ?? (this.#isOver ? PARTIAL : null));
  }

  #result() {
    this.answerText?.leave();
    this.answerText = new AnswerText((index, citation, isWriting) => this.#openQuote(index, citation, isWriting), { waiting: () => t("Its source is still being read."), keepsLines: true });
    this.status = el("div", { class: "notices" });
    this.progress = el("p", { class: "muted kicker" });
    this.tools = el("div", { class: "tools" });
    this.found = el("div", {});
    this.sent = el("div", {});
    this.end = el("div", {});
    this.tabs = new Tabs([[t("Text"), el("div", { class: "answer-panel" }, el("div", { class: "answer-column" }, this.answerText.element, this.answerText.receipts.element), this.end)],
      [t("Sources"), this.found], [t("What left this machine"), this.sent]], "check-");
    this.body = el("div", { class: "result-body working" }, this.tabs.element);
    this.answerText.strip.line.append(this.tools);
    return [el("article", { class: "turn", "aria-labelledby": "result-title" },
      el("div", { class: "result-head" }, el("h1", { id: "result-title", class: "turn-title", tabindex: "-1" }, t("Check a text"))),
      el("div", { class: "turn-bar" }, this.answerText.strip.element),
      el("div", { class: "turn-row" }, this.progress, this.status), this.tabs.list, this.body)];
  }

  /** Show what is known by now. */
  #drawState() {
    const answer = this.#answer();
    const isRead = [...this.sources.values()].filter(({ state }) => state === "read").length;
    this.progress.textContent = this.sources.size ? t("{n} of {all} sources read", { n: number(isRead), all: number(this.sources.size) }) : "";
    this.status.replaceChildren(...this.#notices(answer));
    this.tools.replaceChildren(...this.#buttons(answer));
    this.found.replaceChildren(sourceList(answer, (index, citation) => this.#openQuote(index, citation, false), stateLine));
    this.tabs.enable([t("Text"), `${t("Sources")} (${number(this.sources.size)})`, t("What left this machine")]);
    if (this.verified) {
      this.sent.replaceChildren(sentTable(answer, [], t("What the check took")));
      this.end.replaceChildren(el("div", { class: "actions" }, copyButton(t("Copy"), () => markedAnswer(answer))), verdictLine(answer));
    }
    this.body.classList.toggle("working", !this.#isOver);
    this.#drawText(answer);
  }

  #drawText(answer = this.#answer()) {
    this.answerText.finish(answer);
  }

  #notices({ degraded }) {
    const notice = (kind, ...content) => el("div", { class: `notice ${kind}`, role: "alert" }, icon(kind), el("div", {}, ...content));
    if (this.problem) return [notice("warning", ...errorParts(this.problem))];
    if (this.isStopped) return [notice("info", t("Stopped. What was checked so far stays here."))];
    if (!this.verified) return [];
    if (!this.sources.size)
      return [notice("info", t("This text cites no readable sources. Add their URLs to the text, or turn on web search."))];
    const { counts } = this.verified;
    const missing = counts.sources - counts.read;
    const notes = notesOf(degraded.filter((entry) => !isJudgesRest(entry)));
    if (missing) notes.unshift({ text: t("Sources that could not be read: {n}.", { n: number(missing) }) });
    if (counts.uncited) notes.push({ text: t("Sentences without a source: {n}.", { n: number(counts.uncited) }) });
    return notes.length ? [folded(notes, "warning")] : [];
  }

  #buttons(answer) {
    if (!this.#isOver) return [el("button", { type: "button", class: "cancel", onclick: () => this.#stop() }, t("Cancel"))];
    const change = el("button", { type: "button", onclick: () => this.#change() }, t("Change the text"));
    const remove = el("button", { type: "button", onclick: () => {
      forgetVerification();
      byId("check-text").focus();
    } }, t("Delete"));
    if (this.verified) return [change, exportMenu(answer), remove];
    return [change, el("button", { type: "button", onclick: () => this.#start() }, t("Try again"))];
  }

  /** Back to the form, with the text. */
  #change() {
    this.#forget();
    this.draw();
    byId("check-text").focus();
  }

  #openQuote(index, citation, isWriting) {
    const source = { title: "", ...this.sources.get(index), url: this.sources.get(index)?.url ?? "" };
    const { text } = this.answerText;
    const points = [...text];
    const part = ({ start, end }) => plainWords(points.slice(start, end).join(""));
    const isHeld = this.verified && source.state === "read";
    const held = Object.assign(new SourceTexts(), { id: this.id });
    openQuote({
      source, citation, statement: citation ? part(citation) : "", difference: differenceOf(citation, text),
      cells: (citation?.cells ?? []).map((cell) => ({ ...cell, text: part(cell) })), isWriting,
      texts: isHeld ? held : { held: () => undefined, get: async () => null },
      words: { statement: t("In the text"), waiting: t("Its source is still being read."), missing: isHeld ? undefined : SOURCE_STATES[source.state]?.() ?? t("The whole text can be opened when all sources are read.") },
    });
  }
}

/** A verification that ended before its end. */
const PARTIAL = { degraded: [], metadata: {}, counts: { uncited: 0 } };

/** What became of a source, in the list of them. */
function stateLine({ state, reason, is_found: isFound }) {
  const said = SOURCE_STATES[state]?.();
  return [
    said && el("p", {}, el("span", { class: `badge ${state === "dead" ? "unsupported" : "unchecked"}` }, icon(state === "dead" ? "unsupported" : "unchecked"), said)),
    state === "reading" && el("p", { class: "muted" }, t("Its source is still being read.")),
    isFound && el("p", { class: "muted" }, t("A search found this source; the text does not name it.")),
    reason && details([reason]),
  ].filter(Boolean);
}
