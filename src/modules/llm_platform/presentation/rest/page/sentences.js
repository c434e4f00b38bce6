// The sentences of an answer with their verdicts: what the lines, the evidence strip and the copied text show.

import { unitOffsets } from "./dom.js";
import { cellVerdicts, isDoubt, isHeld, WORST_FIRST } from "./verdicts.js";

/** Spans with offsets in UTF-16 units in the place of code points; `sent` is the span as the server sent it. */
export function placedSpans(text, spans) {
  const unit = unitOffsets(text);
  const placed = (list) => (list ?? []).map((span) => ({ ...span, start: unit(span.start), end: unit(span.end), sent: span }));
  return placed(spans).map((span) => (span.cells ? { ...span, cells: placed(span.cells) } : span));
}

/** For a marker, the citation of the statement that it stands behind or in, as the server sent it; null without one. */
export function citationFinder(placed) {
  const bySource = Map.groupBy(placed, (citation) => citation.source_index);
  return (index, position) => {
    const before = (bySource.get(index) ?? []).filter((citation) => citation.start <= position);
    return before.reduce((best, citation) => (best && citation.start < best.start ? best : citation), null)?.sent ?? null;
  };
}

/** The sentences in their order, each {start, end, verdict, citation, sources}. `verdict` is "uncited" for one without a source, and
"pending" for one whose sources are still being read. Statements
that overlap are clauses of one sentence, which has the worst of their verdicts. */
export function sentencesOf(placed, uncited) {
  const statements = [...Map.groupBy(placed, ({ start, end }) => `${start} ${end}`).values()].map(statementOf);
  const all = [...statements, ...uncited.map(({ start, end, verdict = "uncited" }) => ({ start, end, verdict, citation: null, sources: [], isRow: false }))];
  const sentences = [];
  for (const statement of all.sort((one, other) => one.start - other.start || other.end - one.end)) {
    const last = sentences.at(-1);
    if (!last || statement.start >= last.end) sentences.push({ ...statement });
    else Object.assign(last, statement.verdict !== "uncited" && isWorse(statement, last) && { ...statement, start: last.start },
      { end: Math.max(last.end, statement.end), sources: [...last.sources, ...statement.sources] });
  }
  return sentences;
}

/** How many quotes from how many sources an answer of quotes alone has; null for another text. */
export function quotesOf(sentences) {
  if (!sentences.length || sentences.some(({ verdict }) => verdict !== "quoted")) return null;
  return [sentences.length, new Set(sentences.flatMap(({ sources }) => sources)).size];
}

/** How many sentences their sources support, of how many. */
export const heldOf = (sentences) => [sentences.filter(({ verdict }) => isHeld(verdict)).length, sentences.filter(({ verdict }) => verdict !== "pending").length];

const rank = (verdict) => WORST_FIRST.indexOf(verdict);
const isWorse = (one, other) => other.verdict === "uncited" || rank(one.verdict) < rank(other.verdict);
const worst = (list) => list.reduce((found, item) => (rank(item.verdict) < rank(found.verdict) ? item : found));

/** One source that supports a statement is enough; a row of a table is as good as the weakest of its cells. The server says the
verdict of a sentence that somebody else wrote. */
function statementOf(citations) {
  const { start, end, sentence_verdict: known } = citations[0];
  const sources = citations.map(({ source_index: index }) => index);
  const deciding = citations.filter(({ verdict }) => verdict === known);
  if (known) return { start, end, sources, isRow: citations.some(({ cells }) => cells?.length), verdict: known, citation: (deciding.find(({ difference }) => difference) ?? deciding[0] ?? citations[0]).sent };
  const isRow = citations.some(({ cells }) => cells?.length);
  const held = citations.filter(({ verdict, cells }) => isHeld(verdict) && !cells?.length);
  const supporting = held.find(({ verdict }) => verdict === "quoted") ?? held[0];
  const cells = isRow ? cellVerdicts(citations) : [];
  const chosen = supporting ?? (cells.length ? worst(cells) : worst(citations));
  return { start, end, sources, isRow, verdict: chosen.verdict, citation: (supporting ?? (cells.length ? chosen.citation : chosen)).sent };
}

export const doubtedOf = (sentences) => sentences.filter(({ verdict }) => isDoubt(verdict));
