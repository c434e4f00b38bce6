// What stands below the box of an empty page: questions to begin with, and the newest threads.

import { el, shortAddress } from "./dom.js";
import { isOn } from "./preferences.js";
import { number, relativeDay, t, withoutMarks } from "./texts.js";

const SHOWN = 4;
const EXAMPLES = [
  () => t("How do heat pumps work in a cold winter?"),
  () => t("What are the pros and cons of a four-day week?"),
  () => t("What changed in the latest version of Python?"),
  () => t("Which foods are rich in iron?"),
];

const aboutDocument = (title) => t("What does “{title}” say?", { title });

/** `ask(question, sources)` asks one at once; `sources` where it makes sense in these alone. */
export class Suggestions {
  constructor(ask) {
    this.ask = ask;
    this.titles = [];
    this.threads = [];
    this.documents = null;
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

  /** What the server answered to a request for its documents; null if it did not. */
  showDocuments(found) {
    this.documents = found;
    this.draw();
  }

  draw() {
    const recent = isOn("store") ? this.threads : [];
    this.element.replaceChildren(...[
      this.#list("examples", t("Try a question"), this.#examples()),
      this.#list("recent", t("Recent"), recent.map((thread) =>
        el("a", { href: `#research/${thread.id}` }, el("bdi", {}, thread.title), el("span", { class: "muted" }, relativeDay(thread.updated_at))))),
      this.#documents(),
    ].filter(Boolean));
  }

  #examples() {
    return this.titles.length
      ? this.titles.map((title) => this.#button(aboutDocument(title), ["documents"]))
      : EXAMPLES.filter(() => this.areGeneral).map((question) => this.#button(question()));
  }

  #button(question, sources, shown = question, ...more) {
    return el("button", { type: "button", onclick: () => this.ask(withoutMarks(question), sources) }, el("bdi", {}, shown), ...more);
  }

  /** How many documents are searched and how many files are not read; opened, which ones. A click asks about a document. */
  #documents() {
    if (!this.documents?.documents.length) return false;
    const { total, documents, not_read: failed, partly_read: partly, problems, unread } = this.documents;
    const summary = [t("Documents of this server: {n}", { n: `${number(total ?? documents.length)}${total === null ? "+" : ""}` }), failed > 0 && t("not read: {n}", { n: number(failed) })];
    const rows = [
      ...documents.map(({ title, url }) => this.#button(aboutDocument(title), ["documents"], title, el("span", { class: "muted" }, shortAddress(url)))),
      total > documents.length && el("span", { class: "muted" }, t("and {n} more", { n: number(total - documents.length) })),
      ...problems.map(({ path, reason }) => el("p", { class: "hint" }, el("bdi", {}, path), ": ", el("span", { lang: "en" }, reason))),
      failed + partly > problems.length && el("span", { class: "muted" }, t("and {n} more", { n: number(failed + partly - problems.length) })),
      unread && el("p", { class: "hint", lang: "en" }, unread),
    ];
    const isOpen = this.element.querySelector(".documents")?.open; // drawn again, it stays as it was
    return el("details", { class: "documents", open: Boolean(isOpen) },
      el("summary", { class: "muted" }, summary.filter(Boolean).join(" · ")),
      el("ul", {}, rows.filter(Boolean).map((row) => el("li", {}, row))));
  }

  /** The newest threads are in view anyway where they stand beside the page. */
  #list(name, heading, entries) {
    return entries.length > 0 && el("section", { class: name }, el("h2", {}, heading), el("ul", {}, entries.map((entry) => el("li", {}, entry))));
  }
}
