// The keys of the page: single letters, which do nothing while a person types and can be switched off (WCAG 2.1.4).

import { byId, el, icon } from "./dom.js";
import { isOn, preference } from "./preferences.js";
import { openThreads } from "./sidebar.js";
import { onLanguage, t } from "./texts.js";
import { nextTheme } from "./theme.js";

const KEYS = [
  ["/", () => t("Write in the box for a question"), toBox],
  ["n", () => t("New question"), () => byId("to-new").click()],
  ["j", () => t("Next citation"), () => toCitation(1)],
  ["k", () => t("Previous citation"), () => toCitation(-1)],
  ["t", () => t("Threads"), openThreads],
  ["d", () => t("Change the theme"), nextTheme],
  ["?", () => t("Keyboard shortcuts"), showKeys],
];
const ALWAYS = [ // those of the browser and of what has the focus
  ["Enter", () => t("Ask; at a citation, show its quote")],
  ["Esc", () => t("Leave the box, or close what is open")],
];
const TYPED = "input:not([type=checkbox], [type=radio], [type=button]), textarea, select, [contenteditable]";
const CLEAR_PX = 96; // from the edges of the window: a citation that is nearer is scrolled to the middle

export function startKeyboard() {
  document.addEventListener("keydown", pressed);
  byId("show-keys").addEventListener("click", showKeys);
  byId("show-keys").append(icon("keys"));
  byId("keys").addEventListener("click", (event) => event.target === byId("keys") && byId("keys").close()); // beside it
  onLanguage(() => byId("keys").open && draw());
}

function pressed(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
  const typed = event.target.closest?.(TYPED);
  if (event.key === "Escape" && typed && !typed.closest("dialog")) typed.blur();
  if (typed || !isOn("keys") || isElsewhere(event.target)) return;
  const [, , act] = KEYS.find(([key]) => key === keyOf(event)) ?? [];
  if (!act) return;
  event.preventDefault();
  act();
}

/** Whether a dialog or a panel has the keys to itself. */
const isElsewhere = (target) => document.querySelector("dialog:modal") || target.closest?.("[popover]:not(.cite-card), [role=menu]");

/** The key as KEYS names it. On a keyboard without Latin letters the place of the key counts. */
function keyOf({ key, code, shiftKey }) {
  const isLatin = /^[!-~]$/.test(key);
  if (isLatin) return shiftKey && /[A-Z]/.test(key) ? "" : key.toLowerCase();
  if (code === "Slash") return shiftKey ? "?" : "/";
  return shiftKey ? "" : (/^Key([A-Z])$/.exec(code)?.[1] ?? "").toLowerCase();
}

/** The box of this thread, else that of a new one. */
function toBox() {
  const box = [byId("follow-up"), byId("query")].find((each) => each?.checkVisibility());
  box?.focus();
}

/** Move the focus to the next citation in the order of the page, or to the previous one. */
function toCitation(step) {
  const markers = [...byId("result").querySelectorAll(".cite")].filter((each) => each.checkVisibility());
  const now = markers.indexOf(document.activeElement);
  const inView = markers.findIndex((each) => each.getBoundingClientRect().top >= 0);
  const first = step > 0 ? (inView < 0 ? markers.length - 1 : inView) : (inView < 0 ? markers.length : inView) - 1;
  const marker = markers[now < 0 ? Math.max(first, 0) : now + step];
  if (!marker) return;
  const { top, bottom } = marker.getBoundingClientRect();
  const end = Math.min(innerHeight - CLEAR_PX, document.querySelector(".follow-up")?.getBoundingClientRect().top ?? innerHeight);
  if (top < CLEAR_PX || bottom > end) marker.scrollIntoView({ block: "center" });
  requestAnimationFrame(() => marker.focus({ preventScroll: true })); // its card closes when the page scrolls
}

function showKeys() {
  draw();
  byId("keys").showModal();
}

function draw() {
  const dialog = byId("keys");
  const row = ([key, label]) => el("div", {}, el("dt", {}, el("kbd", { dir: "ltr" }, key)), el("dd", {}, label()));
  dialog.replaceChildren(
    el("div", { class: "dialog-head" },
      el("h2", { id: "keys-title" }, t("Keyboard shortcuts")),
      el("button", { type: "button", class: "quiet round", "aria-label": t("Close"), onclick: () => dialog.close() }, icon("close"))),
    el("dl", {}, [...KEYS, ...ALWAYS].map(row)),
    preference("keys"));
}
