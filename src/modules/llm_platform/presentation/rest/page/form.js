// The question: depth, sources, language; then an answer, or first the plan of a report.

import { errorText, health } from "./api.js";
import { byId } from "./dom.js";
import { closePlan, editPlan } from "./plan.js";
import { lengthProblem, onLanguage, t } from "./texts.js";

const HINTS = {
  shallow: () => t("One search and one answer, in seconds."),
  deep: () => t("Three searches side by side and one answer."),
  report: () => t("A plan, whole pages, a written report, in minutes. It goes on when you close this page."),
};
const STORED = "llm-platform.form";
let isTouched = false;

export function startForm(start) {
  const form = byId("form");
  const showHint = () => {
    const depth = form.elements.depth.value;
    byId("hint").textContent = HINTS[depth]();
    byId("submit").textContent = depth === "report" ? t("Make a plan") : t("Ask");
  };
  const submit = async (event) => {
    event.preventDefault();
    const request = read(form);
    const problem = complaint(request);
    showError(problem);
    if (problem) return;
    remember(form);
    byId("submit").disabled = true;
    try {
      if (request.depth === "report") await editPlan(request, start);
      else start(request);
    } catch (error) {
      showError(errorText(error));
    } finally {
      byId("submit").disabled = false;
    }
  };
  form.addEventListener("submit", submit);
  // Not "change": that of the question comes when the plan takes the focus.
  form.addEventListener("input", () => {
    isTouched = true;
    showHint();
    closePlan();
    showError(lengthProblem(form.elements.query.value));
  });
  form.elements.query.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  onLanguage(showHint);
  recall(form);
  showHint();
  if (!recalled()) preferDocuments(form);
}

export function focusForm() {
  byId("query").focus();
}

function read(form) {
  const request = {
    query: form.elements.query.value.trim(),
    depth: form.elements.depth.value,
    sources: [...form.querySelectorAll("[name=sources]:checked")].map((box) => box.value),
  };
  if (form.elements.language.value) request.language = form.elements.language.value;
  return request;
}

function complaint(request) {
  if (request.query.length < 3) return t("A question needs at least three characters.");
  if (!request.sources.length) return t("Choose at least one source.");
  return lengthProblem(request.query);
}

function showError(text) {
  byId("form-error").textContent = text;
  byId("query").setAttribute("aria-invalid", text ? "true" : "false");
}

function remember(form) {
  const { depth, sources, language = "" } = read(form);
  try {
    localStorage.setItem(STORED, JSON.stringify({ depth, sources, language }));
  } catch {
    // the next visit begins with the defaults
  }
}

function recalled() {
  try {
    return JSON.parse(localStorage.getItem(STORED));
  } catch {
    return null;
  }
}

function recall(form) {
  const stored = recalled();
  if (!stored) return;
  form.elements.depth.value = stored.depth;
  form.elements.language.value = stored.language;
  for (const box of form.querySelectorAll("[name=sources]")) box.checked = stored.sources.includes(box.value);
}

/** A server that knows only documents searches them and not the web. */
async function preferDocuments(form) {
  const { components = {} } = await health().catch(() => ({}));
  const searched = Object.keys(components).filter((name) => components[name].kind === "search");
  if (isTouched || searched.join() !== "documents") return;
  for (const box of form.querySelectorAll("[name=sources]")) box.checked = box.value === "documents";
}
