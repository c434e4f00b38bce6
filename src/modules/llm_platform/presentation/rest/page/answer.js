// The text of an answer: it grows with the tokens, in steps so short that the page never stops, and keeps what has not changed.

import { copyButton } from "./actions.js";
import { attachCard } from "./citation_card.js";
import { el, icon, pause, Step } from "./dom.js";
import { blocksOf, texOf } from "./markdown.js";
import { citationFinder, doubtedOf, placedSpans, sentencesOf } from "./sentences.js";
import { t } from "./texts.js";
import { differenceOf, Receipts } from "./receipts.js";
import { EvidenceStrip } from "./strip.js";
import { placedCharacters, rangeOf, Underlines } from "./underlines.js";
import { cellVerdicts, isDoubt, isHeld, ofCell, quotedPassage, verdictWord, WORST_FIRST } from "./verdicts.js";

const OPEN_BLOCKS = 2; // at the end of a text that grows: what follows may change them, as a line of === makes a heading
const REST = 3; // between two drawings of a growing text, in times of what the last one took
const MAX_REST_MS = 150;
const LINE_START = /(?:^|\n)[ \t>*+-]*$/; // before the number of an entry of a list of sources, which cites nothing
const MAX_LANGUAGE_CHARS = 20; // of the name of a block's language

export class AnswerText {
  /** `waiting()` says why a marker has no verdict yet; with `keepsLines` the lines of the text end where they end. */
  constructor(openQuote, { waiting, keepsLines = false } = {}) {
    this.element = el("div", { class: "answer", dir: "auto" });
    this.openQuote = openQuote;
    this.waiting = waiting;
    this.keepsLines = keepsLines;
    this.element.classList.toggle("pasted", keepsLines);
    this.isOpen = false; // whether more verdicts come
    this.strip = new EvidenceStrip((sentence) => this.#showSentence(sentence));
    this.receipts = new Receipts((citation) => openQuote(citation.source_index, citation, false));
    this.texts = []; // of the sources, by their numbers less one, where the page holds them
    this.lines = new Underlines();
    this.sources = new Map();
    this.shown = []; // the blocks on the page, each with its nodes
    this.drawing = 0; // counts up: only the last one goes on
    this.scheduled = 0;
    this.took = 0;
    this.isLeft = false;
    this.#begin("");
  }

  #begin(text) {
    this.text = text;
    this.blocks = []; // of the text when it was drawn last
    this.links = { keepsLines: this.keepsLines };
    this.judge = null; // while it is written, a marker has no verdict
    this.cells = []; // of the rows of tables, each with its best verdict
  }

  setSources(sources) {
    for (const source of sources) this.sources.set(source.index, source);
  }

  append(text) {
    this.text += text;
    const later = () => requestAnimationFrame(() => this.scheduled && this.#draw());
    this.scheduled ||= setTimeout(later, Math.min(this.took * REST, MAX_REST_MS));
  }

  reset() {
    this.#begin("");
    this.strip.clear();
    this.receipts.clear();
    this.#draw();
  }

  /** Draw nothing more, and take the lines from the text, which goes from the page. */
  leave() {
    this.isLeft = true;
    clearTimeout(this.scheduled);
    this.lines.clear();
    this.receipts.clear();
  }

  /** Show the verdicts on the text so far. */
  setCitations(citations) {
    return this.#finish(this.text, citations);
  }

  /** Show the whole answer with its verdicts; done when all of it is on the page. */
  finish(response) {
    this.setSources(response.sources);
    this.isOpen = Boolean(response.isOpen);
    if (response.depth !== "report") this.texts = (response.raw_results ?? []).map((each) => each.content);
    this.element.lang = response.metadata.language;
    return this.#finish(response.synthesis, response.citations, response.metadata.uncited);
  }

  async #finish(text, citations, uncited) {
    const placed = placedSpans(text, citations);
    this.#begin(text);
    this.judge = citationFinder(placed);
    this.cells = cellVerdicts(placed);
    const statements = sentencesOf(placed, placedSpans(text, uncited));
    this.strip.setSentences(statements, text);
    if (!(await this.#draw())) return;
    await pause();
    if (this.text === text && !this.isLeft) this.#markPlaces(placedSpans(text, uncited).filter(({ verdict }) => verdict !== "pending"), statements);
  }

  /** Lines under what is doubted or cites nothing, and a sign at each cell of a table that its sources do not support. */
  #markPlaces(uncited, statements) {
    const { cells } = this;
    const sentences = statements.filter(({ isRow }) => !isRow);
    const doubted = [...doubtedOf(sentences), ...cells.filter(({ verdict }) => isDoubt(verdict))];
    const places = cells.length + doubted.length + uncited.length ? placedCharacters(this.element, this.text) : [];
    this.lines.draw(places, doubted, uncited);
    this.#drawReceipts(doubtedOf(sentences), places);
    for (const old of this.element.querySelectorAll(".cite.cell")) old.remove();
    for (const { start, end, verdict, sent, citation } of cells) {
      const element = places.slice(start, end).find(Boolean)?.node.parentElement.closest("td, th");
      if (!isHeld(verdict) && element) element.append(this.#cellButton(ofCell(citation.sent, sent)));
    }
  }

  #drawReceipts(doubted, places) {
    const told = doubted.map((sentence) => {
      const { citation } = sentence;
      return { citation, source: this.sources.get(citation.source_index), range: rangeOf(places.slice(sentence.start, sentence.end)),
        difference: differenceOf(citation, this.text, this.texts[citation.source_index - 1]) };
    });
    this.receipts.draw(told.filter(({ difference, range }) => difference && range));
  }

  /** Bring a sentence into view, with the focus on its first marker, and mark it for a moment. */
  #showSentence({ start, end }) {
    const range = rangeOf(placedCharacters(this.element, this.text).slice(start, end));
    if (!range) return;
    const shown = range.startContainer.parentElement;
    const { top, height } = range.getBoundingClientRect();
    scrollBy({ top: top + height / 2 - innerHeight / 2, behavior: "instant" });
    this.lines.point(range);
    const [marker] = [...this.element.querySelectorAll(".cite")].filter((button) => range.comparePoint(button, 0) >= 0);
    if (marker && shown.closest("p, li, td, th, h2, h3")?.contains(marker)) marker.focus({ preventScroll: true });
  }

  #cellButton(citation) {
    const index = citation.source_index;
    const about = { index, source: this.sources.get(index), citation, text: this.texts[index - 1], synthesis: this.text, open: () => this.openQuote(index, citation, false) };
    const label = t("Source {n}, {verdict}: show the quote", { n: index, verdict: verdictWord(citation, about.text) });
    const button = el("button", { type: "button", class: `cite cell ${citation.verdict}`, "aria-label": label, "aria-haspopup": "dialog" },
      icon(citation.verdict));
    attachCard(button, about);
    return button;
  }

  /** Bring the page to the text; false where a later drawing took over. */
  async #draw() {
    clearTimeout(this.scheduled);
    this.scheduled = 0;
    const number = (this.drawing += 1);
    const began = performance.now();
    if (!this.judge) this.strip.grow(this.text);
    this.lines.clear();
    const step = new Step();
    for (const work of [this.#place(), this.#mark()])
      for (const _ of work) {
        if (step.hasTime) continue;
        await step.next();
        if (number !== this.drawing || this.isLeft) return false;
      }
    this.took = performance.now() - began;
    return true;
  }

  /** The blocks of the text. Of one that grows, only the end is read again. */
  #split() {
    const settled = this.blocks.slice(0, -OPEN_BLOCKS);
    const from = this.blocks[settled.length]?.start ?? 0;
    const rest = blocksOf(this.text.slice(from), new Set(this.sources.keys()), this.links);
    this.blocks = [...settled, ...rest.map((block) => ({ ...block, start: block.start + from }))];
    return this.blocks;
  }

  /** Put the blocks on the page, one for each step; those that are there at the beginning and at the end stay. */
  *#place() {
    const { shown } = this;
    const blocks = this.#split();
    yield;
    const isSame = (one, other) => one?.key === other?.key;
    let first = 0;
    while (first < shown.length && first < blocks.length && isSame(shown[first], blocks[first])) first += 1;
    let last = 0;
    while (last < Math.min(shown.length, blocks.length) - first && isSame(shown.at(-1 - last), blocks.at(-1 - last))) last += 1;
    for (let place = first; place < blocks.length - last; place += 1) {
      const old = place < shown.length - last ? shown[place] : null;
      const isGrown = old?.head && old.head === blocks[place].head;
      if (!isGrown) shown.splice(place, old ? 1 : 0, this.#shownBlock(blocks[place], old, shown[place]));
      if (blocks[place].parts) yield* this.#placeRows(shown[place], blocks[place]);
      else yield;
    }
    for (const gone of shown.splice(blocks.length - last, shown.length - blocks.length)) remove(gone);
    blocks.forEach(({ start }, place) => { shown[place].start = start; });
  }

  /** Bring the rows of a table or the items of a list to the page, some at a time; those at its beginning that are there stay. */
  *#placeRows(made, { start, key, parts }) {
    Object.assign(made, { start, key: "" }); // until all of it is there
    let first = 0;
    while (first < made.parts.length && made.parts[first].key === parts[first]?.key) first += 1;
    for (const { rows } of made.parts.splice(first)) for (const row of rows) row.remove();
    const holder = holderOf(made.nodes[0]);
    for (const part of parts.slice(first)) {
      const drawn = this.#drawn(part.fragment, start);
      const rows = [...holderOf(drawn.fragment.firstElementChild).children];
      holder.append(...rows);
      made.parts.push({ key: part.key, rows, markers: drawn.markers });
      made.markers = [...made.ownMarkers, ...made.parts.flatMap(({ markers }) => markers)];
      yield;
    }
    made.key = key;
  }

  /** The elements of a block, or of a part of one, which begins at `start`, with their markers. */
  #drawn(draw, start, source = "") {
    const markers = [];
    const fragment = draw((index, place) => {
      if (this.keepsLines && LINE_START.test(source.slice(0, place))) return `[${index}]`;
      markers.push({ place, ...this.#marker(index) });
      return [markerText(index), markers.at(-1).button];
    });
    for (const code of fragment.querySelectorAll("pre")) dress(code);
    fragment.querySelectorAll(".formula").forEach(setFormula);
    if (this.judge) this.#judge({ start, markers });
    return { fragment, markers };
  }

  /** The block on the page: in the place of an old one, or before the next. A table has no rows below its head yet, a long list no items. */
  #shownBlock(block, old, next) {
    const { fragment, markers } = this.#drawn(block.headFragment ?? block.fragment, block.start, block.source);
    const made = { key: block.key, head: block.head, parts: [], start: block.start, markers, ownMarkers: markers, nodes: [...fragment.childNodes] };
    this.element.insertBefore(fragment, (old ?? next)?.nodes[0] ?? null);
    if (old) remove(old);
    return made;
  }

  *#mark() {
    if (!this.judge) return;
    for (const block of this.shown) {
      this.#judge(block);
      yield;
    }
  }

  /** Give the markers of a block their verdicts, in place. */
  #judge(block) {
    for (const { place, about, button } of block.markers) {
      const position = block.start + place;
      const citation = this.judge(about.index, position) ?? quotedPassage(this.text, position, about.index, this.texts[about.index - 1]);
      if (!citation && this.isOpen) continue;
      if (!about.isWriting && about.citation === citation && about.text === this.texts[about.index - 1]) continue;
      Object.assign(about, { citation, synthesis: this.text, isWriting: false, text: this.texts[about.index - 1], source: this.sources.get(about.index) });
      const isByCell = citation?.cells?.length > 0;
      const verdict = isByCell ? this.#rowVerdict(citation) : citation?.verdict ?? "unchecked";
      const word = isByCell ? t("compared cell by cell") : verdictWord(citation, about.text);
      button.className = `cite ${isByCell ? "by-cell " : ""}${verdict}`;
      button.setAttribute("aria-label", t("Source {n}, {verdict}: show the quote", { n: about.index, verdict: word }));
      button.replaceChildren(...(isByCell || isHeld(verdict) ? [] : [icon(verdict)]));
    }
  }

  /** The verdict of the weakest cell of a row, each cell as its best source has it. */
  #rowVerdict({ start, end }) {
    const ofRow = this.cells.filter(({ sent }) => sent.start >= start && sent.end <= end).map(({ verdict }) => verdict);
    return WORST_FIRST.find((verdict) => ofRow.includes(verdict)) ?? "supported"; // of a row that a source supports as a whole
  }

  #marker(index) {
    const about = { index, source: this.sources.get(index), citation: null, isWriting: true, waiting: this.waiting };
    about.open = () => this.openQuote(index, about.citation, about.isWriting);
    const button = el("button", {
      type: "button", class: "cite pending", "data-number": index, "aria-label": t("Source {n}, not checked yet", { n: index }), "aria-haspopup": "dialog",
    });
    attachCard(button, about);
    return { button, about };
  }
}

/** The marker as text, for a selection, a reader view and a translator: the style sheet shows the number on the button instead. */
const markerText = (index) => el("span", { class: "marker-text" }, ` [${index}]`);

/** What the rows of a table, or the items of a list, stand in. */
const holderOf = (element) => (element.matches("ul, ol") ? element : element.querySelector("tbody"));

function remove(block) {
  for (const node of block.nodes) node.remove();
}

/** A block of code, with a button that copies it and in colours, whose rules are loaded with the first block. */
function dress(block) {
  const frame = el("div", { class: "code" });
  block.replaceWith(frame);
  const language = block.dataset.language?.slice(0, MAX_LANGUAGE_CHARS);
  frame.append(language ? el("span", { class: "code-language", dir: "ltr" }, language) : "", copyButton(t("Copy"), () => block.textContent), block);
  const code = block.querySelector("code") ?? block;
  if (block.dataset.language) import("./highlight.js").then(({ highlight }) => highlight(code, block.dataset.language));
}

let formulas = null; // the module, once it is loaded: then nothing waits

/** Set a formula, at once where that is loaded. */
function setFormula(element) {
  const formula = { element, tex: texOf(element), isDisplay: element.classList.contains("display") };
  if (formulas) formulas.typeset(formula);
  else import("./formulas.js").then((loaded) => {
    formulas = loaded;
    loaded.typeset(formula);
  }, () => {}); // it stays as it is written
}
