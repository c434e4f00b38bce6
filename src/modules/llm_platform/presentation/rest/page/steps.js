// The steps of a research as they happen: one line for each kind, with what it did below it.

import { announce, el, shortAddress, sourceLink } from "./dom.js";
import { seconds, t } from "./texts.js";

const HEADINGS = {
  queued: (n) => t("Waiting for a free place"),
  planned: (n) => t("Planned: {n} sub-questions", { n }),
  searched: (n) => t("Searches: {n}", { n }),
  ranked: (n) => t("Results chosen: {n}", { n }),
  read: (n) => t("Pages read: {n}", { n }),
  summarized: (n) => t("Pages summarised: {n}", { n }),
  writing: () => t("Writing the answer"),
  verified: () => t("A language model checks the citations"),
};
const SHOWN = 12; // entries of a step; a report may read many pages

export class Steps {
  constructor() {
    this.began = performance.now();
    this.list = el("ol", { class: "steps-list" });
    this.summary = el("summary", {}, t("Working…"));
    this.element = el("details", { class: "steps", open: true }, this.summary, this.list);
    this.groups = new Map();
  }

  /** Take an event of the research into account. */
  add(event) {
    switch (event.type) {
      case "queued": return this.#group("queued").set([]);
      case "planned": return this.#group("planned").set(event.questions.map((text) => el("span", { dir: "auto" }, text)));
      case "searched": return this.#group("searched").push(searchedEntry(event));
      case "ranked": return this.#group("ranked").set(event.kept.map((each) => sourceLink(each.url, each.title || shortAddress(each.url))));
      case "read": return this.#group("read").push(readEntry(event), event.status === "read" || event.status === "stored");
      case "summarized": return this.#group("summarized").push(el("span", { dir: "auto" }, shortAddress(event.url)));
      case "sources": return this.#group("writing").set([]);
      case "verified": return event.pending ? this.#group("verified").set([]) : undefined;
      case "reset": return event.reason === "interrupted" ? this.#clear() : undefined;
    }
  }

  /** The research has ended: what it did is one line, to be opened. */
  end(milliseconds) {
    for (const group of this.groups.values()) group.element.classList.remove("now");
    this.summary.textContent = t("Steps: {n}, in {time}", {
      n: this.groups.size,
      time: seconds(milliseconds ?? performance.now() - this.began),
    });
    this.element.open = false;
  }

  #group(kind) {
    let group = this.groups.get(kind);
    if (!group) {
      for (const other of this.groups.values()) other.element.classList.remove("now");
      group = new Group(kind);
      this.groups.set(kind, group);
      this.list.append(group.element);
      announce(group.text);
    }
    return group;
  }

  #clear() {
    this.groups.clear();
    this.list.replaceChildren();
  }
}

class Group {
  constructor(kind) {
    this.kind = kind;
    this.count = 0;
    this.heading = el("span", { class: "step-title" });
    this.entries = el("ul", {});
    this.element = el("li", { class: "step now" }, this.heading, this.entries);
    this.#title();
  }

  get text() {
    return HEADINGS[this.kind](this.count);
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

function searchedEntry(event) {
  const from = event.cached ? t("{provider}, from the cache", { provider: event.provider }) : event.provider;
  return el("span", {}, el("span", { dir: "auto" }, event.query), el("span", { class: "muted" }, ` ${from} · ${event.count}`));
}

function readEntry(event) {
  const failed = event.status !== "read" && event.status !== "stored";
  return el("span", { class: failed ? "failed" : null }, sourceLink(event.url, shortAddress(event.url)),
    failed && el("span", { class: "muted" }, ` ${t("not read: {reason}", { reason: event.status })}`));
}
