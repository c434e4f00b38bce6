// The quote behind a citation, inside the text of its source.

import { errorParts, getSource, Refused } from "./api.js";
import { byId, el, icon, shortAddress, sourceLink, unitOffsets } from "./dom.js";
import { sourceText } from "./source_text.js";
import { harmless, t } from "./texts.js";
import { explanation, ofCell, pageOf, verdictBadge, VERDICTS } from "./verdicts.js";

const NOT_FOUND = 404;

const CHECKERS = {
  model: (verdict) => t("Checked by a language model; the comparison of words said: {verdict}.", { verdict }),
  encoder: (verdict) => t("Checked by the built-in model, which reads meaning; the comparison of words said: {verdict}.", { verdict }),
};

/** Reads the texts of the sources of one research run, each once. */
export class SourceTexts {
  constructor() {
    this.id = "";
    this.response = null;
    this.loaded = new Map();
  }

  /** The text, or null when it is not stored any more; an error is not kept, so that the next look asks again. */
  async get(index) {
    if (!this.loaded.has(index)) this.loaded.set(index, this.#load(index));
    try {
      return await this.loaded.get(index);
    } catch (error) {
      this.loaded.delete(index);
      throw error;
    }
  }

  /** The text where the answer came with it, else undefined. */
  held(index) {
    return this.response?.depth === "report" ? undefined : this.response?.raw_results?.[index - 1]?.content;
  }

  async #load(index) {
    const held = this.held(index);
    if (held !== undefined) return held;
    try {
      return (await getSource(this.id, index)).text;
    } catch (error) {
      if (error instanceof Refused && error.status === NOT_FOUND) return null;
      throw error;
    }
  }
}

/** Open the dialog on a source; `citation` is null where there is nothing to compare, undefined where nothing is cited. `cells`
are those of a row of a table, with their texts; `difference` is what the source says in the place of which words;
`words` are other ones for a text that is no answer. */
export async function openQuote({ source, citation, statement, difference, cells, texts, isWriting, words = {} }) {
  const dialog = byId("quote");
  const body = el("div", { class: "source-text", tabindex: "0", role: "region", "aria-label": t("Text of the source") });
  const verdict = citation?.verdict ?? "unchecked";
  const held = texts.held(source.index);
  dialog.replaceChildren(...[
    el("div", { class: "dialog-head" },
      el("h2", { id: "quote-title", tabindex: "-1" },
        el("span", { class: "number" }, String(source.index)), el("span", { dir: "auto" }, source.title || shortAddress(source.url))),
      el("button", { type: "button", class: "quiet round", "aria-label": t("Close"), onclick: () => dialog.close() }, icon("close"))),
    el("p", { class: "address" }, sourceLink(citation?.quote_url ?? source.url, shortAddress(source.url)), /^https?:/i.test(source.url) && icon("out")),
    isWriting
      ? el("p", { class: "hint" }, words.waiting ?? t("The answer is still being written. Citations are checked at its end."))
      : citation !== undefined && el("div", { class: `verdict ${verdict}` },
        el("p", {}, verdictBadge(citation, held), explanation(citation, held, source)),
        citation && verdict !== "quoted" && el("p", { class: "muted" }, CHECKERS[citation.checked_by]?.(VERDICTS[citation.word_verdict ?? verdict]()) ?? t("Checked by comparing words.")),
        citation?.cited_by === "platform" && el("p", { class: "muted" }, t("The model named no source here; the platform found this one."))),
    statement && el("div", {}, el("h3", {}, words.statement ?? t("In the answer")), el("blockquote", { dir: "auto" }, difference ? [difference.before, el("mark", {}, difference.claimed), difference.after] : statement),
      cells.length > 0 && el("ul", { class: "cells" }, cells.map((cell) => el("li", {},
        verdictBadge(ofCell(citation, cell), held), " ", el("span", { dir: "auto" }, cell.text))))),
    !isWriting && el("h3", {}, t("In the source"), pageOf(citation)),
    !isWriting && body,
  ].filter(Boolean));
  dialog.onclick = (event) => event.target === dialog && dialog.close(); // beside it
  dialog.showModal();
  byId("quote-title").focus();
  if (isWriting) return;
  body.setAttribute("aria-busy", "true");
  let text = null;
  let missing = words.missing ?? t("The whole text is not stored any more.");
  try {
    text = await texts.get(source.index);
  } catch (error) {
    missing = errorParts(error);
  }
  body.removeAttribute("aria-busy");
  fill(body, text, citation, missing);
  if (difference) markFound(body.querySelector("mark"), difference.found);
}

/** Mark the words of the source that stand in the place of those of the answer. */
function markFound(quote, found) {
  const node = quote?.firstChild;
  const position = found && node?.nodeType === Node.TEXT_NODE ? node.data.indexOf(found) : -1;
  if (position < 0) return;
  const words = node.splitText(position);
  words.splitText(found.length);
  const mark = el("mark", { class: "found" });
  words.replaceWith(mark);
  mark.append(words);
}

/** `missing` says why there is no text. */
function fill(body, text, citation, missing) {
  const place = text && citation?.quote ? placeOf(text, citation) : null;
  if (place) {
    body.append(...sourceText(text, place));
    // The text scrolls within the dialog; the page stays where it is.
    const mark = body.querySelector("mark");
    if (mark) body.scrollTop += mark.getBoundingClientRect().top - body.getBoundingClientRect().top - body.clientHeight / 3;
    return;
  }
  if (citation?.quote) body.append(el("mark", {}, harmless(citation.quote)));
  else if (text) body.append(...sourceText(text, null));
  if (citation && !citation.quote) body.before(el("p", { class: "hint" }, t("No passage of the source fits this statement.")));
  if (!text) body.append(el("div", { class: "hint" }, missing));
}

function placeOf(text, citation) {
  const unit = unitOffsets(text);
  const [start, end] = [unit(citation.quote_start), unit(citation.quote_end)];
  if (text.slice(start, end) === citation.quote) return [start, end];
  const found = text.indexOf(citation.quote);
  return found < 0 ? null : [found, found + citation.quote.length];
}
