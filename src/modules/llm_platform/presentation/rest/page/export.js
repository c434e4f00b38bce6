// An answer as a file: Markdown, one HTML page without script, or the server's JSON.

import { menu, origin } from "./actions.js";
import { el } from "./dom.js";
import { rendered } from "./markdown.js";
import { notesOf } from "./problems.js";
import { t } from "./texts.js";
import { verdictWord } from "./verdicts.js";

const STYLE = `body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#1a1a1a;background:#fff}
a{overflow-wrap:anywhere}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.25rem .5rem}pre{overflow-x:auto}
blockquote{margin:0;padding-inline-start:1rem;border-inline-start:3px solid #ccc}
p,li,td,th,h1,h2{unicode-bidi:plaintext}li,td,th{text-align:-webkit-match-parent;text-align:match-parent}code,pre{direction:ltr;unicode-bidi:isolate}`;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";
const TYPES = { md: "text/markdown", html: "text/html", json: "application/json" };

export function exportMenu(response) {
  const item = (label, action) => el("button", { type: "button", onclick: action }, label);
  const save = (kind) => () => download(response, kind);
  return menu(t("Export"), [
    item("Markdown", save("md")), item("HTML", save("html")), item("JSON", save("json")), item(t("Print"), () => window.print()),
  ]);
}

function download(response, kind) {
  const content = { md: markdownFile, html: htmlFile, json: (each) => `${JSON.stringify(each, null, 2)}\n` }[kind](response);
  const url = URL.createObjectURL(new Blob([content], { type: `${TYPES[kind]};charset=utf-8` }));
  el("a", { href: url, download: `${fileName(response.query)}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function fileName(query) {
  return query.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "answer";
}

const escaped = (text) => text.replace(/([\\`*_[\]<>#|~&])/g, "\\$1").replace(/\s+/g, " ");
const address = (url) => (/^https?:\/\//i.test(url) ? `<${url.replace(/[<>\s]/g, encodeURIComponent)}>` : `\`${url.replaceAll("`", "")}\``);
const notes = (response) => notesOf(response.degraded).map((each) => each.text);
const verdictOf = (citation) => verdictWord(citation) + (citation.cited_by === "platform" ? `, ${t("source found by the platform")}` : "");
const statementOf = (response, citation) => [...response.synthesis].slice(citation.start, citation.end).join("");

function markdownFile(response) {
  const blocks = [`# ${escaped(response.query)}`, origin(response), response.synthesis];
  const list = (title, lines) => lines.length && blocks.push(`## ${title}`, lines.join("\n"));
  list(t("Sources"), response.sources.map((each) => `- [${each.index}] ${escaped(each.title)} ${address(each.url)}`));
  list(t("Citations"), response.citations.map((each) =>
    `- [${each.source_index}] **${verdictOf(each)}**: ${escaped(statementOf(response, each))}${each.quote ? `\n  > ${escaped(each.quote)}` : ""}`));
  list(t("Notes"), notes(response).map((each) => `- ${escaped(each)}`));
  return `${blocks.join("\n\n")}\n`;
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
