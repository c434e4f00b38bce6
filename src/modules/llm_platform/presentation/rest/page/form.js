// The first question of a thread: its box, the questions to begin with, and the question of an address.

import { listDocuments, options } from "./api.js";
import { Composer } from "./composer.js";
import { SOURCES } from "./choices.js";
import { byId, el } from "./dom.js";
import { closePlan } from "./plan.js";
import { Suggestions } from "./suggestions.js";
import { isOn } from "./preferences.js";
import { keyForm, onKey } from "./settings.js";
import { harmless, list, onLanguage, t } from "./texts.js";

const TITLE_WAITS_MS = [0, 1000, 2000, 4000, 8000];
const STORED = "llm-platform.form";
const NO_KEY = 401;
const READS = { // what an answer is made from, as the line below the heading names it
  web: () => t("the web"), news: () => t("news"), academic: () => t("scientific papers"), documents: () => t("the documents of this server"),
};
let composer = null;
let suggestions = null;
let keyPlace = null; // above the box, where the server wants a key and has none
let sources = []; // of the server, once it has said so

/** `start(request)` starts a thread. */
export function startForm(start) {
  const ask = (request) => {
    closePlan();
    return start(request);
  };
  composer = new Composer({
    id: "query", rows: 2, values: recalled(), remember, ask,
    label: () => t("Your question"), placeholder: () => t("Ask a question"),
  });
  suggestions = new Suggestions((question, sources) => {
    if (sources) composer.choices.set({ sources });
    composer.write(question);
    composer.send();
  });
  keyPlace = el("div", { class: "key-place" });
  byId("composer").replaceChildren(keyPlace, composer.element, suggestions.element);
  onLanguage(() => {
    composer.draw();
    suggestions.draw();
    introduce();
    if (keyPlace.firstChild) keyPlace.replaceChildren(keyForm());
  });
  introduce();
  learn();
  onKey(() => learn(true));
  for (const name of ["dragover", "drop"]) addEventListener(name, keepPage);
}

/** Learn what the server has; one that wants a key says nothing without it, and of one that is away there are no examples. */
async function learn(isGiven = false) {
  try {
    await offerExamples(isGiven);
  } catch (error) {
    if (error.status === NO_KEY) keyPlace.replaceChildren(keyForm(isGiven));
  }
}

/** Say in one line what this page does and what it reads. */
function introduce() {
  const names = Object.keys(SOURCES).filter((name) => sources.includes(name)).map((name) => READS[name]());
  const said = [names.length > 0 && t("Answers from {names}.", { names: list(names) }), t("Each sentence is checked against its source.")].filter(Boolean);
  byId("intro").replaceChildren(...said.flatMap((sentence) => [el("span", {}, sentence), " "]).slice(0, -1));
}

/** A server that has just started is still reading its documents, and knows no titles yet. */
async function offerExamples(isGiven) {
  for (const wait of TITLE_WAITS_MS) {
    const offered = await options(false, isGiven || wait > 0);
    keyPlace.replaceChildren();
    composer.load().catch(() => {});
    sources = offered.sources;
    introduce();
    suggestions.offer(offered);
    if (offered.document_titles.length) suggestions.showDocuments(await listDocuments().catch(() => null)); // the page works without the list
    if (offered.document_titles.length || !offered.sources.includes("documents")) return;
    await new Promise((resolve) => setTimeout(resolve, wait || TITLE_WAITS_MS[1]));
  }
}

/** Offer the newest threads. */
export function suggestThreads(threads) {
  suggestions?.showThreads(threads);
}

/** Put the question of an address (`/?q=…`) into the box. It is asked at once only where a person chose that in this browser:
a link of another site must not spend. */
export function askAddress() {
  const asked = harmless(new URLSearchParams(location.search).get("q") ?? "").trim();
  if (!asked) return;
  history.replaceState(null, "", location.pathname + location.hash); // a reload asks nothing twice
  composer.write(asked);
  if (isOn("askAtOnce")) composer.send();
}

export function focusForm() {
  composer.focus();
}

export function clearForm() {
  composer.clear();
}

/** A file that misses the box must not take the place of the page. */
function keepPage(event) {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
}

function remember(values) {
  try {
    localStorage.setItem(STORED, JSON.stringify(values));
  } catch {
    // the next visit begins with the defaults
  }
}

function recalled() {
  try {
    return JSON.parse(localStorage.getItem(STORED)) ?? {};
  } catch {
    return {};
  }
}
