// A question that continues a thread.

import { choicesOf } from "./choices.js";
import { Composer } from "./composer.js";
import { el } from "./dom.js";
import { askedText } from "./research.js";
import { t } from "./texts.js";

const MAX_TURN_CHARS = 20_000; // of an earlier answer in a request

/** The box below the turn `last` of a thread: it searches as that one does, in its files too, unless a person chooses otherwise.
While it runs, the box waits for it. A question asked follows the turn that `before()` finds at that time; where there is none, and
`last` has ended, it is the first one. `ask(request)` gets what a person writes. */
export function followUpForm(last, before, ask) {
  const { request, isOver } = last;
  const isFirst = isOver && !before();
  const composer = new Composer({
    id: "follow-up", ask: (asked) => { ask(asked); }, files: request.files ?? [], isWaiting: !isOver,
    fields: () => (before() ? context(before()) : {}),
    values: { ...request, depth: isFirst || request.depth === "deep" ? request.depth : "shallow" },
    label: () => (isFirst ? t("Your question") : t("Ask a follow-up question")),
    placeholder: () => (isFirst ? t("Ask a question") : t("Ask a follow-up question")),
  });
  return { turn: last, composer, element: el("div", { class: "follow-up" }, composer.element) };
}

/** The box in the place of the question of a turn, with its choices: what it asks follows what the turn has followed. The line
below says where the answer comes, in the `place` of this one or at the end of the thread. `ask(request)` gets the question. */
export function editForm(turn, isLast, ask, close) {
  const { context: text, previous_id, history } = turn.request;
  const composer = new Composer({
    id: `edit-${turn.number}`, ask: (request) => { ask(request); }, files: turn.request.files ?? [],
    fields: () => ({ ...(text && { context: text }), ...(previous_id && { previous_id }), ...(history && { history }) }),
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

/** The part of the window that a phone's keyboard covers, for the style sheet: the box stands above it. */
function showCovered() {
  const { height, offsetTop, scale } = visualViewport;
  const covered = scale === 1 ? Math.max(0, innerHeight - height - offsetTop) : 0;
  document.documentElement.style.setProperty("--covered", `${covered}px`);
}

for (const name of ["resize", "scroll"]) visualViewport?.addEventListener(name, showCovered);
