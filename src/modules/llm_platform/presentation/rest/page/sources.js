// The sources above an answer, as cards: those that the answer may cite, and at its end which of them it does not.

import { el, shortAddress } from "./dom.js";
import { showIcons } from "./icons.js";
import { plainBeginning, plainQuote } from "./source_text.js";
import { day, foreignLanguage, number, t } from "./texts.js";
import { isHeld } from "./verdicts.js";

const SNIPPET_CHARS = 300;
const MAX_ICONS = 12; // of an answer: each is a request, which counts for the limits of this client
const HUES = 6; // colours of letters in the style sheet

export class SourceCards {
  /** `open(index)` shows the text of a source. */
  constructor(open) {
    this.open = open;
    this.found = new Map(); // by address: what a search said about a page
    this.sources = new Map();
    this.answerLanguage = ""; // once the answer is there
    this.cited = new Map(); // by number: the passage that the answer cites
    this.list = el("ol", { class: "source-cards", tabindex: "0", "aria-label": t("Sources") });
    this.title = el("h2", { class: "source-cards-title", hidden: true }, t("The nearest passages"));
    this.row = el("summary", { class: "source-row" });
    this.element = el("details", { class: "sources-found", hidden: true }, this.row, this.title, this.list);
  }

  /** Take an event of the research run into account. */
  add(event) {
    if (event.type === "searched") for (const each of event.results ?? []) this.found.set(each.url, each);
    if (event.type === "sources") this.#show(event.sources);
  }

  /** Show which sources the answer of the run `id` cites. One without any leaves the reader with the passages that were found. */
  finish(response, id) {
    const raw = response.raw_results ?? []; // of a report they have other numbers
    for (const result of raw) this.found.set(result.url, { ...result, snippet: this.found.get(result.url)?.snippet ?? result.content });
    this.cited = citedPassages(response.citations);
    this.answerLanguage = response.metadata.language;
    const known = this.sources.size || response.depth === "report" ? [...this.sources.values()] : raw.map((each, place) => ({ ...each, index: place + 1 }));
    const cited = new Set(response.sources.map((each) => each.index));
    this.#show([...known.filter((each) => !cited.has(each.index)), ...response.sources], cited);
    showIcons(id, this.sites);
    if (cited.size || response.citations.length) return;
    this.title.hidden = false;
    this.element.open = true;
    this.element.classList.add("whole");
    this.element.parentElement.append(this.element); // what the text says of them comes first
  }

  /** The sites of the first cards, each with the number of a source and its letters: on the card, and in the row. */
  get sites() {
    return [...this.list.querySelectorAll(".source-card")].map((card) => ({
      letters: [...this.element.querySelectorAll(`[data-source="${card.dataset.source}"] .letter`)],
      host: card.querySelector(".source-host").textContent, index: Number(card.dataset.source),
    })).filter(({ index }) => /^https?:/i.test(this.sources.get(index).url)).slice(0, MAX_ICONS);
  }

  #show(sources, cited = null) {
    for (const source of sources) this.sources.set(source.index, source);
    const shown = [...this.sources.values()].sort((one, other) => one.index - other.index);
    this.list.replaceChildren(...shown.map((source) => this.#card(source, cited && !cited.has(source.index))));
    const inRow = shown.filter(({ index }) => !cited?.size || cited.has(index)).slice(0, MAX_ICONS / 2);
    this.row.replaceChildren(
      el("span", { class: "source-icons", "aria-hidden": "true" }, inRow.map(({ index, url }) => el("span", { "data-source": index }, letter(shortAddress(url))))),
      el("span", { class: cited ? "sr" : null }, t("Sources: {n}", { n: number(cited?.size || shown.length) }))); // then the tab tells it
    this.element.hidden = !shown.length;
  }

  #card(source, isUncited) {
    const { snippet = "", published } = this.found.get(source.url) ?? {};
    const passage = this.cited.get(source.index);
    const text = passage ? plainQuote(passage) : snippet && plainBeginning(snippet, source.title);
    const from = shortAddress(source.url);
    return el("li", { class: isUncited ? "source-card uncited" : "source-card", "data-source": source.index },
      el("p", { class: "source-from" }, letter(from), el("span", { class: "source-host", dir: "auto" }, from),
        el("span", { class: "number" }, String(source.index))),
      el("button", { type: "button", class: "source-name", dir: "auto", onclick: () => this.open(source.index) }, source.title || from),
      text && el("p", { class: "source-snippet", dir: "auto" }, text.slice(0, SNIPPET_CHARS)),
      el("p", { class: "source-facts" }, [day(published), foreignLanguage(source, this.answerLanguage), isUncited && t("not cited")].filter(Boolean).join(" · ")));
  }
}

/** The passage of each source that the answer cites first, and that supports it where one does: it says more than the beginning
of the page, and a stored answer has it too. */
function citedPassages(citations) {
  const passages = new Map();
  for (const { source_index: index, quote, verdict } of citations)
    if (quote && (!passages.has(index) || (isHeld(verdict) && !isHeld(passages.get(index).verdict)))) passages.set(index, { quote, verdict });
  return new Map([...passages].map(([index, { quote }]) => [index, quote]));
}

/** In the place of an icon that would be loaded from elsewhere. */
function letter(name) {
  const first = [...(name.match(/[\p{L}\p{N}]/u)?.[0] ?? "·")][0].toUpperCase();
  const sum = [...name].reduce((total, character) => total + character.codePointAt(0), 0);
  return el("span", { class: `letter hue-${sum % HUES}`, "aria-hidden": "true" }, first);
}
