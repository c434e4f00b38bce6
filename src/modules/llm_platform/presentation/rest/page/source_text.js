// The text of a source for reading: its Markdown is shown as headings, lists and tables, and only ever becomes text nodes.

import { el } from "./dom.js";
import { harmless, t } from "./texts.js";

const PART_CHARS = 40_000; // shown at once; the rest on demand
const MAX_DEPTH = 3; // of lists that are indented
const WRAPPED_CHARS = 60; // a line of a paragraph that an editor breaks has from here
const MAX_WRAPPED_CHARS = 140; // to here
const HEADING = /^#{1,6}[ \t]+/;
const ITEM = /^([ \t]*)(?:[-*+•]|(\d{1,4})[.)])[ \t]+(?=\S)/;
const FENCE = /^[ \t]*(?:```|~~~)/;
const RULE = /^[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$/; // below the heads of a table
const HIDDEN = [
  /!?\[(?<shown>[^\[\]\n]*)\]\([^()\s]*\)/g, // a link or an image: its words
  /(?<![\w*])\*\*(?<shown>[^*\s](?:[^*\n]*[^*\s])?)\*\*(?![\w*])/g,
  /(?<!`)`(?<shown>[^`\n]+)`(?!`)/g,
];

const SIGNS = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&amp;": "&" };

/** A sentence of an answer as a reader sees it: without emphasis and addresses of links. */
export const plainWords = (text) => HIDDEN
  .reduce((plain, pattern) => plain.replace(pattern, (...found) => found.at(-1).shown), harmless(text))
  .replace(/&(?:lt|gt|quot|amp);/g, (sign) => SIGNS[sign]);

/** The beginning of a source in one paragraph, without its title, which stands above. */
export const plainBeginning = (text, title) => plainLines(text)
  .filter((line, place) => line && (place || line !== title))
  .join(" ");

/** A quote as a reader sees it: rows of a table are lines of their own. */
export const plainQuote = (text) => plainLines(text)
  .reduce((quote, line) => quote + (quote && (isRow(line) || isRow(quote) ? "\n" : " ")) + line, "");

const CELL_SIGN = " · ";
const isRow = (line) => line.includes(CELL_SIGN);
const plainLines = (text) => text.split("\n")
  .filter((line) => !FENCE.test(line) && !(line.includes("-") && RULE.test(line)))
  .map((line) => plainWords(line.trim().startsWith("|") ? plainRow(line) : line.replace(HEADING, "")).trim());
const plainRow = (line) => cellsOf(line, 0, line.length).map((cell) => line.slice(...cell).trim()).filter(Boolean).join(CELL_SIGN);

/** Nodes for a text; `place` is [start, end] of the quote in it, or null. Of a long text, what is around the quote. */
export function sourceText(text, place) {
  const from = lineStart(text, (place?.[0] ?? 0) - PART_CHARS / 2);
  const to = lineEnd(text, Math.max(from + PART_CHARS, place?.[1] ?? 0));
  return [...before(text, from, place), ...nodesOf(text, from, to, place), ...after(text, to, place)];
}

const lineStart = (text, position) => (position <= 0 ? 0 : text.lastIndexOf("\n", position) + 1);

function lineEnd(text, position) {
  const found = text.indexOf("\n", position);
  return found < 0 ? text.length : found + 1;
}

function before(text, end, place) {
  const start = lineStart(text, end - PART_CHARS);
  return end > 0 ? [more(() => [...before(text, start, place), ...nodesOf(text, start, end, place)])] : [];
}

function after(text, start, place) {
  const end = lineEnd(text, start + PART_CHARS);
  return start < text.length ? [more(() => [...nodesOf(text, start, end, place), ...after(text, end, place)])] : [];
}

function more(nodes) {
  const button = el("button", { type: "button", onclick: () => button.replaceWith(...nodes()) }, t("Show more"));
  return button;
}

function nodesOf(text, from, to, place) {
  const content = ([start, end]) => marked(shownParts(text, start, end), place);
  const blocks = blocksOf(text, from, to).filter((block) => text.slice(...whole(block)).trim());
  return blocks.map((block) => SHOWN[block.kind](block, content, text));
}

const whole = ({ lines }) => [lines[0][0], lines.at(-1)[1]];
const SHOWN = {
  heading: ({ lines: [[start, end]] }, content, text) =>
    el("strong", { class: "source-heading", dir: "auto" }, content(trimmed(text, start + HEADING.exec(text.slice(start, end))[0].length, end))),
  text: (block, content, text) =>
    el("p", { dir: "auto", class: isWrapped(block, text) ? "wrapped" : null }, content(trimmed(text, ...whole(block)))),
  code: ({ lines }, content, text) => el("pre", { tabindex: "0" }, lines.length > 1 && content(trimmed(text, lines[1][0], lines.at(-1)[1]))),
  list: ({ lines }, content, text) => el("ul", {}, lines.map(([start, end]) => itemOf(text, start, end, content))),
  table: tableOf,
};

/** Whether an editor has broken the lines, so that they are one paragraph: all but the last are about as long as its window. */
function isWrapped({ lines }, text) {
  const full = lines.slice(0, -1).map(([start, end]) => text.slice(start, end).trim().length);
  return full.length > 0 && Math.min(...full) >= WRAPPED_CHARS && Math.max(...full) <= MAX_WRAPPED_CHARS;
}

/** The lines of a text, as blocks of one kind: {kind, lines: [[start, end], …]}. */
function blocksOf(text, from, to) {
  const blocks = [];
  let start = from;
  let isCode = false;
  for (const line of text.slice(from, to).split(/(?<=\n)/)) {
    const place = [start, start + line.length];
    const last = blocks.at(-1);
    const isFence = FENCE.test(line);
    start += line.length;
    if (isFence && isCode) isCode = false;
    else if (isFence) isCode = Boolean(blocks.push({ kind: "code", lines: [place] }));
    else if (isCode || (last?.kind === "table" && line.includes("|"))) last.lines.push(place);
    else if (last?.kind === "text" && line.includes("|") && RULE.test(line.trimEnd()) && text.slice(...last.lines.at(-1)).includes("|"))
      startTable(blocks, line);
    else add(blocks, kindOf(line, last), place);
  }
  return blocks;
}

function kindOf(line, last) {
  if (!line.trim()) return "blank"; // it ends a paragraph
  if (HEADING.test(line)) return "heading";
  if (ITEM.test(line)) return "item";
  return last?.kind === "list" && /^[ \t]+\S/.test(line) ? "rest" : "text"; // of an item
}

function add(blocks, kind, place) {
  const last = blocks.at(-1);
  if (kind === "rest") last.lines.at(-1)[1] = place[1];
  else if (kind === "item" && last?.kind === "list") last.lines.push(place);
  else if (kind === "text" && last?.kind === "text") last.lines.push(place);
  else blocks.push({ kind: kind === "item" ? "list" : kind, lines: [place] });
}

/** The line before belongs to the table, as its heads. */
function startTable(blocks, rule) {
  const { lines } = blocks.at(-1);
  const head = lines.pop();
  if (!lines.length) blocks.pop();
  const align = cellsOf(rule, 0, rule.length).map(([start, end]) => rule.slice(start, end).trim())
    .map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : null));
  blocks.push({ kind: "table", lines: [head], align });
}

function itemOf(text, start, end, content) {
  const [mark, indent, number] = ITEM.exec(text.slice(start, end));
  const depth = Math.min(MAX_DEPTH, Math.floor(indent.replaceAll("\t", "  ").length / 2));
  return el("li", { class: `depth-${depth}`, dir: "auto" }, el("span", { "aria-hidden": "true" }, number ? `${number}. ` : "• "),
    content(trimmed(text, start + mark.length, end)));
}

function tableOf({ lines, align }, content, text) {
  const row = (tag, [start, end]) => el("tr", {}, cellsOf(text, start, end).map((cell, column) =>
    el(text.slice(...cell).trim() ? tag : "td", { align: align[column], dir: "auto" }, content(trimmed(text, ...cell)))));
  const [head, ...rows] = lines;
  return el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": t("Table") },
    el("table", {}, el("thead", {}, row("th", head)), el("tbody", {}, rows.map((each) => row("td", each)))));
}

/** The cells of a row as [start, end]. */
function cellsOf(text, start, end) {
  const [from, to] = trimmed(text, start, end);
  const first = from + (text[from] === "|");
  const last = to - (to - 1 > first && text[to - 1] === "|" && text[to - 2] !== "\\");
  const cells = [[first, last]];
  for (let place = first; place < last; place += 1) {
    if (text[place] !== "|" || text[place - 1] === "\\") continue;
    cells.at(-1)[1] = place;
    cells.push([place + 1, last]);
  }
  return cells;
}

/** The stretch without blanks at its beginning and its end. */
function trimmed(text, start, end) {
  const shown = text.slice(start, end);
  const from = start + shown.length - shown.trimStart().length;
  return [from, Math.max(from, start + shown.trimEnd().length)];
}

/** What is shown of a stretch, as [start, end, text] in order. */
function shownParts(text, start, end) {
  const block = text.slice(start, end);
  const hidden = [];
  for (const pattern of HIDDEN)
    for (const match of block.matchAll(pattern)) {
      const from = match.index + match[0].indexOf(match.groups.shown);
      hidden.push([match.index, from], [from + match.groups.shown.length, match.index + match[0].length]);
    }
  hidden.sort((one, other) => one[0] - other[0]);
  const parts = [];
  let position = 0;
  for (const [from, to] of [...hidden, [block.length, block.length]]) {
    if (from > position) parts.push([start + position, start + from, text]);
    position = Math.max(position, to);
  }
  return parts;
}

/** The parts as texts, with one mark around what belongs to the quote. */
function marked(parts, place) {
  const [from, to] = place ?? [Infinity, Infinity];
  const join = (low, high) => harmless(parts.map(([start, end, text]) => text.slice(Math.max(start, low), Math.max(Math.min(end, high), Math.max(start, low)))).join(""));
  const quote = join(from, to);
  return [join(0, from), quote && el("mark", {}, quote), join(to, Infinity)].filter(Boolean);
}
