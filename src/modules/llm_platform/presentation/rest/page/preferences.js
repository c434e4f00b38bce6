// What a reader chose for this browser.

import { el } from "./dom.js";
import { t } from "./texts.js";

const CHOICES = {
  store: { label: () => t("Keep my threads on this server"), isOn: true },
  keys: { label: () => t("Use keys such as / and ?"), isOn: true },
  files: { label: () => t("Keep the files of my questions in this browser"), isOn: false, off: forgetFiles },
  askAtOnce: { label: () => t("Ask at once when an address brings a question"), isOn: false },
};
const stored = (name) => `llm-platform.${name}`;
const memory = {}; // where the browser forbids storage

/** Whether a choice is switched on: `store`, `keys`, `files` or `askAtOnce`. */
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

/** The switches. */
export function preferences() {
  return el("details", { class: "preferences" },
    el("summary", {}, t("Settings")),
    Object.keys(CHOICES).map(preference));
}

/** One switch; there may be another one for the same choice. */
export function preference(name) {
  const change = (event) => {
    choose(name, event.target.checked);
    if (!isOn(name)) CHOICES[name].off?.();
    for (const box of document.getElementsByName(name)) box.checked = isOn(name);
  };
  return el("label", {},
    el("input", { type: "checkbox", name, checked: isOn(name), onchange: change }),
    el("span", {}, CHOICES[name].label()));
}
