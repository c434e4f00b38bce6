// The evidence strip: one cell for each sentence of an answer, as wide as the sentence is long, in the colour of its verdict.

import { el, icon } from "./dom.js";
import { heldOf, quotesOf } from "./sentences.js";
import { plainWords } from "./source_text.js";
import { isRightToLeft, number, quotesLine, t } from "./texts.js";
import { VERDICTS, verdictWord } from "./verdicts.js";

const SENTENCE_END = /[.!?。！？](?=[\s\[]|$)|[。！？]|\n/g;
const MIN_CHARS = 12; // of a stretch that counts as a sentence while the text is written
const CROWDED = 160; // cells from which there is no gap between them
const BLOCKS = { supported: "▁", partial: "▄", absent: "▆", unsupported: "█", uncited: "░", unchecked: "▒", pending: "▒", quoted: "▁" };

const NOT_COMPARED = { uncited: () => t("no source"), pending: () => t("not checked yet") };

/** The verdict of a sentence in a few words. */
export const sentenceWord = ({ verdict, citation }) => NOT_COMPARED[verdict]?.() ?? verdictWord({ ...citation, verdict });

const verdictSign = (sentence) => {
  const isJudged = sentence.verdict in VERDICTS; // else there is nothing to judge: no source, or one that is still being read
  return el("span", { class: `badge ${isJudged ? sentence.verdict : "unchecked"}` }, isJudged && icon(sentence.verdict), sentenceWord(sentence));
};

/** "12 of 20 hold", or of an answer of quotes alone how many these are, and a line of one block character for each sentence, for
texts without colours. */
export const heldLine = (sentences) => {
  const quotes = quotesOf(sentences);
  if (quotes) return quotesLine(...quotes);
  const [held, all] = heldOf(sentences);
  return t("{n} of {all} hold", { n: number(held), all: number(all) });
};
export const blockLine = (sentences) => sentences.map(({ verdict }) => BLOCKS[verdict]).join("");

/** `show(sentence)` brings a sentence into view. */
export class EvidenceStrip {
  constructor(show) {
    this.show = show;
    this.sentences = [];
    this.seen = 0; // characters of a growing text that have their cells
    this.band = el("div", { class: "strip-band", role: "group", "aria-label": t("Evidence for each sentence") });
    this.count = el("summary", { class: "strip-count" });
    this.table = el("details", { class: "strip-table", hidden: true, ontoggle: () => this.table.open && this.#fillTable() }, this.count);
    this.name = el("p", { class: "strip-name", "aria-hidden": "true" });
    this.line = el("div", { class: "strip-line" }, this.table, this.name);
    this.element = el("div", { class: "strip" }, this.band, this.line); // its room is there before the first word
    for (const type of ["pointerover", "focusin"]) this.band.addEventListener(type, (event) => this.#named(event.target));
    for (const type of ["pointerleave", "focusout"]) this.band.addEventListener(type, () => this.#named(null));
    this.band.addEventListener("click", ({ target }) => this.sentences[this.#place(target)] && this.show(this.sentences[this.#place(target)]));
    this.band.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Grey cells for the sentences that a growing text has got. */
  grow(text) {
    if (text.length < this.seen) this.clear();
    SENTENCE_END.lastIndex = this.seen;
    for (let end = SENTENCE_END.exec(text); end; end = SENTENCE_END.exec(text)) {
      const length = end.index + end[0].length - this.seen;
      if (length >= MIN_CHARS) this.#addGrey(length);
      this.seen = end.index + end[0].length;
    }
  }

  clear() {
    this.seen = 0;
    this.sentences = [];
    this.band.replaceChildren();
    this.table.hidden = true;
  }

  /** The cells take their colours; `text` is what the sentences point into. */
  setSentences(sentences, text) {
    this.sentences = sentences.map((sentence) => ({ ...sentence, text: plainWords(text.slice(sentence.start, sentence.end)).replace(/(?<!\s)\s*\[\d{1,4}\]/g, "").trim() }));
    const cells = this.sentences.map((sentence, place) => {
      const cell = el("button", { type: "button", class: "cell", tabindex: place ? "-1" : "0", "aria-label": `${number(place + 1)}: ${sentenceWord(sentence)}` });
      this.#draw(cell, sentence.end - sentence.start);
      cell.dataset.verdict = sentence.verdict;
      return cell;
    });
    this.band.replaceChildren(...cells);
    this.band.classList.toggle("crowded", cells.length > CROWDED);
    this.count.textContent = heldLine(sentences);
    this.table.hidden = !cells.length;
    if (this.table.open) this.#fillTable();
  }

  #addGrey(length) {
    const cell = el("span", { class: "cell" });
    this.#draw(cell, length);
    this.band.append(cell);
  }

  #draw(cell, length) {
    cell.style.flexGrow = length;
  }

  #place(cell) {
    return [...this.band.children].indexOf(cell);
  }

  #named(cell) {
    const sentence = this.sentences[this.#place(cell)];
    this.name.textContent = sentence ? `${sentenceWord(sentence)} · ${sentence.text}` : "";
    this.element.classList.toggle("naming", Boolean(sentence));
  }

  /** One stop of the Tab key: arrows move between the cells. */
  #move(event) {
    const step = isRightToLeft() ? -1 : 1;
    const now = this.#place(document.activeElement);
    const last = this.band.children.length - 1;
    const next = { ArrowRight: now + step, ArrowLeft: now - step, Home: 0, End: last }[event.key];
    const cell = this.band.children[Math.min(Math.max(next, 0), last)];
    if (now < 0 || !cell) return;
    event.preventDefault();
    document.activeElement.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  }

  #fillTable() {
    const heads = [t("Sentence"), t("Verdict"), t("Source")];
    const row = (sentence) => el("tr", {},
      el("td", { dir: "auto" }, el("button", { type: "button", class: "link", onclick: () => this.show(sentence) }, sentence.text)),
      el("td", {}, verdictSign(sentence)), el("td", {}, sentence.citation ? `[${sentence.citation.source_index}]` : "–"));
    const old = this.table.querySelector(".scroller");
    const made = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": t("Evidence for each sentence") },
      el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, this.sentences.map(row))));
    if (old) old.replaceWith(made);
    else this.table.append(made);
  }
}
