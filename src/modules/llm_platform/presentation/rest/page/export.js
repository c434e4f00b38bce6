// An answer as a file: Markdown, one HTML page without script, or the server's JSON.

import { rendered, VERDICTS } from "./answer.js";
import { el } from "./dom.js";
import { t } from "./texts.js";

const STYLE = `body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.6 system-ui,sans-serif;color:#1a1a1a;background:#fff}
a{overflow-wrap:anywhere}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.25rem .5rem}pre{overflow-x:auto}
blockquote{margin:0;padding-left:1rem;border-left:3px solid #ccc}`;
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";
const TYPES = { md: "text/markdown", html: "text/html", json: "application/json" };

export function exportMenu(response) {
  const item = (label, action) => el("button", { type: "button", onclick: action }, label);
  const save = (kind) => () => download(response, kind);
  const opener = el("summary", {}, t("Export"));
  const menu = el("details", { class: "menu" }, opener,
    el("div", { class: "menu-items" },
      item("Markdown", save("md")), item("HTML", save("html")), item("JSON", save("json")),
      item(t("Print"), () => window.print())));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    opener.focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  return menu;
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
const notes = (response) => response.degraded.map((each) => `${each.component}: ${each.reason}`);
const verdictOf = (citation) => VERDICTS[citation.verdict]() + (citation.cited_by === "platform" ? `, ${t("source found by the platform")}` : "");
const statementOf = (response, citation) => [...response.synthesis].slice(citation.start, citation.end).join("");

function markdownFile(response) {
  const blocks = [`# ${escaped(response.query)}`, response.synthesis];
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
  const section = (title, items) => items.length ? [el("h2", {}, title), el("ul", {}, items.map((each) => el("li", {}, each)))] : [];
  const link = (url, label) => (/^https?:\/\//i.test(url) ? el("a", { href: url, rel: "noopener noreferrer nofollow" }, label) : `${label} (${url})`);
  const numbers = new Set(response.sources.map((each) => each.index));
  const charset = el("meta", { charset: "utf-8" });
  file.head.prepend(charset, el("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }));
  file.head.append(el("style", {}, STYLE));
  file.body.append(
    el("h1", {}, response.query),
    rendered(response.synthesis, numbers, (match) => el("a", { href: `#source-${match[1]}` }, match[0])),
    ...section(t("Sources"), response.sources.map((each) => el("span", { id: `source-${each.index}` }, `[${each.index}] `, link(each.url, each.title)))),
    ...section(t("Citations"), response.citations.map((each) =>
      [`[${each.source_index}] `, el("strong", {}, verdictOf(each)), `: ${statementOf(response, each)}`, each.quote && el("blockquote", {}, each.quote)])),
    ...section(t("Notes"), notes(response)),
  );
  return `<!doctype html>\n${file.documentElement.outerHTML}\n`;
}
