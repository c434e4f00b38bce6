// The first question of a thread: its box, the questions to begin with, and the question of an address.

import { options } from "./api.js";
import { Composer } from "./composer.js";
import { byId } from "./dom.js";
import { closePlan } from "./plan.js";
import { Suggestions } from "./suggestions.js";
import { isOn } from "./preferences.js";
import { harmless, onLanguage, t } from "./texts.js";

const TITLE_WAITS_MS = [0, 1000, 2000, 4000, 8000];
const STORED = "llm-platform.form";
let composer = null;
let suggestions = null;

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
  byId("composer").replaceChildren(composer.element, suggestions.element);
  onLanguage(() => {
    composer.draw();
    suggestions.draw();
  });
  offerExamples().catch(() => {}); // of a server that says nothing there are none
  for (const name of ["dragover", "drop"]) addEventListener(name, keepPage);
}

/** A server that has just started is still reading its documents, and knows no titles yet. */
async function offerExamples() {
  for (const wait of TITLE_WAITS_MS) {
    const offered = await options(false, wait > 0);
    suggestions.offer(offered);
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
