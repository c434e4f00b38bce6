// A question that continues an answer, where the server understands it.

import { understands } from "./api.js";
import { el } from "./dom.js";
import { lengthProblem, t } from "./texts.js";

let known = null; // whether the server takes `previous_id`, asked once

/** A form that appears when follow-ups are possible. */
export function followUpForm(view, response) {
  const input = el("input", { type: "text", id: "follow-up", minlength: 3, required: true, dir: "auto", autocomplete: "off" });
  const error = el("p", { class: "error", role: "alert" });
  const form = el("form", { class: "follow-up", hidden: true },
    el("label", { for: "follow-up" }, t("Ask a follow-up question")),
    el("div", { class: "row" }, input, el("button", { type: "submit", class: "primary" }, t("Ask"))),
    error);
  input.addEventListener("input", () => { error.textContent = lengthProblem(input.value); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (error.textContent) return;
    const { sources, language } = view.request;
    const depth = view.request.depth === "deep" ? "deep" : "shallow";
    view.ask({ query: input.value.trim(), depth, sources, ...(language && { language }), previous_id: response.metadata.request_id });
  });
  known ??= understands("previous_id").catch(() => false);
  known.then((isKnown) => { form.hidden = !isKnown; });
  return form;
}
