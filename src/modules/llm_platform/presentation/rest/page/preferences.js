// What a reader chose for this browser.

import { announce, el } from "./dom.js";
import { t } from "./texts.js";

const CHOICES = {
  store: { label: () => t("Keep my threads on this server"), isOn: true },
  keys: { label: () => t("Use keys such as / and ?"), isOn: true },
  files: { label: () => t("Keep the files of my questions in this browser"), isOn: false, off: forgetFiles },
  askAtOnce: { label: () => t("Ask immediately when a link contains a question"), isOn: false },
  notify: { label: () => t("Notify me when an answer is ready and I am in another tab or window"), isOn: false, on: askToNotify },
};
export const MAX_INSTRUCTION_CHARS = 1000; // of those for every question, which leave room for those of one
const stored = (name) => `llm-platform.${name}`;
const memory = {}; // where the browser forbids storage

/** Whether a choice is switched on: `store`, `keys`, `files`, `askAtOnce` or `notify`. */
export function isOn(name) {
  try {
    const found = localStorage.getItem(stored(name));
    return found === null ? memory[name] ?? CHOICES[name].isOn : found === "true";
  } catch {
    return memory[name] ?? CHOICES[name].isOn;
  }
}

function choose(name, value) {
  memory[name] = value;
  try {
    localStorage.setItem(stored(name), String(value));
  } catch {
    // it holds until the page is left
  }
}

async function forgetFiles() {
  const { forgetAllFiles } = await import("./kept_files.js");
  await forgetAllFiles();
}

/** Ask the browser for the right to show notifications; without it the switch goes back. */
async function askToNotify() {
  const given = await globalThis.Notification?.requestPermission().catch(() => "denied");
  if (given === "granted") return;
  choose("notify", false);
  showState("notify");
  announce(t("The browser does not allow notifications."));
}

/** The wishes for the text of every answer. */
export function instructions() {
  try {
    return localStorage.getItem(stored("instructions")) ?? memory.instructions ?? "";
  } catch {
    return memory.instructions ?? "";
  }
}

function storeInstructions(text) {
  memory.instructions = text;
  try {
    if (text) localStorage.setItem(stored("instructions"), text);
    else localStorage.removeItem(stored("instructions"));
  } catch {
    // they hold until the page is left
  }
}

/** The switches, and the wishes for every answer. */
export function preferences() {
  const field = el("textarea", { rows: 2, dir: "auto", maxlength: MAX_INSTRUCTION_CHARS, id: "instructions", onchange: () => storeInstructions(field.value.trim()) });
  field.value = instructions();
  return el("details", { class: "preferences" },
    el("summary", {}, t("Settings")),
    Object.keys(CHOICES).map(preference),
    el("label", { for: "instructions", class: "for-every" }, t("Instructions for every answer")), field);
}

const showState = (name) => { for (const box of document.getElementsByName(name)) box.checked = isOn(name); };

/** One switch; there may be another one for the same choice. */
export function preference(name) {
  const change = (event) => {
    choose(name, event.target.checked);
    CHOICES[name][isOn(name) ? "on" : "off"]?.();
    showState(name);
  };
  return el("label", {},
    el("input", { type: "checkbox", name, checked: isOn(name), onchange: change }),
    el("span", {}, CHOICES[name].label()));
}
