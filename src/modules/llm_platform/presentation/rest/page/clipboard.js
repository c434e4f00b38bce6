// What leaves the page by the clipboard: plain text beside HTML, with the verdicts of the sentences.

import { el, withoutUser } from "./dom.js";
import { blocksOf } from "./markdown.js";
import { citationFinder, heldOf, placedSpans, quotesOf, sentencesOf } from "./sentences.js";
import { harmless, quotesLine, t } from "./texts.js";
import { isHeld } from "./verdicts.js";

const SIGNS = { unsupported: " ✕", absent: " ○", partial: " ◐", unchecked: " ?" };

/** The text of an answer with a sign in each marker whose source does not bear the statement out: {text, html}. */
export function markedAnswer(response) {
  const { synthesis, citations, sources, metadata } = response;
  const placed = placedSpans(synthesis, citations);
  const find = citationFinder(placed);
  const sentences = sentencesOf(placed, placedSpans(synthesis, metadata.uncited));
  const [held, all] = heldOf(sentences);
  const quotes = quotesOf(sentences);
  const summary = quotes ? quotesLine(...quotes) : all ? t("{n} of {all} sentences hold", { n: held, all }) : "";
  const cited = sources.map((source) => ({ ...source, url: addressOf(source, citations) }));
  const markers = [];
  const marked = el("div", {}, ...blocksOf(synthesis, new Set(sources.map(({ index }) => index))).map((block) => block.fragment((index, place) => {
    const sign = `[${index}${SIGNS[find(index, block.start + place)?.verdict] ?? ""}]`;
    markers.push({ place: block.start + place, length: `[${index}]`.length, sign });
    return ` ${sign}`;
  })));
  const list = el("ul", {}, cited.map(({ index, title, url }) =>
    el("li", {}, `[${index}] `, /^https?:/i.test(url) ? el("a", { href: withoutUser(url) }, withoutUser(title || url)) : `${title} ${url}`)));
  return {
    text: harmless([summary, withSigns(synthesis, markers).trim(), cited.map(({ index, title, url }) => `[${index}] ${withoutUser(title)} ${withoutUser(url)}`).join("\n")].filter(Boolean).join("\n\n")),
    html: (summary ? el("p", {}, summary).outerHTML : "") + plainMarkup(marked) + (sources.length ? list.outerHTML : ""),
  };
}

/** The address of a source; that of a PDF leads to the page of its first supporting quote. */
function addressOf({ index, url }, citations) {
  const isCited = ({ source_index: source, page, verdict }) => source === index && page && (isHeld(verdict) || verdict === "partial");
  return citations.find(isCited)?.quote_url ?? url;
}

function withSigns(text, markers) {
  let written = "";
  let position = 0;
  for (const { place, length, sign } of markers.sort((one, other) => one.place - other.place)) {
    written += text.slice(position, place) + sign;
    position = place + length;
  }
  return written + text.slice(position);
}

/** The markup without what is for this page alone: buttons, classes and frames. */
function plainMarkup(element) {
  for (const control of element.querySelectorAll("button, svg")) control.remove();
  for (const part of element.querySelectorAll("*")) for (const { name } of [...part.attributes]) if (!["href", "start", "align"].includes(name)) part.removeAttribute(name);
  for (const frame of element.querySelectorAll("span, div")) frame.replaceWith(...frame.childNodes);
  return element.innerHTML;
}

/** Write {text, html} to the clipboard; whether the browser allowed it. */
export async function copied({ text, html }) {
  try {
    const item = { "text/plain": new Blob([text], { type: "text/plain" }), ...(html && { "text/html": new Blob([html], { type: "text/html" }) }) };
    await navigator.clipboard.write([new ClipboardItem(item)]);
    return true;
  } catch {
    return copiedByCommand(text, html); // over plain HTTP a browser has no clipboard
  }
}

function copiedByCommand(text, html) {
  const field = el("textarea", { class: "sr", "aria-hidden": "true", tabindex: "-1" });
  const focused = document.activeElement;
  const fill = (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    event.clipboardData.setData("text/plain", text);
    if (html) event.clipboardData.setData("text/html", html);
  };
  field.value = text;
  document.body.append(field);
  field.select();
  document.addEventListener("copy", fill, { capture: true, once: true });
  const isCopied = document.execCommand("copy");
  document.removeEventListener("copy", fill, { capture: true });
  field.remove();
  focused?.focus();
  return isCopied;
}

/** A selection in an answer is copied with its markers as text: the style sheet hides them, also where it is pasted. */
document.addEventListener("copy", (event) => {
  const selection = getSelection();
  const range = selection.rangeCount ? selection.getRangeAt(0) : null;
  if (!range || range.collapsed || ![...document.querySelectorAll(".answer")].some((answer) => range.intersectsNode(answer))) return;
  event.preventDefault();
  event.clipboardData.setData("text/plain", selection.toString());
  event.clipboardData.setData("text/html", plainMarkup(el("div", {}, range.cloneContents())));
});
