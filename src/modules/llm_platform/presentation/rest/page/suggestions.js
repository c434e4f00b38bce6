// What stands below the box of an empty page: questions to begin with, and the newest threads.

import { el } from "./dom.js";
import { isOn } from "./preferences.js";
import { relativeDay, t, withoutMarks } from "./texts.js";

const SHOWN = 4;
const EXAMPLES = [
  () => t("How do heat pumps work in a cold winter?"),
  () => t("What speaks for and against a four-day week?"),
  () => t("What changed in the latest version of Python?"),
  () => t("Which foods are rich in iron?"),
];

/** `ask(question, sources)` asks one at once; `sources` where it makes sense in these alone. */
export class Suggestions {
  constructor(ask) {
    this.ask = ask;
    this.titles = [];
    this.threads = [];
    this.element = el("div", { class: "suggestions" });
  }

  /** The titles of the operator's documents are asked about where there are some. */
  offer({ document_titles: titles = [], sources = [] }) {
    this.titles = sources.includes("documents") ? titles.slice(0, SHOWN) : [];
    this.areGeneral = sources.includes("web");
    this.draw();
  }

  showThreads(threads) {
    this.threads = threads.slice(0, SHOWN);
    this.draw();
  }

  draw() {
    const recent = isOn("store") ? this.threads : [];
    this.element.replaceChildren(...[
      this.#list("examples", t("Try a question"), this.#examples()),
      this.#list("recent", t("Recent"), recent.map((thread) =>
        el("a", { href: `#research/${thread.id}` }, el("bdi", {}, thread.title), el("span", { class: "muted" }, relativeDay(thread.updated_at))))),
    ].filter(Boolean));
  }

  #examples() {
    const button = (question, sources) => el("button", { type: "button", onclick: () => this.ask(withoutMarks(question), sources) }, el("bdi", {}, question));
    return this.titles.length
      ? this.titles.map((title) => button(t("What does “{title}” say?", { title }), ["documents"]))
      : EXAMPLES.filter(() => this.areGeneral).map((question) => button(question()));
  }

  /** The newest threads are in view anyway where they stand beside the page. */
  #list(name, heading, entries) {
    return entries.length > 0 && el("section", { class: name }, el("h2", {}, heading), el("ul", {}, entries.map((entry) => el("li", {}, entry))));
  }
}
