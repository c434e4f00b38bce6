// The words of the interface. English stands in the code; other languages are catalogues under lang/.

const STORED = "llm-platform.language";
const MAX_UNTRANSLATED = 1000; // texts with their values; more of them are shown without a language of their own
const MINUTES_FROM_MS = 119_500; // a time from here on is told in minutes and seconds
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const LETTER = /\p{L}/u;
const LOCALES = { ar: "ar-u-nu-latn" }; // the digits of the citations
const root = document.documentElement;
let current = "en";
let catalogue = {};
const untranslated = new Set();
const listeners = [];

/** The text in the language of the interface, with `{name}` replaced; in English where there is no translation. */
export function t(text, values = {}) {
  const known = current === "en" ? text : catalogue[text];
  const filled = (known ?? text).replace(/\{(\w+)\}/g, (all, name) => (name in values ? isolated(String(values[name])) : all));
  if (known !== undefined) return filled;
  const shown = isRightToLeft() ? `\u2066${filled}\u2069` : filled; // its full stop stays at its end
  if (untranslated.size < MAX_UNTRANSLATED) untranslated.add(shown);
  return shown;
}

/** Whether a text of `t` is English for want of a translation: its element says so to screen readers. */
export const isUntranslated = (text) => untranslated.has(text);
export const isRightToLeft = () => root.dir === "rtl";

/** A value between marks that keep its direction from that of the sentence around it. */
function isolated(value) {
  const isOther = isRightToLeft() ? LETTER.test(value) : RIGHT_TO_LEFT.test(value);
  return isOther ? `\u2068${value}\u2069` : value;
}

/** The text without these marks, for what leaves the page. */
export const withoutMarks = (text) => text.replace(/[\u2066-\u2069]/g, "");

// Signs that turn the order of those around them, print nothing, or pile marks on a letter: `report\u202Efdp.exe` would be shown
// as `reportexe.pdf`. Joiners stay: words and emoji need them.
const TURNING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const PILED = /(\p{M}{4})\p{M}+/gu;

/** A text from outside that is shown in one line: a title, an excerpt, a question. */
export const harmless = (text) => text.replace(TURNING, "").replace(PILED, "$1");

const locale = () => LOCALES[current] ?? current;
export const language = () => current;
export const onLanguage = (listener) => listeners.push(listener);
export const number = (value, options) => new Intl.NumberFormat(locale(), options).format(value);
/** Marks keep the sign beside its letters: `US$` is `$US` from right to left. */
export const dollars = (value) =>
  `\u2066${number(value, { style: "currency", currency: "USD", maximumFractionDigits: 4 }).replace(/[\u200e\u200f]/g, "")}\u2069`;
/** "3 quotes from 2 sources": what an answer of quotes alone has. */
export function quotesLine(quotes, sources) {
  const counts = { quotes: number(quotes), sources: number(sources) };
  if (quotes === 1) return sources === 1 ? t("1 quote from 1 source") : t("1 quote from {sources} sources", counts);
  return sources === 1 ? t("{quotes} quotes from 1 source", counts) : t("{quotes} quotes from {sources} sources", counts);
}
/** The name of the source's language in the language of the page, such as *German*, if the answer has another language; otherwise "". */
export function foreignLanguage(source, answer) {
  const isForeign = source.language && answer && source.language !== answer.split("-")[0].toLowerCase();
  return isForeign ? new Intl.DisplayNames(locale(), { type: "language", fallback: "code" }).of(source.language) : "";
}
export const list = (values) => new Intl.ListFormat(locale()).format(values);
export const dateTime = (value) =>
  new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(value));
const DATE = /^\d{4}(?:-\d\d){0,2}$/; // without a time, it is read as one of UTC
/** The day, or nothing where that is no date: it comes from a page. A date is the same one in every time zone. */
export const day = (value) =>
  value && !Number.isNaN(Date.parse(value))
    ? new Intl.DateTimeFormat(locale(), { dateStyle: "medium", ...(DATE.test(value) && { timeZone: "UTC" }) }).format(new Date(value)) : "";
/** The day of a time: today, yesterday, or its date. */
export function relativeDay(value) {
  const begin = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
  const days = Math.round((begin(new Date()) - begin(new Date(value))) / 86_400_000);
  if (days === 0) return t("Today");
  return days === 1 ? t("Yesterday") : day(value);
}
export const size = (bytes) =>
  bytes < 1000 ? number(bytes, { style: "unit", unit: "byte", unitDisplay: "long" }) :
  bytes < 1e6 ? number(bytes / 1e3, { style: "unit", unit: "kilobyte", maximumFractionDigits: 1 }) :
  number(bytes / 1e6, { style: "unit", unit: "megabyte", maximumFractionDigits: 1 });
export const seconds = (milliseconds) =>
  milliseconds >= MINUTES_FROM_MS ? minutes(Math.round(milliseconds / 1000)) :
  milliseconds < 1000 ? number(Math.max(1, Math.round(milliseconds)), { style: "unit", unit: "millisecond" }) :
  number(milliseconds / 1000, { style: "unit", unit: "second", maximumFractionDigits: milliseconds < 10000 ? 1 : 0 });

function minutes(all) {
  const part = (value, unit) => number(value, { style: "unit", unit });
  return [part(Math.floor(all / 60), "minute"), all % 60 && part(all % 60, "second")].filter(Boolean).join(" ");
}

/** Why a text is too long for a question of at most `max` characters; empty where it is not, and where `max` is not known. A field that cut a pasted text would ask something else. */
export function lengthProblem(text, max) {
  const over = [...text.trim()].length - (max ?? Infinity);
  return over > 0 ? t("A question has at most {max} characters: this is {n} too long.", { max: number(max), n: number(over) }) : "";
}

/** Use the language that first_paint.js has found. */
export async function startLanguage() {
  const select = document.getElementById("language");
  select.value = root.lang;
  await use(select);
  select.addEventListener("change", () => {
    write(select.value);
    use(select);
  });
}

async function use({ value: code, selectedOptions: [option] }) {
  catalogue = code === "en" ? {} : (await import(`./lang/${code}.js`).catch(() => ({ default: {} }))).default;
  current = code;
  untranslated.clear();
  root.lang = option.lang;
  root.dir = option.dir || "ltr";
  translate();
  for (const listener of listeners) listener();
}

/** Write the texts of elements that name them: `data-t` is the text itself, as it stands in English. */
function translate() {
  for (const element of root.querySelectorAll("[data-t]")) {
    element.dataset.t ||= element.textContent;
    element.textContent = t(element.dataset.t);
    if (isUntranslated(element.textContent)) element.lang = "en";
    else element.removeAttribute("lang");
  }
  for (const element of root.querySelectorAll("[data-t-label]")) element.setAttribute("aria-label", t(element.dataset.tLabel));
  for (const element of root.querySelectorAll("[data-t-placeholder]")) element.placeholder = t(element.dataset.tPlaceholder);
}

function write(code) {
  try {
    localStorage.setItem(STORED, code);
  } catch {
    // the choice holds for this page alone
  }
}
