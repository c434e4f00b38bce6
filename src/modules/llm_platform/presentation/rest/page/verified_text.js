// A text that somebody else wrote, in the form of an answer of ours: with a marker behind each sentence that has a source.

import { harmless, t } from "./texts.js";
import { shortAddress } from "./dom.js";
import { isDoubt } from "./verdicts.js";

const MIN_CHARS = 12; // of a stretch that counts as a sentence which is still to be checked
const TITLE_CHARS = 100;
const NUMBER_OF_LINE = /^[ \t>*+-]*\[\d{1,4}\]/gm; // it is shown as text: an entry of a list of sources begins so

/** The answer. `sentences` are those that are checked so far, with offsets in the text as sent; `sources` are its sources, and
`verified` is the server's result once it is there. */
export function asAnswer(text, sentences, sources, verified) {
  const points = [...text];
  const ordered = [...sentences].sort((one, other) => one.start - other.start);
  const shown = ordered.map((sentence) => ({ ...sentence, citations: citationsOf(sentence) }));
  const { synthesis, moved } = withMarkers(points, shown);
  const citations = shown.flatMap((sentence) => sentence.citations.map((citation) => ({ ...inText(citation, moved), sentence_verdict: sentence.verdict })));
  const uncited = shown.filter(({ is_cited: isCited, citations: found, verdict }) => !isCited && !found.length && ["unsupported", "absent"].includes(verdict));
  const spans = [...uncited.map((sentence) => ({ ...moved(sentence) })), ...(verified ? [] : stretchesBetween(points, ordered).map((stretch) => ({ ...moved(stretch), verdict: "pending" })))];
  return {
    query: titleOf(text), depth: "shallow", synthesis, citations, raw_results: [], isOpen: !verified,
    sources: sources.map((source) => ({ ...source, url: source.url ?? "", title: source.title || shortAddress(source.url ?? "") || t("no address") })),
    degraded: verified?.degraded ?? [],
    metadata: { language: "", synthesizer: "", providers: [], sent_to: [], ...verified?.metadata, uncited: spans, uncited_sentences: verified?.counts.uncited ?? 0 },
    toJSON: () => verified,
  };
}

/** What a sentence cites. Of one that cites nothing the page shows only what a source says on it. */
const citationsOf = ({ is_cited: isCited, citations }) =>
  citations.filter(({ verdict, difference }) => isCited || verdict === "supported" || verdict === "partial" || (isDoubt(verdict) && difference));

/** The text with the markers that it lacks, such as those of links, and a function that gives the place of a span in it. */
function withMarkers(points, sentences) {
  const added = new Map(); // by offset: the markers that are written there
  sentences.forEach(({ start, end, citations }, place) => {
    const next = sentences[place + 1]?.start ?? points.length;
    const line = points.indexOf("\n", end);
    const own = points.slice(start, Math.min(next, line < 0 ? points.length : line)).join("").replace(NUMBER_OF_LINE, "");
    const missing = [...new Set(citations.map(({ source_index: index }) => index))].filter((index) => !own.includes(`[${index}]`));
    if (missing.length) added.set(end, (added.get(end) ?? "") + missing.map((index) => ` [${index}]`).join(""));
  });
  const before = new Uint32Array(points.length + 2); // characters that are added before each offset
  for (let place = 0; place <= points.length; place += 1) before[place + 1] = before[place] + (added.get(place)?.length ?? 0);
  const synthesis = points.map((point, place) => (added.get(place) ?? "") + point).join("") + (added.get(points.length) ?? "");
  return { synthesis, moved: ({ start, end }) => ({ start: start + before[start + 1], end: end + before[end] }) };
}

/** A citation with its offsets in the text with markers. */
const inText = (citation, moved) => ({
  ...citation, ...moved(citation), cells: (citation.cells ?? []).map((cell) => ({ ...cell, ...moved(cell) })),
  difference: citation.difference && { ...citation.difference, claimed: moved(citation.difference.claimed) },
});

/** The parts of the text between the sentences that are checked. */
function stretchesBetween(points, sentences) {
  const ends = [{ end: 0 }, ...sentences];
  return ends
    .map(({ end }, place) => ({ start: end, end: sentences[place]?.start ?? points.length }))
    .filter(({ start, end }) => points.slice(start, end).join("").trim().length >= MIN_CHARS);
}

const titleOf = (text) => harmless(text.trim().split("\n")[0]).replace(/[#*_`]+/g, "").trim().slice(0, TITLE_CHARS);
