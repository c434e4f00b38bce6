// The theme of the page: that of the system, or the one that was chosen in this browser.

import { announce, byId, icon } from "./dom.js";
import { onLanguage, t } from "./texts.js";

const STORED = "llm-platform.theme"; // read before the first paint, too
const NAMES = { system: () => t("Theme: as the system"), light: () => t("Theme: light"), dark: () => t("Theme: dark") };
const root = document.documentElement;

const current = () => root.dataset.theme ?? "system";

export function startTheme() {
  byId("theme").addEventListener("click", nextTheme);
  onLanguage(draw);
  draw();
}

/** As the system, light, dark, and again. */
export function nextTheme() {
  const names = Object.keys(NAMES);
  const chosen = names[(names.indexOf(current()) + 1) % names.length];
  if (chosen === "system") delete root.dataset.theme;
  else root.dataset.theme = chosen;
  try {
    localStorage.setItem(STORED, chosen);
  } catch {
    // it holds until the page is left
  }
  draw();
  announce(NAMES[chosen]());
}

function draw() {
  const button = byId("theme");
  button.replaceChildren(icon(current()));
  button.setAttribute("aria-label", NAMES[current()]());
  button.title = NAMES[current()]();
}
