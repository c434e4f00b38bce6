// What belongs to a finished answer: notes, sources, verdicts, and what left the machine.

import { askButton } from "./actions.js";
import { options } from "./api.js";
import { el, icon, shortAddress, sourceLink } from "./dom.js";
import { details, isLimit, notesOf } from "./problems.js";
import { plainQuote } from "./source_text.js";
import { dateTime, dollars, foreignLanguage, harmless, isRightToLeft, number, seconds, size, t } from "./texts.js";
import { pageOf, verdictBadge, VERDICTS } from "./verdicts.js";

/** Whether an entry of `degraded` says that words decided where the model that checks citations was not asked, as mostly: it is told
once, with what the answer took. */
export const isJudgesRest = (entry) => entry.component.split("/")[0] === "judge" && !isLimit(entry);

const MARKER = /(?<!\s)\s*\[\d{1,4}\]/g;
const notice = (kind, ...content) => el("div", { class: `notice ${kind}` }, icon(kind), el("div", {}, ...content));

/** What a reader must know before the first line: quotes instead of a text, limits, failures, age, files that are gone. One line,
which opens. */
export function answerNotes({ metadata, degraded, depth, sources }, isRepeatable) {
  const notes = notesOf(degraded.filter((entry) => !entry.reason.startsWith("uncited:") && !isJudgesRest(entry))) // told below
    .sort((one, other) => Number(other.isLimit) - Number(one.isLimit));
  const isWarning = notes.length > 0 || metadata.uncited_sentences > 0;
  if (metadata.uncited_sentences) notes.push({ text: t("Sentences without a source: {n}.", { n: number(metadata.uncited_sentences) }) });
  if (metadata.synthesizer === "extractive" && depth !== "report" && sources.length) // the text of a report says it
    notes.push({ text: t("No language model wrote this: these are sentences of the sources.") });
  if (metadata.stopped === "asked") notes.push({ text: t("Written early, at your request.") });
  if (metadata.stored_at) notes.push({ text: t("From the store, finished on {date}.", { date: dateTime(metadata.stored_at) }) });
  if (!isRepeatable) notes.push({ text: t("Made from files that are not stored: {names}. Add them again to ask more about them.", { names: metadata.files.join(", ") }) });
  return notes.length ? [folded(notes, isWarning ? "warning" : "info")] : [];
}

/** Each {text, until, lines}: one line, which opens to a list. A single note is told at once, for a narrow line. */
export function folded(notes, kind) {
  const lines = notes.flatMap((each) => each.lines ?? []);
  const texts = notes.map(({ text }) => text).join(" · ");
  return el("details", { class: "notes" },
    el("summary", { class: kind }, icon(kind), " ", notes.length > 1 && `${t("Notes: {n}", { n: number(notes.length) })} · `, texts),
    el("div", { class: `notice ${kind}` }, el("div", {},
      el("ul", {}, notes.map(({ text, until }) => el("li", {}, text,
        until && el("span", { class: "muted" }, ` (${t("until {date}", { date: dateTime(until) })})`)))),
      lines.length > 0 && details(lines))));
}

/** Who wrote an answer, in a few words. */
export function writtenBy({ metadata: { synthesizer: name }, sources }) {
  if (name === "extractive") return sources.length ? t("made of quotes, without a language model") : t("without a model");
  return name && t("written by {model}", { model: harmless(name) });
}

/** The question as the engine understood it, to be asked. */
export function correction({ metadata }, ask) {
  if (!metadata.correction) return "";
  return notice("info", el("p", {}, t("Perhaps you meant:"), " ",
    askButton({ class: "link", dir: "auto" }, metadata.correction, () => ask(metadata.correction))));
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

/** The sources with the statements that cite them: each statement, its verdict, then the quote that it was compared with.
`about(source)` are further lines on a source. */
export function sourceList(response, open, about = () => []) {
  if (!response.sources.length) return el("p", { class: "hint" }, t("This answer has no sources."));
  const points = [...response.synthesis]; // offsets count code points
  const statement = ({ start, end, cells }) => {
    const words = points.slice(start, end).join("").replace(MARKER, "");
    return plainQuote(cells?.length ? `| ${words} |` : words);
  };
  return el("ol", { class: "source-list" }, response.sources.map((source) => {
    const citations = response.citations.filter((each) => each.source_index === source.index);
    const text = response.depth === "report" ? undefined : response.raw_results?.[source.index - 1]?.content;
    return el("li", {},
      el("span", { class: "number" }, String(source.index)),
      el("div", {},
        el("p", { class: "source-title" }, sourceLink(source.url, source.title || shortAddress(source.url))),
        el("p", { class: "muted" }, [shortAddress(source.url), foreignLanguage(source, response.metadata.language)].filter(Boolean).join(" · ")),
        about(source),
        el("ul", { class: "quotes" }, citations.map((citation) => el("li", {},
          el("p", { class: "claim", dir: "auto" }, statement(citation)),
          verdictBadge(citation, text),
          citation.quote && el("p", { class: "compared" }, t("In the source"), pageOf(citation), ": ", el("q", { dir: "auto" }, plainQuote(citation.quote))),
          el("button", { type: "button", class: "link", onclick: () => open(source.index, citation) }, t("Show in the source")))))));
  }));
}

/** What was sent to a service of this machine did not leave it. */
const isElsewhere = ({ host }) => !/^(?:(?:[\w-]+\.)*localhost\.?|(?:\[?::ffff:)?127(?:\.\d{1,3}){3}\]?|\[?::1\]?)(?::\d+)?$/i.test(host);

/** The ledger of what left the process, and what the answer took. */
export function sentTable(response, sites, took = t("What the answer took")) {
  const { metadata } = response;
  const cached = (metadata.cached_sent_to ?? []).filter(isElsewhere);
  const left = metadata.sent_to.filter(isElsewhere);
  const isCached = metadata.cache_hit || cached.length > 0;
  const now = isCached ? t("Nothing left this machine for this answer: it came from the cache or the store.") : t("Nothing left this machine.");
  const sent = left.length ? ledger(left, t("What left this machine")) : notice("info", el("p", {}, now));
  const icons = el("p", { class: "hint", hidden: true }, t("This server asked these sites for their icons:"), " ", [...new Set(sites)].join(", "));
  options().then(({ favicons }) => {
    icons.hidden = !(favicons && sites.length);
    if (!icons.hidden && !left.length) sent.remove(); // something left
  }, () => {});
  return el("div", { class: "ledger" }, sent, icons,
    isCached && el("h2", {}, t("Sent earlier, to produce the cached or stored parts")),
    isCached && (cached.length ? ledger(cached, t("Sent earlier, to produce the cached or stored parts")) : el("p", { class: "hint" }, t("Nothing is recorded."))),
    el("h2", {}, took), facts(metadata),
    notesOf(response.degraded.filter(isJudgesRest)).map(({ text, lines }) => el("div", { class: "hint" }, text, details(lines))));
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
    [t("Cost"), metadata.cost_usd === null ? t("not known") : dollars(metadata.cost_usd)],
  ];
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** A tab list with its panels; arrow keys move between tabs. All but the first are disabled until `enable`. `name` begins
the ids where there are several on the page. */
export class Tabs {
  constructor(pages, name = "") {
    this.buttons = pages.map(([label], index) => el("button", {
      type: "button", role: "tab", id: `${name}tab-${index}`, "aria-controls": `${name}panel-${index}`, disabled: index > 0,
      onclick: () => this.#select(index),
    }, label));
    this.panels = pages.map(([, content], index) => el("div", {
      role: "tabpanel", id: `${name}panel-${index}`, "aria-labelledby": `${name}tab-${index}`, tabindex: "0", class: "panel", "data-title": pages[index][0],
    }, content));
    this.list = el("div", { role: "tablist", "aria-label": t("Parts of the result"), class: "tabs" }, this.buttons);
    this.list.addEventListener("keydown", (event) => this.#move(event));
    this.element = el("div", {}, this.list, this.panels);
    this.#select(0);
  }

  enable(labels) {
    this.buttons.forEach((button, index) => {
      button.disabled = false;
      button.textContent = labels[index];
    });
  }

  #select(chosen) {
    this.buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(index === chosen));
      button.tabIndex = index === chosen ? 0 : -1;
      this.panels[index].hidden = index !== chosen;
    });
  }

  #move(event) {
    const open = this.buttons.filter((button) => !button.disabled);
    const now = open.indexOf(document.activeElement);
    const step = isRightToLeft() ? -1 : 1;
    const next = { ArrowRight: now + step, ArrowLeft: now - step, Home: 0, End: open.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const target = open[(next + open.length) % open.length];
    this.#select(this.buttons.indexOf(target));
    target.focus();
  }
}
