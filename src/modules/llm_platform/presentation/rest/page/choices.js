// What a person chose for a question beside its words: depth, sources, and what narrows the search or shapes the text.

import { instructions } from "./preferences.js";
import { number, t } from "./texts.js";

export const DEPTHS = {
  shallow: { label: () => t("Quick"), hint: () => t("One search and one answer, in seconds.") },
  deep: { label: () => t("Deep"), hint: () => t("Three searches side by side and one answer.") },
  report: { label: () => t("Report"), hint: () => t("A plan, full pages and a written report, in minutes. It continues if you close this page.") },
};
export const SOURCES = {
  web: () => t("Web"), news: () => t("News"), academic: () => t("Academic"), documents: () => t("Documents"),
};
export const TIMES = {
  day: () => t("Past day"), week: () => t("Past week"), month: () => t("Past month"), year: () => t("Past year"),
};
export const LANGUAGES = {
  en: "English", de: "Deutsch", fr: "Français", es: "Español", it: "Italiano", pl: "Polski", ru: "Русский", uk: "Українська",
  zh: "中文", ja: "日本語", ar: "العربية", he: "עברית",
};
const MAX_ADDRESS_CHARS = 2000;
const SITE = /^-?([a-z0-9_-]+\.)*[a-z0-9_-]+$/;
const NONE = { depth: "shallow", sources: null, besideFiles: [], language: "", model: "", time_range: "", sites: "", instructions: "", addresses: "" };
const KEPT = ["depth", "sources", "language", "model"]; // from one question to the next; what narrows one search is not
const words = (text) => text.split(/[\s,;，；、]+/).filter(Boolean);

/** The choices of a request that was asked, with what narrowed its search, without the wishes for every answer. */
export function choicesOf({ depth, sources, files, language, model, time_range, domains, instructions: wishes = "", urls }) {
  const kept = instructions();
  return {
    depth: depth || NONE.depth, ...(files?.length ? { besideFiles: sources ?? [] } : { sources }),
    language: language ?? "", model: model ?? "", time_range: time_range ?? "",
    sites: (domains ?? []).join(" "), addresses: (urls ?? []).join("\n"),
    instructions: kept && wishes?.startsWith(kept) ? wishes.slice(kept.length).trim() : wishes ?? "",
  };
}

/** `changed()` is called after each change; `values` are those of an earlier choice. */
export class Choices {
  constructor(values = {}, changed = () => {}) {
    this.values = { ...NONE };
    for (const name of KEPT) this.values[name] = values[name] || NONE[name];
    this.offered = null;
    this.hasFiles = false; // these are searched; nothing else, unless it is chosen beside them
    this.changed = changed;
  }

  /** Leave out what the server does not have; before it has said so all stands open. */
  offer(options) {
    this.offered = options;
    this.changed();
  }

  set(values) {
    Object.assign(this.values, values);
    this.changed();
  }

  get depths() {
    return Object.keys(DEPTHS).filter((name) => this.offered?.depths.includes(name) ?? true);
  }

  get depth() {
    return this.depths.includes(this.values.depth) ? this.values.depth : this.depths[0];
  }

  get kinds() {
    return Object.keys(SOURCES).filter((name) => this.offered?.sources.includes(name) ?? true);
  }

  /** The chosen kinds that there are; those of the server where a person chose none of them. */
  get sources() {
    const chosen = this.values[this.#sourceName]?.filter((name) => this.kinds.includes(name));
    return chosen?.length || this.values[this.#sourceName]?.length === 0 ? chosen : this.offered?.default_sources ?? ["web"];
  }

  /** The sources that are sure to be searched: none before the server has said what it has, or a person has chosen some. */
  get sureSources() {
    return this.offered || this.values[this.#sourceName] ? this.sources : [];
  }

  choose(name, isChosen) {
    this.set({ [this.#sourceName]: this.kinds.filter((kind) => (kind === name ? isChosen : this.sources.includes(kind))) });
  }

  get #sourceName() {
    return this.hasFiles ? "besideFiles" : "sources";
  }

  get models() {
    return this.offered?.models ?? [];
  }

  /** The languages, with that of an earlier choice. */
  get languages() {
    const { language } = this.values;
    return language in LANGUAGES || !language ? LANGUAGES : { ...LANGUAGES, [language]: language };
  }

  get sites() {
    return words(this.values.sites).map(siteOf);
  }

  get addresses() {
    return this.depth === "report" ? words(this.values.addresses) : [];
  }

  /** The fields of a request. */
  get request() {
    const { language, time_range, instructions } = this.values;
    const model = this.models.includes(this.values.model) && this.values.model;
    return {
      depth: this.depth,
      ...(this.sources.length && { sources: this.sources }),
      ...(language && { language }),
      ...(model && { model }),
      ...(time_range && { time_range }),
      ...(this.sites.length && { domains: this.sites }),
      ...(instructions.trim() && { instructions: instructions.trim() }),
      ...(this.addresses.length && { urls: this.addresses }),
    };
  }

  /** What has to be mended before a question can be asked; empty where nothing has. */
  get problem() {
    return this.#sourceProblem() || this.#siteProblem() || this.#addressProblem() || this.#instructionProblem();
  }

  /** What to keep for the next question. */
  get kept() {
    return Object.fromEntries(KEPT.map((name) => [name, this.values[name]]));
  }

  /** Forget what was for one question. */
  clear() {
    this.set({ ...NONE, ...this.kept });
  }

  reset() {
    this.set(NONE);
  }

  /** The choices that differ from the usual ones, each as `{label, remove}`; depth and sources are always in view. */
  get chips() {
    const chip = (label, values) => ({ label, remove: () => this.set(values) });
    const { language, time_range, instructions } = this.values;
    const { model } = this.request;
    return [
      model && chip(model, { model: "" }),
      language && chip(this.languages[language], { language: "" }),
      time_range && chip(TIMES[time_range](), { time_range: "" }),
      ...words(this.values.sites).map((site, index, all) => chip(siteOf(site), { sites: all.filter((_, other) => other !== index).join(" ") })),
      this.addresses.length && chip(t("Addresses: {n}", { n: number(this.addresses.length) }), { addresses: "" }),
      instructions.trim() && chip(t("Instructions"), { instructions: "" }),
    ].filter(Boolean);
  }

  /** A limit of the server; none before it has said so. */
  #most(name) {
    return this.offered?.[name] ?? Infinity;
  }

  #sourceProblem() {
    return this.sources.length || this.addresses.length || this.hasFiles ? "" : t("Choose at least one source.");
  }

  #siteProblem() {
    const wrong = this.sites.find((site) => !SITE.test(site));
    if (wrong) return t("“{text}” is not a site: write it as python.org.", { text: wrong });
    const most = this.#most("max_domains");
    return this.sites.length > most ? t("At most {n} sites.", { n: most }) : "";
  }

  #addressProblem() {
    const wrong = this.addresses.find((address) => !/^https?:\/\/[^/]/i.test(address) || address.length > MAX_ADDRESS_CHARS);
    if (wrong) return t("“{text}” is not an address: it begins with https://.", { text: wrong.slice(0, 100) });
    const most = this.#most("max_urls");
    return this.addresses.length > most ? t("At most {n} addresses.", { n: most }) : "";
  }

  #instructionProblem() {
    const most = this.#most("max_instruction_chars") - (instructions() ? [...instructions()].length + 1 : 0); // those for every answer come first
    const over = [...this.values.instructions.trim()].length - most;
    return over > 0 ? t("Instructions have at most {max} characters: these are {n} too long.", { max: number(most), n: number(over) }) : "";
  }
}

/** The name of a site as the server takes it, of what a person wrote or pasted: `-` in front leaves it out. */
function siteOf(text) {
  const [, minus, rest] = /^([-–−]?)(?:\*?\.)?(.*)$/.exec(text);
  try {
    const host = new URL(/^https?:/i.test(rest) ? rest : `http://${rest}`).hostname.replace(/^www\./, "");
    return host.includes("%") ? text : (minus && "-") + host; // A browser escapes what no name of a host may contain.
  } catch {
    return text;
  }
}
