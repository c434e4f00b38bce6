// What belongs to a finished answer: notes, sources, verdicts, and what left the machine.

import { VERDICTS } from "./answer.js";
import { el, icon, shortAddress, sourceLink } from "./dom.js";
import { verdictBadge } from "./quote.js";
import { dateTime, number, seconds, size, t } from "./texts.js";

const BUDGET = /^(budget|timeout|daily_budget|llm_budget|max_)/;

const notice = (kind, ...content) => el("div", { class: `notice ${kind}` }, icon(kind), el("div", {}, ...content));

/** What a reader must know before the first line: quotes instead of a text, limits, failures, age. */
export function answerNotes(response) {
  const { metadata, degraded } = response;
  const notes = [];
  const cut = degraded.filter((each) => BUDGET.test(each.reason));
  const rest = degraded.filter((each) => !cut.includes(each) && !each.reason.startsWith("uncited:")); // told below
  if (metadata.synthesizer === "extractive" && response.depth !== "report") // the text of a report says it
    notes.push(notice("info", el("p", {}, t("No language model wrote this: these are sentences of the sources."))));
  if (cut.length)
    notes.push(notice("warning", el("p", {}, t("A limit ended the work early. This is missing:")), entries(cut)));
  if (rest.length)
    notes.push(notice("warning", el("p", {}, t("Some parts failed or did less than requested:")), entries(rest)));
  if (metadata.uncited_sentences)
    notes.push(notice("warning", el("p", {}, t("Sentences without a source: {n}.", { n: number(metadata.uncited_sentences) }))));
  if (metadata.correction)
    notes.push(notice("info", el("p", {}, t("Perhaps you meant: {text}", { text: metadata.correction }))));
  if (metadata.stored_at)
    notes.push(notice("info", el("p", {}, t("From the store, finished on {date}.", { date: dateTime(metadata.stored_at) }))));
  return notes;
}

function entries(degraded) {
  return el("ul", {}, degraded.map((each) => el("li", { lang: "en" }, el("strong", {}, each.component), `: ${each.reason}`,
    each.until && el("span", { class: "muted" }, ` (${t("until {date}", { date: dateTime(each.until) })})`))));
}

/** How many citations have which verdict. */
export function verdictLine(response) {
  if (!response.citations.length) return el("span", { hidden: true });
  const counts = Object.keys(VERDICTS)
    .map((verdict) => [verdict, response.citations.filter((each) => each.verdict === verdict).length])
    .filter(([, count]) => count);
  return el("p", { class: "verdict-line" },
    el("span", { class: "muted" }, t("Citations: {n}", { n: number(response.citations.length) })),
    counts.map(([verdict, count]) => el("span", { class: `badge ${verdict}` }, icon(verdict), `${number(count)} ${VERDICTS[verdict]()}`)));
}

/** The sources with the verdicts of the statements that cite them. */
export function sourceList(response, open) {
  if (!response.sources.length) return el("p", { class: "hint" }, t("This answer has no sources."));
  return el("ol", { class: "source-list" }, response.sources.map((source) => {
    const citations = response.citations.filter((each) => each.source_index === source.index);
    return el("li", {},
      el("span", { class: "number" }, String(source.index)),
      el("div", {},
        el("p", { class: "source-title" }, sourceLink(source.url, source.title || shortAddress(source.url))),
        el("p", { class: "muted" }, shortAddress(source.url)),
        el("ul", { class: "quotes" }, citations.map((citation) => el("li", {},
          verdictBadge(citation.verdict),
          citation.quote && el("q", { dir: "auto" }, citation.quote),
          el("button", { type: "button", class: "link", onclick: () => open(source.index, citation) }, t("Show in the source")))))));
  }));
}

/** The ledger of what left the process, and what the answer took. */
export function sentTable(response) {
  const { metadata } = response;
  const cached = metadata.cached_sent_to ?? [];
  const isCached = metadata.cache_hit || cached.length > 0;
  const now = isCached ? t("Nothing left this machine now: this answer comes from the cache or the store.") : t("Nothing left this machine.");
  return el("div", { class: "ledger" },
    metadata.sent_to.length ? ledger(metadata.sent_to, t("What left this machine")) : notice("info", el("p", {}, now)),
    isCached && el("h2", {}, t("What left when the stored parts were made")),
    isCached && (cached.length ? ledger(cached, t("What left when the stored parts were made")) : el("p", { class: "hint" }, t("Nothing is recorded."))),
    el("h2", {}, t("What the answer took")), facts(metadata));
}

function ledger(sent, label) {
  const heads = [t("Host"), t("What"), t("Requests"), t("Size"), t("Through")];
  const kinds = { query: t("question"), url: t("address"), "page text": t("text of pages") };
  const rows = sent.map((each) => el("tr", {},
    el("th", { scope: "row" }, each.host), el("td", {}, kinds[each.kind] ?? each.kind),
    el("td", { class: "figure" }, number(each.requests)), el("td", { class: "figure" }, size(each.bytes)), el("td", {}, each.via ?? "–")));
  return el("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows)));
}

function facts(metadata) {
  const pairs = [
    [t("Written by"), metadata.synthesizer === "extractive" ? t("no language model") : metadata.synthesizer],
    [t("Time"), seconds(metadata.latency_ms)],
    [t("Searches"), number(metadata.searches)],
    [t("Search providers"), metadata.providers.join(", ")],
    [t("Calls of language models"), number(metadata.llm_calls)],
    [t("Tokens"), number(metadata.tokens_used)],
    [t("Cost"), metadata.cost_usd === null ? t("not known") : number(metadata.cost_usd, { style: "currency", currency: "USD", maximumFractionDigits: 4 })],
  ];
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** A tab list with its panels; arrow keys move between tabs. */
export function tabs(pages) {
  const buttons = pages.map(([label], index) => el("button", {
    type: "button", role: "tab", id: `tab-${index}`, "aria-controls": `panel-${index}`,
    onclick: () => select(index),
  }, label));
  const panels = pages.map(([, content], index) => el("div", {
    role: "tabpanel", id: `panel-${index}`, "aria-labelledby": `tab-${index}`, tabindex: "0", class: "panel",
  }, content));
  const select = (chosen) => buttons.forEach((button, index) => {
    button.setAttribute("aria-selected", String(index === chosen));
    button.tabIndex = index === chosen ? 0 : -1;
    panels[index].hidden = index !== chosen;
  });
  const list = el("div", { role: "tablist", "aria-label": t("Parts of the result"), class: "tabs" }, buttons);
  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(document.activeElement);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const target = (next + buttons.length) % buttons.length;
    select(target);
    buttons[target].focus();
  });
  select(0);
  return el("div", {}, list, panels);
}
