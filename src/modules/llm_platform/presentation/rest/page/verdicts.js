// What the page says about a verdict: in words that are true of what was compared with what.

import { el, icon } from "./dom.js";
import { number, t } from "./texts.js";

export const VERDICTS = {
  supported: () => t("supported"),
  partial: () => t("partly supported"),
  unsupported: () => t("contradicted"),
  absent: () => t("not found"),
  unchecked: () => t("not checked"),
  quoted: () => t("quoted word for word"),
};
/** Why a source that a text cites was not read. */
export const SOURCE_STATES = {
  dead: () => t("There is no such page."),
  refused: () => t("The page may not be read."),
  no_text: () => t("No text of this source could be read."),
  late: () => t("The page was not read in time."),
  unread: () => t("The page could not be read."),
};
export const isDoubt = (verdict) => ["unsupported", "absent", "partial"].includes(verdict);
export const isHeld = (verdict) => verdict === "supported" || verdict === "quoted";

export const WORST_FIRST = ["unsupported", "absent", "partial", "unchecked", "supported", "quoted"];

/** The cells of rows of tables, each with the best verdict that a source gives it, and that source's citation; none of a row
that a source supports as a whole. */
export function cellVerdicts(citations) {
  const whole = new Set(citations.filter((each) => isHeld(each.verdict) && !each.cells?.length).map((each) => each.start));
  const best = new Map();
  for (const citation of citations)
    for (const cell of whole.has(citation.start) ? [] : citation.cells ?? []) {
      const known = best.get(cell.start)?.verdict;
      if (WORST_FIRST.indexOf(cell.verdict) > WORST_FIRST.indexOf(known)) best.set(cell.start, { ...cell, citation });
    }
  return [...best.values()];
}

/** The citation as it is about a cell: cells are compared by words, also where a model judged the row. */
export const ofCell = (citation, { start, end, verdict }) => ({ ...citation, start, end, verdict, checked_by: "words", cells: [] });

const LINE_MARK = /^[ \t]*(?:[-*+]|\d{1,4}[.)])[ \t]+/;
const BETWEEN_WORDS = "[\\s`*_|]+";
const escaped = (word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** The citation of a passage that an answer quotes and does not state, as the nearest one: nothing was checked, but its line
up to the marker at `position` stands in the source. Null where it does not. */
export function quotedPassage(text, position, index, source) {
  const begin = text.lastIndexOf("\n", position - 1) + 1;
  const start = begin + (LINE_MARK.exec(text.slice(begin, position))?.[0].length ?? 0);
  const words = text.slice(start, position).split(/[\s`*_|]+/).filter(Boolean);
  const found = words.length > 1 && source ? new RegExp(words.map(escaped).join(BETWEEN_WORDS)).exec(source) : null;
  if (!found) return null;
  const points = (all, units) => [...all.slice(0, units)].length; // offsets count code points
  const quote = found[0];
  return {
    source_index: index, verdict: "quoted", checked_by: "words", cells: [], quote,
    start: points(text, start), end: points(text, start + text.slice(start, position).trimEnd().length),
    quote_start: points(source, found.index), quote_end: points(source, found.index + quote.length),
  };
}

/** The verdict in a few words. `text` is that of the source where the page holds it, else undefined. */
export function verdictWord(citation, text) {
  if (["unsupported", "absent"].includes(citation?.verdict) && citation.checked_by !== "model") {
    if (citation.checked_against === "snippet") return citation.verdict === "absent" ? t("not found in the search excerpt") : t("the excerpt says otherwise");
    if (citation.difference && citation.verdict === "unsupported") return t("the source says otherwise");
    return citation.checked_against === "document" ? t("not found in the document") : t("not found in the page");
  }
  if (citation?.verdict !== "unchecked") return VERDICTS[citation?.verdict ?? "unchecked"]();
  if (citation.checked_against === "snippet") return t("not found in the search excerpt");
  if (citation.quote || text?.trim()) return t("not compared: another language");
  return text === undefined ? t("not checked") : t("not compared: no text of the source");
}

const READ_IN_PART = 0.25; // Below this share of a page's text, what is missing may say it. Menus alone are often a half.

/** The verdict in a sentence, for a row of a table what was compared, and for a doubt how much of the page was read. */
export function explanation(citation, text, source) {
  let told = SOURCE_STATES[source?.state]?.() ?? sentence(citation, text);
  const isInPart = typeof source?.extraction === "number" && source.extraction < READ_IN_PART;
  if (isInPart && ["unsupported", "absent"].includes(citation?.verdict))
    told += ` ${t("Only {share} % of the visible text of the page was read.", { share: Math.round(source.extraction * 100) })}`;
  if (!citation?.cells?.length) return told;
  return `${told} ${t("A row of a table is compared cell by cell: this is the verdict on its weakest cell.")}`;
}

function sentence(citation, text) {
  const isSnippet = citation?.checked_against === "snippet";
  switch (citation?.verdict) {
    case "supported": return citation.is_verbatim ? t("The source says this word for word.") : t("The source says this.");
    case "quoted": return t("These are words of the source. It may say nothing on the question.");
    case "partial": return t("The source says a part of this, or says it in other words.");
    case "unsupported":
    case "absent":
      if (citation.difference && citation.verdict === "unsupported") return t("The source says otherwise.");
      return isSnippet ? t("The page was not read, and the excerpt of the search engine says something else.")
        : t("The source does not say this, or says it differently.");
  }
  if (isSnippet) return t("The page was not read, and the excerpt of the search engine does not say this.");
  if (citation?.quote || (citation && text?.trim())) return t("The answer and the source are in different languages, and no model compared them.");
  return t("The text of the source could not be compared.");
}

/** The page of a PDF on which the quote stands, behind what names the source. */
export const pageOf = (citation) => (citation?.page ? ` · ${t("p. {n}", { n: number(citation.page) })}` : "");

export const verdictBadge = (citation, text) =>
  el("span", { class: `badge ${citation?.verdict ?? "unchecked"}` }, icon(citation?.verdict ?? "unchecked"), verdictWord(citation, text));
