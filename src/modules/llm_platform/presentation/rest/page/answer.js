// The text of an answer: Markdown to clean elements, with a button in the place of each citation marker.

import { el, icon, unitOffsets } from "./dom.js";
import { t } from "./texts.js";

/* global markdownit, DOMPurify */

export const VERDICTS = {
  supported: () => t("supported"),
  partial: () => t("partly supported"),
  unsupported: () => t("not supported"),
  unchecked: () => t("not checked"),
};
const MARKER = /\[(\d{1,4})\]/g;
// Private-use characters stand for a marker while the Markdown is rendered; elsewhere they are removed.
const [OPEN, CLOSE] = ["\ue000", "\ue001"];
const PLACE = /\ue000(\d+)\ue001/g;
const CLEAN = {
  ALLOWED_TAGS: ["p", "br", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong",
    "s", "hr", "a", "table", "thead", "tbody", "tr", "th", "td", "#text"],
  ALLOWED_ATTR: ["href", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^https?:/i,
  RETURN_DOM_FRAGMENT: true,
};

let renderer = null;

function markdown() {
  if (!renderer) {
    renderer = markdownit({ html: false, linkify: false, typographer: false }).disable(["image"]);
    renderer.validateLink = (url) => /^https?:\/\//i.test(url);
  }
  return renderer;
}

/** The text as elements: `numbers` are the sources that it may cite, `marker(match)` makes the element of a marker. */
export function rendered(text, numbers, marker) {
  const matches = [...text.matchAll(MARKER)].filter((match) => numbers.has(Number(match[1])));
  let position = 0;
  let marked = "";
  matches.forEach((match, index) => {
    marked += plain(text.slice(position, match.index)) + OPEN + index + CLOSE;
    position = match.index + match[0].length;
  });
  marked += plain(text.slice(position));
  const fragment = DOMPurify.sanitize(markdown().render(marked), CLEAN);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": t("Table") });
    table.replaceWith(scroller);
    scroller.append(table);
  }
  for (const block of fragment.querySelectorAll("pre")) block.tabIndex = 0;
  placeMarkers(fragment, matches, marker);
  return fragment;
}

const plain = (text) => text.replace(/[\ue000\ue001]/g, "");

function placeMarkers(fragment, matches, marker) {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) if (walker.currentNode.data.includes(OPEN)) nodes.push(walker.currentNode);
  for (const node of nodes) {
    const isCode = node.parentElement?.closest("code, pre, a");
    const parts = [];
    let position = 0;
    for (const place of node.data.matchAll(PLACE)) {
      const match = matches[Number(place[1])];
      const before = node.data.slice(position, place.index);
      // The marker stays with its word; the style sheet makes the gap.
      parts.push(isCode ? before + match[0] : before.trimEnd(), isCode ? "" : marker(match));
      position = place.index + place[0].length;
    }
    node.replaceWith(...parts, node.data.slice(position));
  }
}

/** The answer on the page: grows with the tokens, and keeps what has not changed, with selection and focus. */
export class AnswerText {
  constructor(openQuote) {
    this.element = el("div", { class: "answer", dir: "auto" });
    this.openQuote = openQuote;
    this.text = "";
    this.sources = new Map();
    this.scheduled = 0;
  }

  setSources(sources) {
    for (const source of sources) this.sources.set(source.index, source);
  }

  append(text) {
    this.text += text;
    this.scheduled ||= requestAnimationFrame(() => this.#show());
  }

  reset() {
    this.text = "";
    this.#show();
  }

  /** Show the verdicts on the text so far. */
  setCitations(citations) {
    this.#show(citations);
  }

  /** Show the whole answer with its verdicts. */
  finish(response) {
    this.text = response.synthesis;
    this.setSources(response.sources);
    this.element.lang = response.metadata.language;
    this.#show(response.citations);
  }

  #show(citations) {
    cancelAnimationFrame(this.scheduled);
    this.scheduled = 0;
    const find = citations ? finder(this.text, citations) : () => null;
    const next = rendered(this.text, new Set(this.sources.keys()), (match) => this.#marker(match, find(match), !citations));
    replaceChanged(this.element, [...next.childNodes]);
  }

  #marker(match, citation, isWriting) {
    const index = Number(match[1]);
    const verdict = citation?.verdict ?? "unchecked";
    const label = isWriting
      ? t("Source {n}, not checked yet", { n: index })
      : t("Source {n}, {verdict}: show the quote", { n: index, verdict: VERDICTS[verdict]() });
    const button = el("button", {
      type: "button", class: `cite ${isWriting ? "pending" : verdict}`, "aria-label": label, "aria-haspopup": "dialog",
      title: isWriting ? null : `${VERDICTS[verdict]()} · ${this.sources.get(index)?.title ?? ""}`,
    }, String(index), !isWriting && icon(verdict));
    button.addEventListener("click", () => this.openQuote(index, citation, isWriting));
    return button;
  }
}

/** For a marker, the citation of the statement that it stands behind or in. */
function finder(text, citations) {
  const unit = unitOffsets(text);
  const placed = citations.map((citation) => ({ citation, start: unit(citation.start) }));
  return (match) => {
    const index = Number(match[1]);
    let best = null;
    for (const each of placed) {
      if (each.citation.source_index !== index || each.start > match.index) continue;
      if (!best || each.start >= best.start) best = each;
    }
    return best?.citation ?? null;
  };
}

/** Replace the children from the first one on that is different. */
function replaceChanged(parent, next) {
  const old = [...parent.childNodes];
  let same = 0;
  while (same < old.length && same < next.length && old[same].isEqualNode(next[same])) same += 1;
  for (const node of old.slice(same)) node.remove();
  parent.append(...next.slice(same));
}
