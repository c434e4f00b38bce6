// Files of answers: Markdown, one HTML page without script, the server's JSON, and references; of one answer or of a whole thread.

import { errorParts, getResearch, getSealed, getThread } from "./api.js";
import { closeMenu, origin, rememberEnd } from "./actions.js";
import { markedAnswer } from "./clipboard.js";
import { el, withoutUser } from "./dom.js";
import { rendered } from "./markdown.js";
import { placedSpans, sentencesOf } from "./sentences.js";
import { blockLine, heldLine } from "./strip.js";
import { notesOf } from "./problems.js";
import { harmless, language, t } from "./texts.js";
import { isHeld, pageOf, verdictWord } from "./verdicts.js";

const STYLE = `body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#1a1a1a;background:#fff}
a{overflow-wrap:anywhere}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.25rem .5rem}pre{overflow-x:auto}
blockquote{margin:0;padding-inline-start:1rem;border-inline-start:3px solid #ccc}
.strip{display:flex;align-items:flex-end;gap:1px;height:10px;border-bottom:1px solid #ccc}.strip i{flex:1 1 0;height:3px;background:#176639;print-color-adjust:exact}
.strip .quoted{background:#888}.strip .partial{height:6px;background:#d9921a}.strip .absent{height:8px;background:#d9921a}.strip .unsupported{height:10px;background:#d0342c}.strip .uncited{height:8px;border:1px solid #888;background:none}
.strip .unchecked{height:10px;background:repeating-linear-gradient(135deg,#888 0 1px,transparent 1px 4px)}
p,li,td,th,h1,h2{unicode-bidi:plaintext}li,td,th{text-align:-webkit-match-parent;text-align:match-parent}code,pre{direction:ltr;unicode-bidi:isolate}`;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";
const TYPES = {
  md: "text/markdown", html: "text/html", json: "application/json", "csl.json": "application/vnd.citationstyles.csl+json", bib: "application/x-bibtex",
};

const KEPT_MS = 10_000; // an address of a file, until the browser has read it
const WRITERS = { md: markdownFile, html: htmlFile, json: jsonFile, "csl.json": cslFile, bib: bibliography };
const RULE = "\n\n---\n\n";

/** Save an answer as a file of this kind: `md`, `html`, `json`, `csl.json` or `bib`. */
export const saveAnswer = (response, kind) => save(response.query, kind, kind === "json" ? lines(response) : WRITERS[kind](response.query, [response]));

/** Save a whole thread as a file of this kind. */
export async function saveThread(thread, kind) {
  const { title, answers } = await answersOf(thread);
  save(title, kind, WRITERS[kind](title, answers));
}

/** A whole thread for the clipboard: {text, html}. */
export async function markedThread(thread) {
  const { answers } = await answersOf(thread);
  const marked = answers.map((response) => ({ query: response.query, ...markedAnswer(response) }));
  return {
    text: marked.map(({ query, text }) => `${query}\n\n${text}`).join(RULE),
    html: marked.map(({ query, html }) => el("h2", {}, query).outerHTML + html).join("<hr>"),
  };
}

/** The title of a thread and its answers, the oldest first; those that the page has not loaded come from the server. */
async function answersOf(thread) {
  const shown = thread.turns.filter(({ response }) => response);
  if (!thread.id) return { title: shown[0].response.query, answers: shown.map(({ response }) => response) };
  const known = new Map(shown.map(({ id, response }) => [id, response]));
  const { title, researches } = await getThread(thread.id);
  const answers = [];
  for (const { id, status } of researches) if (status === "done") answers.push(known.get(id) ?? (await storedAnswer(id)));
  return { title, answers: answers.filter(Boolean) };
}

async function storedAnswer(id) {
  const { response, finished_at: ended } = await getResearch(id);
  if (response && ended) rememberEnd(response, ended);
  return response;
}

function save(title, kind, content) {
  const written = kind.endsWith("json") ? content : harmless(content); // who reads data, reads all of it
  saveFile(`${fileName(title)}.${kind}`, new Blob([written], { type: `${TYPES[kind]};charset=utf-8` }));
}

/** Let the browser save a file. */
export function saveFile(name, blob) {
  const url = URL.createObjectURL(blob);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}

/** Save the file that the server seals, and close the menu of the `button`. An error is shown below the button. */
export async function saveSealed(response, id, button) {
  const note = el("p", { class: "hint", role: "status" }, "…");
  if (button.nextElementSibling?.matches(".hint")) button.nextElementSibling.remove();
  button.after(note);
  try {
    saveFile(`${fileName(response.query)}.sealed.zip`, await getSealed(id));
    note.remove();
    closeMenu(button.closest("details"));
  } catch (error) {
    note.replaceChildren(...errorParts(error));
  }
}

const SENT = { absent: "unsupported", quoted: "supported" }; // see `decoded` of api.js
const asSent = (name, value) => (name === "verdict" ? SENT[value] ?? value : value);
const lines = (value) => `${JSON.stringify(value, asSent, 2)}\n`;
const dateOf = (published) => /^\d{4}(?:-\d\d){0,2}/.exec(published ?? "")?.[0];

function jsonFile(title, answers) {
  return lines({ title, answers });
}

/** The sources that the answers cite, each once, with its day where a search named one, and the pages of a PDF that are cited. */
function cited(answers) {
  const found = new Map();
  for (const { sources, citations, raw_results: results } of answers)
    for (const source of sources) {
      const published = source.published ?? results?.find(({ url }) => url === source.url)?.published;
      if (!found.has(source.url)) found.set(source.url, { ...source, url: withoutUser(source.url), index: answers.length > 1 ? found.size + 1 : source.index, date: dateOf(published), pages: new Set() });
      const supporting = citations.filter(({ source_index: index, verdict }) => index === source.index && (isHeld(verdict) || verdict === "partial"));
      for (const { page } of supporting) if (page) found.get(source.url).pages.add(page);
    }
  return [...found.values()];
}

/** The pages of a PDF as references name them: `p. 15`, `pp. 3, 15`. */
function pagesNote(pages) {
  const numbers = [...pages].sort((one, other) => one - other);
  return numbers.length && `${numbers.length > 1 ? "pp." : "p."} ${numbers.join(", ")}`;
}

function cslFile(_, answers) {
  return lines(cited(answers).map(({ index, title, url, date, pages }) => ({
    id: `source-${index}`, type: "webpage", title, URL: url, ...(date && { issued: { "date-parts": [date.split("-").map(Number)] } }),
    ...(pages.size && { note: pagesNote(pages) }),
  })));
}

function bibliography(_, answers) {
  const field = (text) => `{${text.replace(/[\\{}]/g, "").replace(/[#$%&_^~]/g, "\\$&").replace(/\s+/g, " ")}}`;
  return cited(answers).map(({ index, title, url, date, pages }) =>
    `@online{source${index},\n  title = ${field(title)},\n  url = {${url.replace(/[\\{}\s]/g, "")}},${date ? `\n  date = {${date}},` : ""}${
      pages.size ? `\n  note = {${pagesNote(pages)}},` : ""}\n}\n`).join("\n");
}

const sentencesIn = ({ synthesis, citations, metadata }) => sentencesOf(placedSpans(synthesis, citations), placedSpans(synthesis, metadata.uncited));

/** The words of a title, as the name of a file. */
export function fileName(title) {
  return title.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "answer";
}

const escaped = (text) => text.replace(/([\\`*_[\]<>#|~&])/g, "\\$1").replace(/\s+/g, " ");
const address = (url) => (/^https?:\/\//i.test(url) ? `<${withoutUser(url).replace(/[<>\s]/g, encodeURIComponent)}>` : `\`${url.replaceAll("`", "")}\``);
const notes = (response) => notesOf(response.degraded).map(({ text }) => text);
const verdictOf = (citation) => verdictWord(citation) + (citation.cited_by === "platform" ? `, ${t("source found by the platform")}` : "");
const statementOf = (response, citation) => [...response.synthesis].slice(citation.start, citation.end).join("");

/** The quote below a citation; its address leads to the quote, or to the page of a PDF. */
function quotedLine({ quote, quote_url: url }) {
  if (!quote) return "";
  return `\n  > ${url ? `[${escaped(quote)}](${address(url)})` : escaped(quote)}`;
}

function markdownFile(_, answers) {
  return `${answers.map(markdownOf).join(RULE)}\n`;
}

function markdownOf(response) {
  const sentences = sentencesIn(response);
  const strip = sentences.length ? [`${blockLine(sentences)} ${heldLine(sentences)}`] : [];
  const blocks = [`# ${escaped(response.query)}`, origin(response), ...strip, response.synthesis];
  const list = (title, lines) => lines.length && blocks.push(`## ${title}`, lines.join("\n"));
  list(t("Sources"), response.sources.map(({ index, title, url }) => `- [${index}] ${escaped(title)} ${address(url)}`));
  list(t("Citations"), response.citations.map((citation) =>
    `- ${escaped(statementOf(response, citation))} [${citation.source_index}]${pageOf(citation)}: **${verdictOf(citation)}**${quotedLine(citation)}`));
  list(t("Notes"), notes(response).map((note) => `- ${escaped(note)}`));
  return blocks.join("\n\n");
}

/** The strip as cells that are as wide as their sentences are long. */
function htmlStrip(sentences) {
  if (!sentences.length) return [];
  const cells = sentences.map(({ start, end, verdict }) => {
    const cell = el("i", { class: verdict });
    cell.style.flexGrow = end - start;
    return cell;
  });
  return [el("div", { class: "strip", role: "img", "aria-label": heldLine(sentences) }, cells), el("p", {}, heldLine(sentences))];
}

function htmlFile(title, answers) {
  const file = document.implementation.createHTMLDocument(title);
  file.documentElement.lang = answers.length === 1 ? answers[0].metadata.language : language();
  file.body.dir = "auto";
  file.head.prepend(el("meta", { charset: "utf-8" }), el("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }));
  answers.forEach((response, place) => file.body.append(...htmlParts(response, answers.length > 1 ? `${place + 1}-` : "")));
  // As an element, the style would fall under the content security policy of the page.
  const markup = file.documentElement.outerHTML.replace("</head>", () => `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${markup}\n`;
}

/** An answer with its sources, citations and notes; `prefix` keeps the ids of several answers apart. */
function htmlParts(response, prefix) {
  const section = (title, items) => items.length ? [el("h2", {}, title), el("ul", {}, items.map((item) => el("li", {}, item)))] : [];
  const link = (url, label) => (/^https?:\/\//i.test(url) ? el("a", { href: withoutUser(url), rel: "noopener noreferrer nofollow" }, label) : `${label} (${url})`);
  const numbers = new Set(response.sources.map(({ index }) => index));
  const id = (index) => `source-${prefix}${index}`;
  return [
    el("h1", {}, response.query),
    el("p", {}, origin(response)),
    ...htmlStrip(sentencesIn(response)),
    rendered(response.synthesis, numbers, (index) => [" ", el("a", { href: `#${id(index)}` }, `[${index}]`)]),
    ...section(t("Sources"), response.sources.map(({ index, url, title }) => el("span", { id: id(index) }, `[${index}] `, link(url, title)))),
    ...section(t("Citations"), response.citations.map((citation) =>
      [`${statementOf(response, citation)} [${citation.source_index}]${pageOf(citation)}: `, el("strong", {}, verdictOf(citation)),
        citation.quote && el("blockquote", {}, citation.quote_url ? link(citation.quote_url, citation.quote) : citation.quote)])),
    ...section(t("Notes"), notes(response)),
  ];
}
