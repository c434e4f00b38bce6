// Markdown to clean elements, block by block, with an element in the place of each citation marker.

import { el, icon, withoutUser } from "./dom.js";
import { harmless, t } from "./texts.js";
import "./vendor/dompurify.js";
import "./vendor/markdown-it.js";

/* global markdownit, DOMPurify */

const MARKER = /\[(\d{1,4})\]/g;
// Private-use characters stand for a marker while the Markdown is rendered; elsewhere they are removed.
const [OPEN, CLOSE] = ["\ue000", "\ue001"];
const PLACE = /\ue000(\d+)\ue001/g;
const RUN = /\ue000\d+\ue001(?:[ \t]*\ue000\d+\ue001)*/g; // markers behind one statement
// The word that a marker stays with. A longer one may be broken; scripts without spaces break between characters.
const UNSPACED = String.raw`\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Bopo}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}\u30fc`;
const LAST_WORD = new RegExp(String.raw`(?:[${UNSPACED}]\p{M}*)?(?:[^\s${UNSPACED}]){0,24}$`, "u");
const STOP = /^[.,;:!?…。，、；：！？]+/; // set before a marker
const CLOSING = /^[)\]»”’）」』]+[.,;:!?…。，、；：！？]*/; // stays behind it
const FORMULA = "\ue002"; // begins the text of a formula, between rendering and cleaning
const FORMULAS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]]; // each with its end, the longer ones first
const MAX_FORMULA_CHARS = 2000;
const TEX = /[\\^_={}]|^[a-z]$/i; // between single dollars: "$5 and 10$" is an amount
const PART_CELLS = 300; // of a table that are drawn at once
const PART_ITEMS = 50; // of a list that are drawn at once
const TASK = /^\[([ xX])\][ \u00a0]/;
const CLEAN = {
  ALLOWED_TAGS: ["p", "br", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong",
    "s", "hr", "a", "table", "thead", "tbody", "tr", "th", "td", "#text"],
  ALLOWED_ATTR: ["align", "href", "start"],
  ADD_URI_SAFE_ATTR: ["align", "start"], // no addresses: ALLOWED_URI_REGEXP is not for them
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^https?:/i,
  RETURN_DOM_FRAGMENT: true,
};

let parser = null;

function markdown() {
  if (!parser) {
    parser = markdownit({ html: false, linkify: false, typographer: false }).disable(["image"]);
    parser.validateLink = (url) => /^https?:\/\//i.test(url);
    const { rules } = parser.renderer;
    rules.th_open = rules.td_open = cellStart;
    for (const name of ["fence", "code_block"]) rules[name] = withLanguage(rules[name]);
    parser.inline.ruler.before("escape", "formula", formulaAt);
    rules.formula = (tokens, index) => `<code>${FORMULA}${parser.utils.escapeHtml(tokens[index].content)}</code>`;
  }
  return parser;
}

/** A rule of markdown-it: TeX between its signs is no Markdown. */
function formulaAt(state, silent) {
  const { src, pos } = state;
  const [open, close] = FORMULAS.find(([sign]) => src.startsWith(sign, pos)) ?? [];
  if (!open) return false;
  const rest = src.slice(pos + open.length, pos + open.length + MAX_FORMULA_CHARS + close.length);
  const length = rest.indexOf(close);
  const tex = rest.slice(0, length);
  if (length < 0 || !tex.trim()) return false;
  if (open === "$" && (tex !== tex.trim() || !TEX.test(tex) || /\d/.test(rest[length + 1] ?? ""))) return false;
  if (!silent) state.push("formula", "code", 0).content = open + tex + close;
  state.pos = pos + open.length + length + close.length;
  return true;
}

/** The start of a cell with its alignment as an attribute: the content security policy refuses a `style`. */
function cellStart(tokens, index, options, env, self) {
  const style = tokens[index].attrGet("style");
  tokens[index].attrs = style ? [["align", style.replace("text-align:", "")]] : null;
  return self.renderToken(tokens, index, options);
}

/** Remember the language that a block of code names: its class does not get through the cleaning. */
function withLanguage(rule) {
  return (tokens, index, options, env, self) => {
    env.languages.push(tokens[index].info.trim().split(/\s/)[0].toLowerCase());
    return rule(tokens, index, options, env, self);
  };
}

/** The top-level blocks of a text, as {source, start, key, fragment(marker)}; two with the same key look the same.

A table has `head`, the text of its first row, and `parts`, each {key, fragment(marker)} with some of its other rows in a table of
their own, for who draws it bit by bit: `fragment` of the block itself has all rows, and `headFragment` none of these. A long
list has them, too: its items, and as `head` the first one of them.

`numbers` are the sources that the text may cite. `env` holds the definitions of links, for texts that are parts of one; with
`keepsLines` a marker at the beginning of a line stays there, as in a list of sources. */
export function blocksOf(text, numbers, env = {}) {
  const matches = [...text.matchAll(MARKER)].filter((match) => numbers.has(Number(match[1])));
  const tokens = markdown().parse(withPlaces(text, matches), env);
  const lines = [0, ...[...text.matchAll(/\r\n?|\n/g)].map((match) => match.index + match[0].length)];
  const links = Object.keys(env.references ?? {}).length;
  const groups = topLevel(tokens);
  return groups.map((group, place) => {
    const start = place ? lines[group[0].map[0]] : 0;
    const source = text.slice(start, place + 1 < groups.length ? lines[groups[place + 1][0].map[0]] : text.length);
    const keyOf = (part) => `${links} ${numbers.size} ${part}`;
    const drawn = (part) => (marker) => fragmentOf(part, env, matches, start, marker);
    return { source, start, key: keyOf(source), fragment: drawn(group), ...partsOf(group, (from, to) => keyOf(text.slice(lines[from], lines[to])), drawn) };
  });
}

/** What a table or a long list has more than another block; `keyOf(from, to)` is the key of these lines, `drawn(tokens)` draws a part. */
function partsOf(tokens, keyOf, drawn) {
  if (tokens[0].type === "table_open") {
    const begin = tokens.findIndex(({ type }) => type === "tbody_open");
    if (begin < 0) return {};
    const size = Math.max(1, Math.floor(PART_CELLS / tokens.filter(({ type }) => type === "th_open").length));
    const head = keyOf(tokens[0].map[0], tokens[0].map[0] + 2);
    return inParts(tokens, begin, -2, size, head, keyOf, drawn);
  }
  if (!/_list_open$/.test(tokens[0].type)) return {};
  const items = tokens.filter(({ type, level }) => type === "list_item_open" && level === 1);
  if (items.length <= PART_ITEMS) return {};
  const isLoose = tokens.some(({ type, level, hidden }) => type === "paragraph_open" && level === 2 && !hidden);
  const key = (from, to) => `${isLoose} ${keyOf(from, to)}`;
  return inParts(tokens, 0, -1, PART_ITEMS, key(...items[0].map), key, drawn);
}

/** The rows or items after the token at `begin` and before the ones from `end`, `size` in each part. */
function inParts(tokens, begin, end, size, head, keyOf, drawn) {
  const [opening, closing] = [tokens.slice(0, begin + 1), tokens.slice(end)];
  const rows = topLevel(tokens.slice(begin + 1, end));
  const parts = [];
  for (let first = 0; first < rows.length; first += size) {
    const some = rows.slice(first, first + size);
    parts.push({ key: keyOf(some[0][0].map[0], some.at(-1)[0].map[1]), fragment: drawn([tokens[0], ...(begin ? [tokens[begin]] : []), ...some.flat(), ...closing]) });
  }
  return { head, headFragment: drawn([...opening, ...closing]), parts };
}

/** The whole text as elements: `marker(number, place)` makes the element of a marker, or several; `place` is where it stands. */
export function rendered(text, numbers, marker) {
  const fragment = document.createDocumentFragment();
  fragment.append(...blocksOf(text, numbers).map((block) => block.fragment((number, place) => marker(number, block.start + place))));
  return fragment;
}

function withPlaces(text, matches) {
  let position = 0;
  let marked = "";
  matches.forEach((match, index) => {
    marked += plain(text.slice(position, match.index)) + OPEN + index + CLOSE;
    position = match.index + match[0].length;
  });
  return marked + plain(text.slice(position));
}

const plain = (text) => harmless(text.replace(/\r\n?/g, "\n").replace(/[\ue000-\ue002]/g, "")); // the same lines

/** The tokens of each block that is not within another one. */
function topLevel(tokens) {
  const groups = [];
  let depth = 0;
  for (const token of tokens) {
    if (!depth) groups.push([]);
    groups.at(-1).push(token);
    depth += token.nesting;
  }
  return groups;
}

/** The elements of a block; `marker(number, place)` gives the element of a marker, or several, by where in the block it stands. */
function fragmentOf(tokens, env, matches, start, marker) {
  const { renderer, options } = markdown();
  env.languages = [];
  const fragment = DOMPurify.sanitize(renderer.render(tokens, options, env), CLEAN);
  for (const link of fragment.querySelectorAll("a")) {
    const label = link.textContent;
    link.href = withoutUser(link.getAttribute("href") ?? "");
    if (label !== withoutUser(label)) link.textContent = withoutUser(label);
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": t("Table") });
    table.replaceWith(scroller);
    scroller.append(table);
  }
  fragment.querySelectorAll("pre").forEach((block, place) => {
    block.tabIndex = 0;
    if (env.languages[place]) block.dataset.language = env.languages[place];
  });
  placeMarkers(fragment, matches, (match) => marker(Number(match[1]), match.index - start), env.keepsLines);
  for (const code of fragment.querySelectorAll("code")) if (code.textContent.startsWith(FORMULA)) code.replaceWith(formula(code.textContent.slice(1)));
  fragment.querySelectorAll("li").forEach(showTask);
  return fragment;
}

/** A formula as it is written, until formulas.js sets it. */
function formula(text) {
  const isDisplay = text.startsWith("$$") || text.startsWith("\\[");
  return el("span", { class: isDisplay ? "formula display" : "formula", dir: "ltr" }, el("code", {}, text));
}

/** The TeX of a formula without its signs. */
export function texOf({ textContent }) {
  const length = textContent.startsWith("$$") || textContent.startsWith("\\") ? 2 : 1;
  return textContent.slice(length, -length);
}

/** A box in the place of "[ ]" or "[x]" at the beginning of an item. */
function showTask(item) {
  const holder = item.firstElementChild?.localName === "p" ? item.firstElementChild : item; // in a list with room between its items
  const first = holder.firstChild;
  const [sign, state] = TASK.exec(first?.nodeType === Node.TEXT_NODE ? first.data : "") ?? [];
  if (!sign) return;
  first.data = first.data.slice(sign.length);
  item.classList.add("task");
  const isDone = state !== " ";
  first.before(el("span", { class: isDone ? "task-box done" : "task-box", role: "img", "aria-label": isDone ? t("done") : t("not done") }, isDone && icon("supported")), " ");
}

function placeMarkers(fragment, matches, marker, keepsLines) {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) if (walker.currentNode.data.includes(OPEN)) nodes.push(walker.currentNode);
  for (const node of nodes) {
    const isCode = node.parentElement?.closest("code, pre, a");
    if (isCode) {
      node.replaceWith(node.data.replace(PLACE, (_, number) => matches[Number(number)][0]));
      continue;
    }
    const parts = [];
    let position = 0;
    for (const run of node.data.matchAll(RUN)) {
      parts.push(node.data.slice(position, run.index), [...run[0].matchAll(PLACE)].map(([, number]) => marker(matches[Number(number)])));
      position = run.index + run[0].length;
    }
    node.replaceWith(...unbroken([...parts, node.data.slice(position)], keepsLines));
  }
}

/** Texts and runs of markers in turn: a full stop comes before the run, and no line breaks between a word and its marker. */
function unbroken(parts, keepsLines) {
  const bound = [];
  for (let place = 0; place + 1 < parts.length; place += 2) {
    const after = parts[place + 2];
    const stop = STOP.exec(after)?.[0] ?? "";
    const closing = stop ? "" : CLOSING.exec(after)?.[0] ?? "";
    parts[place + 2] = after.slice(stop.length + closing.length);
    const isAtLineStart = keepsLines && /\n[ \t]*$/.test(parts[place]);
    const text = (isAtLineStart ? parts[place] : parts[place].trimEnd()) + stop;
    const word = isAtLineStart ? "" : LAST_WORD.exec(text)[0];
    bound.push(text.slice(0, text.length - word.length));
    parts[place + 1].forEach((marker, index, all) => {
      bound.push(el("span", { class: "kept" }, index ? "" : word, marker, index + 1 === all.length && closing));
    });
  }
  return [...bound, parts.at(-1)];
}
