// What a reader does next with an answer.

import { errorParts, options } from "./api.js";
import { copied, markedAnswer } from "./clipboard.js";
import { announce, el, icon } from "./dom.js";
import { dateTime, t } from "./texts.js";

const COPIED_MS = 2000;
const REWRITES = [ // the wish is for a language model, in its language
  ["Shorter.", () => t("Shorter")],
  ["In more detail.", () => t("In more detail")],
  ["In simple words, for a reader who is new to the subject.", () => t("In simpler words")],
];

/** The same question, asked again with other fields: it follows what the first one followed, and not its answer. */
export const askAgain = (view, changes) => view.thread.ask({ ...view.request, ...changes }, view.storedId);

const FIELDS_FOR_REPORTS = new Set(["plan", "urls", "max_llm_calls", "max_cost_usd", "max_seconds", "fresh"]);

/** The same question at another depth or by another model; of a report, its plan is shown first. */
function otherMenu(view, response) {
  const asked = Object.fromEntries(Object.entries(view.request).filter(([name]) => !FIELDS_FOR_REPORTS.has(name)));
  const ask = (changes) => view.thread.ask({ ...asked, ...changes }, view.storedId);
  const items = el("div", {});
  const made = menu(t("Ask again"), items);
  const offered = options().catch(() => ({ models: [] })); // then all depths are offered, and the server refuses what it lacks
  Promise.all([import("./choices.js"), offered]).then(([{ DEPTHS }, { depths = Object.keys(DEPTHS), models }]) => {
    const others = depths.filter((name) => name !== response.depth && name in DEPTHS);
    const writers = response.depth !== "report" && models.length > 1 ? models.filter((name) => name !== response.metadata.synthesizer) : [];
    items.replaceWith(
      ...others.map((name) => askButton({}, DEPTHS[name].label(), () => (name === "report" ? view.edit({ depth: name }) : ask({ depth: name })))),
      ...writers.map((name) => askButton({ dir: "auto" }, t("with {model}", { model: name }), () => ask({ model: name }))));
  });
  return made;
}

/** A button that asks. Until that has its answer another click, such as the second one of a double click, asks nothing. */
export function askButton(attributes, label, ask) {
  const button = el("button", { type: "button", ...attributes }, label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await ask();
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

/** The wish with which a question was asked once more. */
export function wish({ instructions }) {
  const [, label] = REWRITES.find(([text]) => instructions?.endsWith(text)) ?? [];
  return label && el("p", { class: "muted wish" }, `${t("Write again")}: ${label()}`);
}

/** Where a quick answer cites nothing: the same question with three searches and more pages. */
export function askDeeper(view, response) {
  if (response.citations.length || response.depth !== "shallow" || !view.isRepeatable) return "";
  return el("p", { class: "ask-deeper" },
    askButton({ class: "primary" }, t("Ask deeper"), () => askAgain(view, { depth: "deep" })));
}

/** Copy, link, write again, deeper. */
export function actionsRow(view, response) {
  const isDeeper = response.depth === "shallow" && response.citations.length > 0 && view.isRepeatable;
  return el("div", { class: "actions", role: "group", "aria-label": t("What to do with this answer") },
    copyButton(t("Copy"), () => markedAnswer(response)),
    savedAddress(response) && copyButton(t("Copy the link"), () => savedAddress(response)),
    view.isRepeatable && rewriteMenu(view, response),
    view.isRepeatable && otherMenu(view, response),
    view.isRepeatable && bell(view, response),
    isDeeper && askButton({}, t("Ask deeper"), () => askAgain(view, { depth: "deep" })));
}

/** The bell: the question is asked each day, and its reader is told what changes. */
function bell(view, response) {
  const note = el("span", { role: "status" });
  const button = askButton({ class: "bell" }, [icon("bell"), t("Watch")], async () => {
    try {
      const { watchQuestion } = await import("./watches.js");
      button.replaceWith(await watchQuestion(view, response));
    } catch (error) {
      note.replaceChildren(...errorParts(error));
    }
  });
  return [button, note];
}

/** What engines and the plan suggest to ask next; a click asks it below, as a follow-up question. */
export function relatedQuestions(view, response) {
  const questions = response.metadata.related_questions ?? [];
  if (!questions.length) return "";
  const item = (question) => el("li", {},
    askButton({ dir: "auto" }, question, () => view.thread.followUp(view, question)));
  return el("section", { class: "related", "aria-label": t("Related questions") },
    el("h2", {}, t("Related questions")), el("ul", {}, questions.map(item)));
}

/** A text that was stopped can be copied, too. */
export const stoppedActions = (text) => el("div", { class: "actions" }, copyButton(t("Copy"), () => text));

/** The address of an answer that the server stores, else nothing. */
export const savedAddress = (response) =>
  location.hash.startsWith("#research/") ? new URL(`#research/${response.metadata.request_id}`, location.href).href : "";

const ends = new WeakMap(); // of the runs of stored answers, by answer

/** Remember when the run of an answer has ended. */
export const rememberEnd = (response, time) => ends.set(response, time);

/** When an answer was made, and where it is. */
export const origin = (response) =>
  [dateTime(response.metadata.stored_at ?? ends.get(response) ?? Date.now()), savedAddress(response)].filter(Boolean).join(" · ");

function rewriteMenu(view, response) {
  const item = (label, changes) => askButton({}, label, () => askAgain(view, changes));
  const items = REWRITES.map(([instructions, label]) => item(label(), { instructions, ...(response.depth === "report" && { fresh: true }) }));
  const made = menu(t("Write again"), items);
  // Without a model the wishes change nothing. The answer says who wrote it until the server says what it has.
  made.hidden = response.metadata.synthesizer === "extractive";
  options().then(({ models }) => { made.hidden = !models.length; }, () => {});
  return made;
}

/** Close a menu; the focus goes back to its button. */
export function closeMenu(made) {
  made.open = false;
  made.querySelector("summary").focus();
}

/** A button that opens a list of buttons; Escape closes it, and so does moving the focus elsewhere. */
export function menu(label, items) {
  const opener = el("summary", {}, label);
  const made = el("details", { class: "menu" }, opener, el("div", { class: "menu-items" }, items));
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && made.open) closeMenu(made);
  });
  made.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !made.contains(event.relatedTarget)) made.open = false;
  });
  return made;
}

/** A button that copies what `content()` gives, and says so: a text, or {text, html}. */
export function copyButton(label, content) {
  const button = el("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", async () => {
    const given = content();
    const isCopied = await copied(typeof given === "string" ? { text: given } : given);
    button.textContent = isCopied ? t("Copied") : t("The browser does not allow copying");
    announce(button.textContent);
    setTimeout(() => { button.textContent = label; }, COPIED_MS);
  });
  return button;
}
