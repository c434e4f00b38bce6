// One research on the page: its steps, its answer as it is written, and what is known about it at the end.

import { AnswerText } from "./answer.js";
import { cancelResearch, errorText, follow, getResearch, Refused, stream, submit } from "./api.js";
import { announce, byId, el, icon } from "./dom.js";
import { exportMenu } from "./export.js";
import { followUpForm } from "./followup.js";
import { openQuote, SourceTexts } from "./quote.js";
import { Steps } from "./steps.js";
import { answerNotes, sentTable, sourceList, tabs, verdictLine } from "./summary.js";
import { t } from "./texts.js";

const NOT_FOUND = 404;
const DEPTHS = { shallow: () => t("Quick"), deep: () => t("Deep"), report: () => t("Report") };

/** A research that runs or has ended; `leave()` ends what belongs to the page alone. */
export class ResearchView {
  constructor(ask) {
    this.ask = ask;
    this.controller = new AbortController();
    this.texts = new SourceTexts();
    this.id = "";
    this.isBackground = false;
    this.isOver = false;
  }

  /** Run a request as long as the page is open; a report goes to the background, unless the server stores none. */
  async run(request) {
    this.#draw(request);
    try {
      if (request.depth === "report" && (await this.#submit(request))) return;
      await this.#read(stream(request, this.controller.signal));
    } catch (error) {
      this.#broken(error);
    }
  }

  /** Show a background research, whatever its state. */
  async open(id) {
    this.id = id;
    this.isBackground = true;
    try {
      const job = await getResearch(id);
      this.#draw(job.request ?? job);
      if (job.response) return this.#done(job.response);
      if (job.problem) return this.#failed(job.problem, job.status === "cancelled");
      if (job.status === "queued") this.steps.add({ type: "queued" });
      await this.#read(this.#follow());
    } catch (error) {
      if (!this.status) this.#draw({ query: t("Research"), depth: "report" });
      this.#broken(error);
    }
  }

  leave() {
    this.controller.abort();
  }

  async #submit(request) {
    try {
      const job = await submit(request);
      history.replaceState(null, "", `#research/${job.id}`);
      this.id = job.id;
      this.isBackground = true;
      await this.#read(this.#follow());
      return true;
    } catch (error) {
      if (error instanceof Refused && error.problem.code === "background") return false;
      throw error;
    }
  }

  #follow() {
    return follow(this.id, this.controller.signal, () => this.#notice(t("The connection is lost. Trying again…"), "warning"));
  }

  #draw(request) {
    this.request = request;
    this.steps = new Steps();
    this.answer = new AnswerText((index, citation, isWriting) => this.#openQuote(index, citation, isWriting));
    this.status = el("div", { class: "notices" });
    this.cancelButton = el("button", { type: "button", class: "cancel", onclick: () => this.#cancel() }, t("Cancel"));
    this.tools = el("div", { class: "tools" }, this.cancelButton);
    this.body = el("div", { class: "result-body" }, this.answer.element);
    byId("result").replaceChildren(
      el("div", { class: "result-head" },
        el("div", {},
          el("p", { class: "kicker" }, DEPTHS[request.depth]?.() ?? ""),
          el("h1", { id: "result-title", tabindex: "-1", dir: "auto" }, request.query)),
        this.tools),
      this.steps.element, this.status, this.body);
    byId("result-title").focus({ preventScroll: true });
    document.title = `${request.query} – llm-platform`;
  }

  async #read(events) {
    for await (const event of events) {
      this.id ||= event.request_id;
      this.status.replaceChildren();
      this.steps.add(event);
      if (event.type === "sources") this.answer.setSources(event.sources);
      else if (event.type === "token") this.answer.append(event.text);
      else if (event.type === "reset") this.answer.reset();
      else if (event.type === "verified") this.#verified(event);
      else if (event.type === "done") return this.#done(event.response);
      else if (event.type === "failed") return this.#failed(event.problem, event.problem.code === "research_cancelled");
    }
    if (!this.isBackground) throw new TypeError("the stream ended early");
    const job = await getResearch(this.id);
    if (job.response) this.#done(job.response);
    else if (job.problem) this.#failed(job.problem, job.status === "cancelled");
  }

  /** The text is complete; a model may still change the verdicts, which come with the next event. */
  #verified(event) {
    this.texts.id = this.id;
    this.answer.setCitations(event.citations);
  }

  #done(response) {
    this.isOver = true;
    this.response = response;
    this.texts.id = this.isBackground ? this.id : response.metadata.request_id;
    this.texts.response = response;
    this.steps.end(response.metadata.latency_ms);
    if (!this.steps.groups.size) this.steps.element.remove();
    this.answer.finish(response);
    this.status.replaceChildren(...answerNotes(response));
    this.tools.replaceChildren(exportMenu(response));
    const text = el("div", {}, this.answer.element, verdictLine(response), followUpForm(this, response));
    this.body.replaceChildren(tabs([
      [t("Answer"), text],
      [`${t("Sources")} (${response.sources.length})`, sourceList(response, (index, citation) => this.#openQuote(index, citation, false))],
      [t("What left this machine"), sentTable(response)],
    ]));
    announce(t("The answer is complete. Sources: {n}.", { n: response.sources.length }));
  }

  #failed(problem, isCancelled) {
    const text = isCancelled ? t("This research was cancelled.") : errorText(new Refused(problem.status, problem));
    this.#end(text, isCancelled ? "info" : "warning", () => this.ask(this.request));
  }

  /** The page lost the research. One in the background goes on: trying again looks for it, and starts no other one. */
  #broken(error) {
    if (this.controller.signal.aborted) return;
    const isGone = this.isBackground && error instanceof Refused && error.status === NOT_FOUND;
    const again = this.isBackground ? () => this.open(this.id) : () => this.ask(this.request);
    this.#end(errorText(error), "warning", isGone ? null : again);
  }

  /** `again` is what "Try again" does; null where that leads nowhere. */
  #end(text, kind, again) {
    this.isOver = true;
    this.steps.end();
    if (!this.steps.groups.size) this.steps.element.remove();
    this.#notice(text, kind);
    const button = again ? el("button", { type: "button", onclick: again }, t("Try again")) : el("a", { href: "#" }, t("New question"));
    this.tools.replaceChildren(button);
    button.focus({ preventScroll: true });
  }

  #notice(text, kind) {
    this.status.replaceChildren(el("div", { class: `notice ${kind}`, role: "alert" }, icon(kind), el("p", {}, text)));
  }

  async #cancel() {
    this.cancelButton.disabled = true;
    if (this.isBackground) {
      try {
        await cancelResearch(this.id);
      } catch (error) {
        this.cancelButton.disabled = false;
        if (!this.isOver) this.#notice(errorText(error), "warning");
        return;
      }
    }
    this.leave();
    if (!this.isOver) this.#failed({}, true);
  }

  #openQuote(index, citation, isWriting) {
    const source = this.answer.sources.get(index);
    const statement = citation ? [...this.answer.text].slice(citation.start, citation.end).join("") : "";
    openQuote({ source, citation, statement, texts: this.texts, isWriting });
  }
}
