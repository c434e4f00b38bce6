// What a run has found for each sub-question so far, in the place of its text until that is written. Loaded for deep answers
// and reports alone. Each section has its height from the beginning, so that nothing moves while it fills.

import { el, shortAddress } from "./dom.js";
import { plainBeginning } from "./source_text.js";
import { list, number, t } from "./texts.js";

const HOSTS = 4; // of the pages that were read, in a line
const SHARED_WORDS = 2; // of a question, in a sentence that has to do with it
const STEM_CHARS = 4; // which "pump" and "pumps" share; shorter words say little
const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]/; // scripts with short words
const STATES = {
  answered: () => t("a quote answers it"),
  partly: () => t("answered in part"),
  open: () => t("no quote yet"),
  disagree: () => t("the sources disagree"),
};

export class Sections {
  /** `tag` is the element of a heading below that of the turn. */
  constructor(tag) {
    this.tag = tag;
    this.element = el("div", { class: "findings", role: "group", "aria-label": t("Found so far") });
    this.sections = new Map(); // by question
    this.byAddress = new Map(); // the sections whose searches found a page
    this.round = null;
  }

  /** Take an event of the research run into account. */
  add(event) {
    if (event.type === "planned") for (const question of event.questions) this.#section(question);
    else if (event.type === "searched") this.#searched(event);
    else if (event.type === "read" && (event.status === "read" || event.status === "stored")) this.#read(event.url);
    else if (event.type === "round") this.#round(event);
    else if (event.type === "reset") this.#clear();
  }

  /** The text begins in this place: it is as high as what it replaces, until it is higher. */
  giveWayTo(text) {
    if (!this.element.isConnected) return;
    text.style.minHeight = `${this.element.offsetHeight}px`;
    this.element.remove();
  }

  #clear() {
    this.sections.clear();
    this.byAddress.clear();
    this.element.replaceChildren();
  }

  /** `asked` is what its passage has to do with. */
  #section(title, asked = title) {
    let section = this.sections.get(title);
    if (section) return section;
    section = new Section(this.tag, title, asked);
    this.sections.set(title, section);
    this.element.append(section.element);
    return section;
  }

  #searched({ question, query, results = [] }) {
    const section = this.sections.get(question) ?? this.sections.get(query) ?? this.round;
    if (!section) return;
    section.searched(results);
    for (const { url } of results) this.byAddress.set(url, [...(this.byAddress.get(url) ?? []), section]);
  }

  #read(url) {
    for (const section of new Set(this.byAddress.get(url))) section.read(url);
  }

  #round({ number: n, of, queries, evidence = [] }) {
    for (const row of evidence) this.sections.get(row.question)?.proven(row);
    const asked = queries.join(" · ");
    this.round = this.#section(`${t("Further round {n} of {all}", { n, all: of ?? n })} · ${asked}`, asked);
  }
}

class Section {
  constructor(tag, title, asked) {
    this.words = stemsOf(asked);
    this.shared = 0; // words of the question in the passage that is shown
    this.results = new Map(); // by address
    this.hosts = new Set();
    this.state = "";
    this.line = el("p", { class: "finding-state" }, t("not searched yet"));
    this.quote = el("p", { class: "finding-quote", dir: "auto" });
    this.element = el("section", { class: "finding" }, el(tag, { dir: "auto" }, title), this.line, this.quote);
  }

  searched(results) {
    for (const result of results) {
      if (this.results.has(result.url)) continue;
      this.results.set(result.url, result);
      if (!this.isProven) this.#say(result);
    }
    this.#tell();
  }

  read(url) {
    this.hosts.add(shortAddress(url));
    this.#tell();
  }

  /** Its row of the ledger: the best quote, and whether it answers the question. */
  proven({ state, quotes }) {
    this.state = STATES[state]?.() ?? "";
    if (quotes.length) {
      this.isProven = true;
      this.quote.textContent = `“${quotes[0].text}” ${shortAddress(quotes[0].url)}`;
    }
    this.#tell();
  }

  /** Show the sentence of a result that has more words of the question than the one that is shown. */
  #say({ snippet, title }) {
    for (const sentence of segmentsOf(snippet ? plainBeginning(snippet, title) : "", "sentence")) {
      const found = stemsOf(sentence);
      const shared = [...this.words].filter((word) => found.has(word)).length;
      if (shared < Math.min(SHARED_WORDS, this.words.size) || shared <= this.shared) continue;
      this.shared = shared;
      this.quote.textContent = sentence.trim();
    }
  }

  #tell() {
    const hosts = [...this.hosts].slice(0, HOSTS);
    this.line.textContent = [
      t("results: {n}", { n: number(this.results.size) }),
      hosts.length > 0 && t("read: {names}", { names: list(hosts) }),
      this.state,
    ].filter(Boolean).join(" · ");
  }
}

const segmentsOf = (text, granularity) => [...new Intl.Segmenter(undefined, { granularity }).segment(text)]
  .filter(({ isWordLike }) => isWordLike !== false).map(({ segment }) => segment);

/** The beginnings of the words that say something. */
const stemsOf = (text) => new Set(segmentsOf(text.toLowerCase(), "word")
  .filter((word) => word.length >= STEM_CHARS || UNSPACED.test(word)).map((word) => word.slice(0, STEM_CHARS)));
