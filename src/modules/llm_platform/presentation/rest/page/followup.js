// A question that continues a thread.

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

/** The fields by which a question follows a turn. The server forgets what was asked of files; the page knows it. */
export function context(before) {
  if (!before.request.files || before.storedId) return { previous_id: before.answerId };
  const answer = [...before.response.synthesis].slice(0, MAX_TURN_CHARS).join("");
  return { history: [{ question: before.response.query, answer }] };
}
