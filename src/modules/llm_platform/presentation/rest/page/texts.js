// The words of the interface. English stands in the code; other languages are catalogues under lang/.

import { byId } from "./dom.js";

export const LANGUAGES = ["en", "de", "ru", "zh"];
const STORED = "llm-platform.language";
let current = "en";
let catalogue = {};
const listeners = [];

/** The text in the language of the interface, with `{name}` replaced. */
export function t(text, values = {}) {
  return (catalogue[text] ?? text).replace(/\{(\w+)\}/g, (all, name) => (name in values ? String(values[name]) : all));
}

export const language = () => current;
export const onLanguage = (listener) => listeners.push(listener);
export const number = (value, options) => new Intl.NumberFormat(current, options).format(value);
export const dateTime = (value) =>
  new Intl.DateTimeFormat(current, { dateStyle: "medium", timeStyle: "short" }).format(new Date(value));
export const size = (bytes) =>
  bytes < 1000 ? number(bytes, { style: "unit", unit: "byte", unitDisplay: "long" }) :
  bytes < 1e6 ? number(bytes / 1e3, { style: "unit", unit: "kilobyte", maximumFractionDigits: 1 }) :
  number(bytes / 1e6, { style: "unit", unit: "megabyte", maximumFractionDigits: 1 });
export const seconds = (milliseconds) =>
  milliseconds < 1000 ? number(Math.max(1, Math.round(milliseconds)), { style: "unit", unit: "millisecond" }) :
  number(milliseconds / 1000, { style: "unit", unit: "second", maximumFractionDigits: milliseconds < 10000 ? 1 : 0 });

const MAX_CHARS = 500; // of a question, as the server counts them

/** Why a text is too long for a question; empty where it is not. A field that cut a pasted text would ask something else. */
export function lengthProblem(text) {
  const over = [...text.trim()].length - MAX_CHARS;
  return over > 0 ? t("A question has at most {max} characters: this is {n} too long.", { max: MAX_CHARS, n: number(over) }) : "";
}

export async function startLanguage() {
  const wanted = [read(), ...navigator.languages.map((tag) => tag.split("-")[0].toLowerCase())];
  await use(wanted.find((code) => LANGUAGES.includes(code)) ?? "en");
  const select = byId("language");
  select.value = current;
  select.addEventListener("change", () => {
    write(select.value);
    use(select.value);
  });
}

async function use(code) {
  catalogue = code === "en" ? {} : (await import(`./lang/${code}.js`)).default;
  current = code;
  document.documentElement.lang = code === "zh" ? "zh-Hans" : code;
  translate(document);
  for (const listener of listeners) listener();
}

/** Write the texts of elements that name them: `data-t` is the text itself, as it stands in English. */
function translate(root) {
  for (const element of root.querySelectorAll("[data-t]")) {
    element.dataset.t ||= element.textContent;
    element.textContent = t(element.dataset.t);
  }
  for (const element of root.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
  for (const element of root.querySelectorAll("[data-t-placeholder]")) element.placeholder = t(element.dataset.tPlaceholder);
}

function read() {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null; // storage is forbidden
  }
}

function write(code) {
  try {
    localStorage.setItem(STORED, code);
  } catch {
    // the choice holds for this page alone
  }
}
