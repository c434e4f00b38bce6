// A question that continues a thread.

import { choicesOf } from "./choices.js";
import { Composer } from "./composer.js";
import { el } from "./dom.js";
import { askedText } from "./research.js";
import { t } from "./texts.js";

const MAX_TURN_CHARS = 20_000; // of an earlier answer in a request

/** The box below the last answer of a thread: it searches as the turn `before` did, in its files too, unless a person chooses
otherwise. The question of a turn that `failed` stands in it again, which may be the first one. `ask(request)` gets what a person
writes. */
export function followUpForm(before, failed, ask) {
  const last = failed?.request ?? before.request;
  const isFirst = !before;
  const composer = new Composer({
    id: "follow-up", ask: (request) => { ask(request); }, fields: isFirst ? {} : context(before), files: last.files ?? [],
    values: { ...last, depth: isFirst || last.depth === "deep" ? last.depth : "shallow" },
    label: () => (isFirst ? t("Your question") : t("Ask a follow-up question")),
    placeholder: () => (isFirst ? t("Ask a question") : t("Ask a follow-up question")),
  });
  if (failed) composer.write(askedText(failed.request));
  return el("div", { class: "follow-up" }, composer.element);
}

/** The box in the place of the question of a turn, with its choices: what it asks follows what the turn has followed. The line
below says where the answer comes, in the `place` of this one or at the end of the thread. `ask(request)` gets the question. */
export function editForm(turn, isLast, ask, close) {
  const { context: text, previous_id, history } = turn.request;
  const composer = new Composer({
    id: `edit-${turn.number}`, ask: (request) => { ask(request); }, files: turn.request.files ?? [],
    fields: { ...(text && { context: text }), ...(previous_id && { previous_id }), ...(history && { history }) },
    label: () => t("Edit the question"), placeholder: () => t("Ask a question"),
  });
  composer.choices.set(choicesOf(turn.request));
  composer.write(askedText(turn.request));
  const element = el("div", { class: "edit-question" }, composer.element,
    el("div", { class: "edit-line" },
      el("p", { class: "hint" }, isLast ? t("The new answer takes the place of this one.") : t("The new answer comes at the end of this thread.")),
      el("button", { type: "button", class: "quiet", onclick: close }, t("Cancel"))));
  composer.input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault();
    close();
  });
  return { element, composer };
}

/** The fields by which a question follows a turn. The server forgets what was asked of files; the page knows it. */
export function context(before) {
  if (!before.request.files || before.storedId) return { previous_id: before.answerId };
  const answer = [...before.response.synthesis].slice(0, MAX_TURN_CHARS).join("");
  return { history: [{ question: before.response.query, answer }] };
}
