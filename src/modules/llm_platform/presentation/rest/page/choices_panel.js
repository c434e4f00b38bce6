// The panel of a question: depth and sources as this server has them, and what narrows the search or shapes the text.

import { el } from "./dom.js";
import { DEPTHS, SOURCES, TIMES } from "./choices.js";
import { t } from "./texts.js";

const GAP_PX = 6;
const EDGE_PX = 8; // of the window
const NARROW = matchMedia("(max-width: 36rem)"); // as in page.css: there it is a sheet at the lower edge

/** A panel that `opener` opens and closes; Escape and a click elsewhere close it too. `load()` comes before it is shown. */
export function choicesPanel(choices, opener, load) {
  const panel = el("div", { class: "options-panel", popover: "auto", role: "dialog", "aria-label": t("Depth, sources and more") });
  opener.popoverTargetElement = panel;
  opener.addEventListener("click", async (event) => {
    if (choices.offered || panel.matches(":popover-open")) return;
    event.preventDefault();
    await load();
    panel.showPopover();
  });
  panel.addEventListener("beforetoggle", (event) => {
    opener.setAttribute("aria-expanded", event.newState === "open");
    if (event.newState === "open") draw(panel, choices);
  });
  panel.addEventListener("toggle", (event) => {
    if (event.newState !== "open") return panel.replaceChildren(); // one panel at a time has its fields in the page
    place(panel, opener);
    panel.querySelector(":checked")?.focus({ preventScroll: true });
  });
  const leave = ({ relatedTarget: next }) => {
    if (next && next !== opener && !panel.contains(next) && panel.matches(":popover-open")) panel.hidePopover();
  };
  for (const part of [panel, opener]) part.addEventListener("focusout", leave);
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing && event.target.matches("input")) panel.hidePopover();
  });
  return panel;
}

function draw(panel, choices) {
  const hint = el("p", { class: "hint", id: "depth-hint" });
  const error = el("p", { class: "error", role: "alert" });
  const hasWeb = choices.kinds.some((kind) => kind !== "documents"); // these have neither sites nor dates
  const addresses = textField(choices, "addresses", t("Addresses"), t("Pages to read, one per line. If no source is selected, only these pages are read."));
  const show = () => {
    hint.textContent = DEPTHS[choices.depth].hint();
    addresses.hidden = choices.depth !== "report";
    error.textContent = choices.problem;
  };
  panel.oninput = show;
  panel.replaceChildren(
    depthField(choices), hint, sourceField(choices),
    el("div", { class: "option-rows" },
      select(choices, "model", t("Model"), { "": t("default"), ...byName(choices.models) }, choices.models.length < 2),
      select(choices, "language", t("Answer in"), { "": t("the language of the question"), ...choices.languages }),
      select(choices, "time_range", t("Time"), { "": t("any time"), ...called(TIMES) }, !hasWeb),
      siteField(choices, !hasWeb), addresses,
      textField(choices, "instructions", t("Instructions"), t("Instructions for the text, such as format, length or audience."))),
    error,
    el("div", { class: "panel-buttons" },
      el("button", { type: "button", class: "quiet", onclick: () => { choices.reset(); draw(panel, choices); } }, t("Reset")),
      el("button", { type: "button", onclick: () => panel.hidePopover() }, t("Done"))));
  show();
}

const byName = (names) => Object.fromEntries(names.map((name) => [name, name]));
const called = (labels) => Object.fromEntries(Object.entries(labels).map(([name, label]) => [name, label()]));

function depthField(choices) {
  return el("fieldset", { class: "segments" },
    el("legend", { class: "sr" }, t("Depth")),
    choices.depths.map((name) => el("label", {},
      el("input", { type: "radio", name: "depth", value: name, checked: name === choices.depth, "aria-describedby": "depth-hint",
        oninput: () => choices.set({ depth: name }) }),
      el("span", {}, DEPTHS[name].label()))));
}

function sourceField(choices) {
  const box = (name) => el("input", { type: "checkbox", name: "sources", value: name, checked: choices.sources.includes(name),
    oninput: (event) => choices.choose(name, event.target.checked) });
  return el("fieldset", { class: "option-row" },
    el("legend", { class: "sr" }, t("Sources")),
    el("span", { class: "option-name", "aria-hidden": "true" }, t("Sources")),
    el("div", { class: "chips" }, choices.kinds.map((name) => el("label", {}, box(name), el("span", {}, SOURCES[name]())))));
}

function row(label, hint, field) {
  field.id = `option-${field.name}`;
  if (hint) field.setAttribute("aria-describedby", `${field.id}-hint`);
  return el("div", { class: "option-row" },
    el("label", { for: field.id, class: "option-name" }, label), field, hint && el("p", { class: "hint", id: `${field.id}-hint` }, hint));
}

function select(choices, name, label, values, isHidden = false) {
  const field = el("select", { name, oninput: (event) => choices.set({ [name]: event.target.value }) },
    Object.entries(values).map(([value, text]) => el("option", { value, lang: name === "language" && value ? value : null }, text)));
  field.value = choices.values[name];
  if (field.selectedIndex < 0) field.value = "";
  const made = row(label, "", field);
  made.hidden = isHidden;
  return made;
}

function siteField(choices, isHidden) {
  const field = el("input", { type: "text", name: "sites", dir: "ltr", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    placeholder: "python.org  -example.com", oninput: (event) => choices.set({ sites: event.target.value }) });
  field.value = choices.values.sites;
  const made = row(t("Sites"), t("A minus sign excludes a site."), field);
  made.hidden = isHidden;
  return made;
}

function textField(choices, name, label, placeholder) {
  const field = el("textarea", { name, rows: 2, dir: "auto", placeholder, oninput: (event) => choices.set({ [name]: event.target.value }) });
  field.value = choices.values[name];
  return row(label, "", field);
}

/** Below its button, or above it where there is more room; it moves with the page. */
function place(panel, opener) {
  panel.removeAttribute("style");
  if (NARROW.matches) return;
  const button = opener.getBoundingClientRect();
  const below = innerHeight - button.bottom - GAP_PX - EDGE_PX;
  const above = button.top - GAP_PX - EDGE_PX;
  const start = getComputedStyle(panel).direction === "rtl" ? button.right - panel.offsetWidth : button.left;
  panel.style.left = `${Math.min(Math.max(EDGE_PX, start), document.documentElement.clientWidth - panel.offsetWidth - EDGE_PX) + scrollX}px`;
  if (panel.offsetHeight <= below || below >= above) panel.style.top = `${button.bottom + GAP_PX + scrollY}px`;
  else panel.style.bottom = `${innerHeight - button.top + GAP_PX - scrollY}px`;
  panel.style.maxHeight = `${Math.max(below, above)}px`;
}
