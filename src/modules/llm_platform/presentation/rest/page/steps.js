// The steps of a research run as they happen: one line for each kind, with what it did below it.

import { errorParts } from "./api.js";
import { announce, el, shortAddress, sourceLink } from "./dom.js";
import { sentenceOf } from "./problems.js";
import { seconds, t } from "./texts.js";

const HEADINGS = {
  queued: (n) => t("Waiting in the queue"),
  planned: (n) => t("Sub-questions planned: {n}", { n }),
  searched: (n) => t("Searches: {n}", { n }),
  ranked: (n) => t("Results chosen: {n}", { n }),
  read: (n) => t("Pages read: {n}", { n }),
  summarized: (n) => t("Pages summarised: {n}", { n }),
  round: (n, { number, of }) => t("Further round {n} of {all}", { n: number, all: of ?? number }),
  writing: () => t("Writing the answer"),
  verified: () => t("A language model checks the citations"),
};
const ORDER = Object.keys(HEADINGS); // in which a run does them, whatever comes late
const DURATIONS = "llm-platform.durations"; // of past runs by depth, in milliseconds
const REMEMBERED = 9;
const SHOWN = 12; // entries of a step; a report may read many pages

export class Steps {
  constructor(depth = "") {
    this.began = performance.now();
    this.usual = usualDuration(depth); // milliseconds; 0 where none is known
    this.list = el("ol", { class: "steps-list" });
    this.summary = el("summary", {}, t("Working…"));
    this.element = el("details", { class: "steps" }, this.summary, this.list);
    this.groups = new Map();
    this.further = { searched: 0, read: 0 }; // searches and pages of further rounds
    this.took = null; // milliseconds, at the end
    this.stored = null; // what reads the events of a run that has ended before
    this.element.addEventListener("toggle", () => this.element.open && this.#load());
  }

  /** The run has ended before, after this long: its steps are read when a reader opens them, by `events()`. */
  offer(events, milliseconds) {
    this.stored = events;
    this.took = milliseconds;
  }

  /** Take an event of the research into account. */
  add(event) {
    this.#show(event);
    this.#line(event);
  }

  /** One line says what is done now: the last phase that has begun, its share that is done, and the time that is left. */
  #line(event) {
    if (event.type === "ranked") this.chosen = event.kept.length;
    const now = ORDER.findLast((kind) => this.groups.has(kind));
    if (!now) return;
    let line = this.groups.get(now).text;
    if (now === "round") line = [line, ...counted(this.further)].join(" · ");
    if (now === "read" && this.chosen >= this.groups.get("read").count) line = this.#reading(event);
    if (event.type === "model_progress") line = [line, progress(event)].filter(Boolean).join(" · ");
    else if (this.usual) line = [line, this.#left()].filter(Boolean).join(" · ");
    if (line && line !== this.summary.textContent) this.summary.textContent = line; // an answer has thousands of tokens
  }

  #reading(event) {
    if (event.type === "read") this.host = shortAddress(event.url);
    return t("Reading {n} of {all} · {host}", { n: this.groups.get("read").count, all: this.chosen, host: this.host });
  }

  /** What is left of the time that runs of this depth took before, to five seconds. */
  #left() {
    const left = Math.round((this.usual - (performance.now() - this.began)) / 5000) * 5000;
    return left > 0 ? t("about {time} left", { time: seconds(left) }) : "";
  }

  #show(event) {
    switch (event.type) {
      case "queued": return this.#group("queued").set([]);
      case "planned": return this.#group("planned").set(event.questions.map((text) => el("span", { dir: "auto" }, text)));
      case "searched": return this.#found("searched", searchedEntry(event));
      case "ranked": return this.#group("ranked").set(event.kept.map((each) => sourceLink(each.url, each.title || shortAddress(each.url))));
      case "read": return this.#found("read", readEntry(event), isDone(event));
      case "summarized": return this.#group("summarized").push(el("span", { dir: "auto" }, shortAddress(event.url)));
      case "round": return this.#group("round", event).push(el("span", { dir: "auto" }, event.queries.join(" · ")));
      case "sources": return this.#group("writing").set([]);
      case "verified": return event.pending ? this.#group("verified").set([]) : undefined;
      case "reset": return event.reason === "interrupted" ? this.#clear() : undefined;
      case "model_progress": return; // #line shows it
      case "started": case "token": case "done": case "failed": return; // no steps: research.js shows the answer or the error
    }
  }

  /** Searches and pages of a further round stand below its queries. */
  #found(kind, entry, counts = true) {
    if (!this.groups.has("round")) return this.#group(kind).push(entry, counts);
    this.further[kind] += counts;
    this.#group("round").push(entry, false);
  }

  /** The research has ended: what it did is one line, to be opened; nothing where it did nothing. */
  end(milliseconds, metadata = null) {
    this.took = milliseconds ?? this.took ?? performance.now() - this.began;
    this.metadata = metadata;
    this.#summarise();
    this.element.open = false;
    if (!this.groups.size && !this.stored) this.element.remove();
  }

  /** What is known of a stored run, too, so that the line stays after a reload. */
  #summarise() {
    for (const group of this.groups.values()) group.element.classList.remove("now");
    const { searches = 0, pages_read: read = 0 } = this.metadata ?? {};
    const done = counted({ searched: searches, read });
    const time = seconds(this.took);
    this.summary.textContent = done.length ? [...done, time].join(" · ") : t("Steps, in {time}", { time });
  }

  async #load() {
    const events = this.stored;
    if (!events) return;
    this.stored = null;
    try {
      for await (const event of events()) this.#show(event);
      this.#summarise();
      if (!this.groups.size) this.list.replaceChildren(el("li", {}, t("Nothing is recorded.")));
    } catch (error) {
      this.stored = events; // to be opened again
      this.#clear();
      this.list.replaceChildren(el("li", {}, errorParts(error)));
    }
  }

  /** `event` has what the heading of this kind tells beside the number of its entries. */
  #group(kind, event) {
    let group = this.groups.get(kind);
    if (group && event) group.event = event;
    if (!group) {
      group = new Group(kind, event);
      this.groups.set(kind, group);
      const known = ORDER.filter((name) => this.groups.has(name));
      const later = this.groups.get(known[known.indexOf(kind) + 1]);
      this.list.insertBefore(group.element, later?.element ?? null);
      for (const name of known) this.groups.get(name).element.classList.toggle("now", name === known.at(-1));
      if (this.took === null && !later) announce(group.text);
    }
    return group;
  }

  #clear() {
    this.further = { searched: 0, read: 0 };
    this.groups.clear();
    this.list.replaceChildren();
  }
}

/** Remember how long a run took, for the next ones of its depth. What came from a cache took no time. */
export function rememberDuration(depth, { latency_ms: took, cache_hit: isCached }) {
  if (isCached || !depth) return;
  try {
    const known = durations();
    localStorage.setItem(DURATIONS, JSON.stringify({ ...known, [depth]: [...(known[depth] ?? []), took].slice(-REMEMBERED) }));
  } catch {
    // the browser forbids storage: no time is told
  }
}

/** The median of past runs, in milliseconds; 0 where none is known. */
export function usualDuration(depth) {
  try {
    const past = (durations()[depth] ?? []).toSorted((one, other) => one - other);
    return past[Math.floor(past.length / 2)] ?? 0;
  } catch {
    return 0;
  }
}

const durations = () => JSON.parse(localStorage.getItem(DURATIONS)) ?? {};

class Group {
  constructor(kind, event) {
    this.kind = kind;
    this.event = event;
    this.count = 0;
    this.heading = el("span", { class: "step-title" });
    this.entries = el("ul", {});
    this.element = el("li", { class: "step now" }, this.heading, this.entries);
    this.#title();
  }

  get text() {
    return HEADINGS[this.kind](this.count, this.event);
  }

  /** Replace the entries. */
  set(entries) {
    this.count = entries.length;
    this.entries.replaceChildren(...entries.slice(0, SHOWN).map((entry) => el("li", {}, entry)));
    this.#title();
  }

  push(entry, counts = true) {
    this.count += counts ? 1 : 0;
    this.entries.append(el("li", {}, entry));
    if (this.entries.children.length > SHOWN) this.entries.firstElementChild.remove();
    this.#title();
  }

  #title() {
    this.heading.textContent = this.text;
  }
}

/** A small model reads for a minute before its first word: that it works is said every few seconds. */
function progress({ phase, elapsed_s: elapsed }) {
  const time = seconds(elapsed * 1000);
  return phase === "reading" ? t("the language model reads, {time} so far", { time }) : time;
}

function searchedEntry(event) {
  const from = event.cached ? t("{provider}, from the cache", { provider: event.provider }) : event.provider;
  return el("span", {}, el("span", { dir: "auto" }, event.query), el("span", { class: "muted" }, ` ${from} · ${event.count}`));
}

const counted = ({ searched, read }) =>
  [searched && t("Searches: {n}", { n: searched }), read && t("Pages read: {n}", { n: read })].filter(Boolean);

const isDone = ({ status }) => status === "read" || status === "stored";

function readEntry(event) {
  const failed = !isDone(event);
  return el("span", { class: failed ? "failed" : null }, sourceLink(event.url, shortAddress(event.url)),
    failed && el("span", { class: "muted" }, ` ${sentenceOf(event.status)}`));
}
