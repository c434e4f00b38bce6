// An answer as a picture: its question, the evidence strip, and the worst doubt with what the source says. It is drawn as SVG in
// the page and painted from there on a canvas; nothing is sent.

import { el, shortAddress } from "./dom.js";
import { fileName, saveFile } from "./export_files.js";
import { differenceOf } from "./receipts.js";
import { placedSpans, sentencesOf } from "./sentences.js";
import { plainWords } from "./source_text.js";
import { heldLine, sentenceWord } from "./strip.js";
import { day, isRightToLeft, withoutMarks } from "./texts.js";
import { isDoubt, pageOf, WORST_FIRST } from "./verdicts.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, EDGE] = [1200, 630, 72]; // pixels, as cards of links have them
const STRIP_TOP = 300;
const STRIP_HEIGHT = 24;
const TITLE = { size: 46, weight: 650, lines: 3, leading: 58 };
const DOUBT = { size: 30, weight: 400, lines: 3, leading: 44 };
const FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const COLOURS = { ground: "#fbfbfa", text: "#1d1d1b", muted: "#5f5f5a", line: "#dededa", supported: "#176639", partial: "#d9921a", absent: "#d9921a", unsupported: "#d0342c", quoted: "#8b8b86", grey: "#8b8b86" };
const HEIGHTS = { supported: 8, quoted: 8, partial: 15, absent: 18 }; // of cells, in pixels; cells of other verdicts are full
const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
const SCALE = 2; // pixels of the PNG for one of the SVG

/** Save the answer as a picture of this kind: `svg` or `png`. `texts` are those of the sources where the page holds them. */
export async function savePicture(response, kind, texts) {
  const svg = new XMLSerializer().serializeToString(drawn(response, texts));
  const blob = kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await painted(svg);
  saveFile(`${fileName(response.query)}.${kind}`, blob);
}

/** The SVG as a PNG. The policy of the page allows images as `data:` addresses, and no `blob:` ones. */
async function painted(svg) {
  const image = el("img", { src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`, alt: "" });
  await image.decode();
  const canvas = el("canvas", { width: WIDTH * SCALE, height: HEIGHT * SCALE });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the browser made no picture"))), "image/png"));
}

function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(response, texts) {
  const { synthesis, citations, metadata, query } = response;
  const sentences = sentencesOf(placedSpans(synthesis, citations), placedSpans(synthesis, metadata.uncited));
  const title = lines([{ text: query }], TITLE);
  const doubt = worstOf(sentences);
  return node("svg", { xmlns: SVG, width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "font-family": FAMILY },
    node("title", {}, query),
    node("rect", { width: WIDTH, height: HEIGHT, fill: COLOURS.ground }),
    node("g", { transform: `translate(0 ${(title.length - TITLE.lines) * TITLE.leading / 2})` }, // as much room above as below
      ...block(title, TITLE, STRIP_TOP - 44 - (title.length - 1) * TITLE.leading, COLOURS.text),
      ...strip(sentences),
      ...(sentences.length ? block([[{ text: withoutMarks(heldLine(sentences)), weight: 650 }]], { ...DOUBT, size: 26 }, STRIP_TOP + STRIP_HEIGHT + 44, COLOURS.text) : []),
      ...(doubt ? receipt(response, doubt, texts) : [])),
    ...block([[{ text: ["llm-platform", day(metadata.stored_at ?? new Date().toISOString())].filter(Boolean).join(" · ") }]], { ...DOUBT, size: 22 }, HEIGHT - 36, COLOURS.muted, isRightToLeft()));
}

/** The first of the sentences with the worst verdict that a source has, where one is doubted: one whose words are known first. */
function worstOf(sentences) {
  const doubted = sentences.filter(({ verdict, citation }) => citation && isDoubt(verdict));
  const worth = ({ verdict, citation }) => WORST_FIRST.indexOf(verdict) * 2 + (citation.difference ? 0 : 1);
  return doubted.reduce((worst, sentence) => (worst && worth(worst) <= worth(sentence) ? worst : sentence), null);
}

function strip(sentences) {
  const all = sentences.reduce((sum, { start, end }) => sum + end - start, 0);
  const room = WIDTH - 2 * EDGE;
  const gap = sentences.length > 160 ? 0 : 2;
  let position = 0;
  const cells = sentences.flatMap(({ start, end, verdict }) => {
    const width = Math.max((room * (end - start)) / all - gap, 1);
    const x = isRightToLeft() ? WIDTH - EDGE - position - width : EDGE + position;
    position += width + gap;
    const height = HEIGHTS[verdict] ?? STRIP_HEIGHT;
    const box = { x, y: STRIP_TOP + STRIP_HEIGHT - height, width, height, rx: 2 };
    if (verdict === "uncited") return node("rect", { ...box, x: x + 1, y: box.y + 1, width: Math.max(width - 2, 0.5), height: height - 2, fill: "none", stroke: COLOURS.grey, "stroke-width": 2 });
    if (verdict === "unchecked") return [node("rect", { ...box, fill: COLOURS.line }), ...hatches(box)];
    return node("rect", { ...box, fill: COLOURS[verdict] });
  });
  return [...cells, node("rect", { x: EDGE, y: STRIP_TOP + STRIP_HEIGHT + 2, width: room, height: 1, fill: COLOURS.line })];
}

function hatches({ x, y, width, height }) {
  const count = Math.floor(width / 8);
  return Array.from({ length: count }, (_, place) => node("path", { d: `M${x + place * 8} ${y + height}l6 -${height}`, stroke: COLOURS.grey, "stroke-width": 1.5 }));
}

/** The doubted sentence: what it says struck out beside what the source has, else the sentence with its verdict. */
function receipt(response, { start, end, citation, ...sentence }, texts) {
  const source = response.sources.find(({ index }) => index === citation.source_index);
  const difference = differenceOf(citation, response.synthesis, texts?.held(citation.source_index));
  const colour = COLOURS[sentence.verdict];
  const statement = plainWords(response.synthesis.slice(start, end)).replace(/(?<!\s)\s*\[\d{1,4}\]/g, "").trim();
  const runs = difference
    ? [{ text: difference.before }, { text: difference.claimed, struck: true, colour }, { text: ` ${difference.found}`, weight: 700 }, { text: difference.after }]
    : [{ text: statement }];
  const host = [source && shortAddress(source.url) + pageOf(citation), sentenceWord({ ...sentence, citation })].filter(Boolean).join(" · ");
  const isRight = RIGHT_TO_LEFT.test(statement);
  const x = isRight ? WIDTH - EDGE - 5 : EDGE;
  const broken = lines(runs.filter(({ text }) => text), { ...DOUBT, width: WIDTH - 2 * EDGE - 28 });
  const top = 424;
  return [
    node("rect", { x, y: top - 24, width: 5, height: 40 + broken.length * DOUBT.leading, fill: colour }),
    ...block([[{ text: host }]], { ...DOUBT, size: 22, inset: 28 }, top, COLOURS.muted, isRight),
    ...block(broken, { ...DOUBT, inset: 28 }, top + 44, COLOURS.text, isRight),
  ];
}

let measure = null;
function widthOf(text, size, weight = 400) {
  measure ??= el("canvas").getContext("2d");
  measure.font = `${weight} ${size}px ${FAMILY}`;
  return measure.measureText(text).width;
}

/** Runs of text, each {text, weight, struck, colour}, as lines that are short enough; the last one ends with "…" where more was there. */
function lines(runs, { size, weight: usual, lines: most, width = WIDTH - 2 * EDGE }) {
  const segments = (text, granularity) => [...new Intl.Segmenter(undefined, { granularity }).segment(text)].map(({ segment }) => segment);
  const words = runs.flatMap((run) => segments(run.text.replace(/\s+/g, " "), "word")
    .flatMap((text) => (widthOf(text, size, run.weight ?? usual) > width ? segments(text, "grapheme") : text)).map((text) => ({ ...run, text })));
  const found = [[]];
  let used = 0;
  for (const word of words) {
    const wide = widthOf(word.text, size, word.weight ?? usual);
    if (used + wide > width && used && word.text.trim() && !/^[\p{P}\p{Pe}]+$/u.test(word.text)) {
      found.push([]);
      used = 0;
    }
    if (!used && !word.text.trim()) continue;
    const last = found.at(-1).at(-1);
    if (last && last.weight === word.weight && last.struck === word.struck) last.text += word.text;
    else found.at(-1).push({ ...word });
    used += wide;
  }
  if (found.length > most) found[most - 1].push({ text: " …" });
  return found.slice(0, most).filter((line) => line.length);
}

/** Lines as elements, from the first base line on, in the direction of their text. */
function block(found, { size, weight, leading, inset = 0 }, top, colour, isRight) {
  const right = isRight ?? RIGHT_TO_LEFT.test(found[0]?.map(({ text }) => text).join("") ?? "");
  return found.map((line, place) => node("text", {
    x: right ? WIDTH - EDGE - inset : EDGE + inset, y: top + place * leading, direction: right ? "rtl" : "ltr",
    "font-size": size, "font-weight": weight, fill: colour, "xml:space": "preserve",
  }, ...line.map((run) => node("tspan", { "font-weight": run.weight, fill: run.colour, "text-decoration": run.struck ? "line-through" : undefined }, run.text))));
}
