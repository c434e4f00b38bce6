// Receipts: beside a doubted sentence what its source has in the place of what it says.

import { el, shortAddress } from "./dom.js";
import { plainWords } from "./source_text.js";
import { t } from "./texts.js";

const WORDS_BEFORE = 3;
const WORDS_AFTER = 6;
const GAP_PX = 8; // between two receipts

/** The words of the answer that a source says differently, with those of the source: {before, claimed, found, after}; null where
the check does not say it. `source` is the text of the source where the page holds it: else the words are those in the quote. */
export function differenceOf(citation, synthesis, source) {
  const { claimed, found } = citation?.difference ?? {};
  if (!claimed || !found) return null;
  const points = [...synthesis];
  const part = (start, end) => plainWords(points.slice(start, end).join("")).replace(/(?<!\s)\s*\[\d{1,4}\]|\*\*|`/g, "");
  const inQuote = found.start >= citation.quote_start && found.end <= citation.quote_end;
  if (!inQuote && source === undefined) return null;
  const words = inQuote ? [...citation.quote].slice(found.start - citation.quote_start, found.end - citation.quote_start) : [...source].slice(found.start, found.end);
  return {
    before: part(citation.start, claimed.start), claimed: part(claimed.start, claimed.end),
    found: plainWords(words.join("")), after: part(claimed.end, citation.end),
  };
}

/** The difference as a line: a few words of the statement around what is struck out and what the source has. */
export function differenceLine({ before, claimed, found, after }) {
  const lead = before.split(/(?<=\s)/).slice(-WORDS_BEFORE).join("");
  const rest = after.split(/(?=\s)/).slice(0, WORDS_AFTER).join("");
  return el("p", { class: "difference", dir: "auto" },
    lead.length < before.length && "… ", lead,
    claimed && el("del", {}, claimed), claimed && found && " ", found && el("ins", {}, found), rest, rest.length < after.length && " …");
}

/** The receipts of an answer in the margin. `open(citation)` shows the text of the source. */
export class Receipts {
  constructor(open) {
    this.open = open;
    this.placed = [];
    this.element = el("aside", { class: "receipts", "aria-label": t("What sources say differently"), hidden: true });
    this.observer = new ResizeObserver(() => this.place());
  }

  /** Receipts for these sentences, each {range, citation, source, difference} with the range of its text. */
  draw(sentences) {
    this.observer.disconnect();
    this.placed = sentences.map(({ range, citation, source, difference }) => ({
      range,
      element: el("button", { type: "button", class: `receipt ${citation.verdict}`, onclick: () => this.open(citation) },
        el("span", { class: "receipt-host", dir: "auto" }, shortAddress(source.url)), differenceLine(difference)),
    }));
    this.element.replaceChildren(...this.placed.map(({ element }) => element));
    this.element.hidden = !this.placed.length;
    if (this.placed.length) this.observer.observe(this.element.parentElement);
  }

  clear() {
    this.draw([]);
  }

  /** Each beside the first line of its sentence, or below the receipt before it. */
  place() {
    if (!this.element.offsetParent) return;
    const { top } = this.element.getBoundingClientRect();
    const tops = this.placed.map(({ range }) => range.getBoundingClientRect().top - top);
    const heights = this.placed.map(({ element }) => element.offsetHeight);
    let free = 0;
    this.placed.forEach(({ element }, number) => {
      const position = Math.max(tops[number], free);
      element.style.top = `${position}px`;
      free = position + heights[number] + GAP_PX;
    });
  }
}
