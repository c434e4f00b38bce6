// An answer as a file: Markdown, one HTML page without script, or the server's JSON.

import { menu, origin } from "./actions.js";
import { el } from "./dom.js";
import { rendered } from "./markdown.js";
import { placedSpans, sentencesOf } from "./sentences.js";
import { blockLine, heldLine } from "./strip.js";
import { notesOf } from "./problems.js";
import { t } from "./texts.js";
import { verdictWord } from "./verdicts.js";

const STYLE = `body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#1a1a1a;background:#fff}
a{overflow-wrap:anywhere}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.25rem .5rem}pre{overflow-x:auto}
blockquote{margin:0;padding-inline-start:1rem;border-inline-start:3px solid #ccc}
.strip{display:flex;align-items:flex-end;gap:1px;height:10px;border-bottom:1px solid #ccc}.strip i{flex:1 1 0;height:3px;background:#176639;print-color-adjust:exact}
.strip .partial{height:6px;background:#d9921a}.strip .unsupported{height:10px;background:#d0342c}.strip .uncited{height:8px;border:1px solid #888;background:none}
.strip .unchecked{height:10px;background:repeating-linear-gradient(135deg,#888 0 1px,transparent 1px 4px)}
p,li,td,th,h1,h2{unicode-bidi:plaintext}li,td,th{text-align:-webkit-match-parent;text-align:match-parent}code,pre{direction:ltr;unicode-bidi:isolate}`;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";
const TYPES = {
  md: "text/markdown", html: "text/html", json: "application/json", "csl.json": "application/vnd.citationstyles.csl+json", bib: "application/x-bibtex",
};

export function exportMenu(response) {
  const item = (label, action) => el("button", { type: "button", onclick: action }, label);
  const save = (kind) => () => download(response, kind);
  return menu(t("Export"), [
    item("Markdown", save("md")), item("HTML", save("html")), item("JSON", save("json")),
    item("CSL-JSON", save("csl.json")), item("BibTeX", save("bib")), item(t("Print"), () => window.print()),
  ]);
}

function download(response, kind) {
  const content = { md: markdownFile, html: htmlFile, json: lines, "csl.json": cslFile, bib: bibliography }[kind](response);
  const url = URL.createObjectURL(new Blob([content], { type: `${TYPES[kind]};charset=utf-8` }));
  el("a", { href: url, download: `${fileName(response.query)}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const lines = (value) => `${JSON.stringify(value, null, 2)}\n`;
const dateOf = (published) => /^\d{4}(?:-\d\d){0,2}/.exec(published ?? "")?.[0];

/** The sources that the answer cites, each with its day where a search named one. */
const cited = (response) => response.sources.map((source) => ({
  ...source, date: dateOf(source.published ?? response.raw_results?.find(({ url }) => url === source.url)?.published),
}));

const cslFile = (response) => lines(cited(response).map(({ index, title, url, date }) => ({
  id: `source-${index}`, type: "webpage", title, URL: url, ...(date && { issued: { "date-parts": [date.split("-").map(Number)] } }),
})));

function bibliography(response) {
  const field = (text) => `{${text.replace(/[\\{}]/g, "").replace(/[#$%&_^~]/g, "\\$&").replace(/\s+/g, " ")}}`;
  return cited(response).map(({ index, title, url, date }) =>
    `@online{source${index},\n  title = ${field(title)},\n  url = {${url.replace(/[\\{}\s]/g, "")}},${date ? `\n  date = {${date}},` : ""}\n}\n`).join("\n");
}

const sentencesIn = ({ synthesis, citations, metadata }) => sentencesOf(placedSpans(synthesis, citations), placedSpans(synthesis, metadata.uncited));

function fileName(query) {
  return query.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "answer";
}

const escaped = (text) => text.replace(/([\\`*_[\]<>#|~&])/g, "\\$1").replace(/\s+/g, " ");
const address = (url) => (/^https?:\/\//i.test(url) ? `<${url.replace(/[<>\s]/g, encodeURIComponent)}>` : `\`${url.replaceAll("`", "")}\``);
const notes = (response) => notesOf(response.degraded).map((each) => each.text);
const verdictOf = (citation) => verdictWord(citation) + (citation.cited_by === "platform" ? `, ${t("source found by the platform")}` : "");
const statementOf = (response, citation) => [...response.synthesis].slice(citation.start, citation.end).join("");

function markdownFile(response) {
  const sentences = sentencesIn(response);
  const strip = sentences.length ? [`${blockLine(sentences)} ${heldLine(sentences)}`] : [];
  const blocks = [`# ${escaped(response.query)}`, origin(response), ...strip, response.synthesis];
  const list = (title, lines) => lines.length && blocks.push(`## ${title}`, lines.join("\n"));
  list(t("Sources"), response.sources.map((each) => `- [${each.index}] ${escaped(each.title)} ${address(each.url)}`));
  list(t("Citations"), response.citations.map((each) =>
    `- [${each.source_index}] **${verdictOf(each)}**: ${escaped(statementOf(response, each))}${each.quote ? `\n  > ${escaped(each.quote)}` : ""}`));
  list(t("Notes"), notes(response).map((each) => `- ${escaped(each)}`));
  return `${blocks.join("\n\n")}\n`;
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

function htmlFile(response) {
  const file = document.implementation.createHTMLDocument(response.query);
  file.documentElement.lang = response.metadata.language;
  file.body.dir = "auto";
  const section = (title, items) => items.length ? [el("h2", {}, title), el("ul", {}, items.map((each) => el("li", {}, each)))] : [];
  const link = (url, label) => (/^https?:\/\//i.test(url) ? el("a", { href: url, rel: "noopener noreferrer nofollow" }, label) : `${label} (${url})`);
  const numbers = new Set(response.sources.map((each) => each.index));
  const charset = el("meta", { charset: "utf-8" });
  file.head.prepend(charset, el("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }));
  file.body.append(
    el("h1", {}, response.query),
    el("p", {}, origin(response)),
    ...htmlStrip(sentencesIn(response)),
    rendered(response.synthesis, numbers, (index) => [" ", el("a", { href: `#source-${index}` }, `[${index}]`)]),
    ...section(t("Sources"), response.sources.map((each) => el("span", { id: `source-${each.index}` }, `[${each.index}] `, link(each.url, each.title)))),
    ...section(t("Citations"), response.citations.map((each) =>
      [`[${each.source_index}] `, el("strong", {}, verdictOf(each)), `: ${statementOf(response, each)}`, each.quote && el("blockquote", {}, each.quote)])),
    ...section(t("Notes"), notes(response)),
  );
  // As an element, the style would fall under the content security policy of the page.
  const markup = file.documentElement.outerHTML.replace("</head>", () => `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${markup}\n`;
}
