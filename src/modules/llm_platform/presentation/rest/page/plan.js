// The plan of a report: a person changes, adds, removes and orders the sub-questions before it starts.

import { errorParts, maxQueryChars, plan } from "./api.js";
import { announce, byId, el, icon } from "./dom.js";
import { dollars, lengthProblem, number, seconds, t } from "./texts.js";

const MOST = 10;
const LIMITS = [
  ["max_seconds", "Minutes", 60],
  ["max_llm_calls", "Calls of language models", 1],
  ["max_cost_usd", "Cost in US dollars", 1],
];

let shown = null; // the place of the plan that is shown
let making = null; // ends the making of a plan

/** Show the plan of a request in a place, for changes; `start(request)` gets the request with what the person made of it. */
export async function editPlan(place, request, start) {
  closePlan();
  shown = place;
  const { signal } = (making = new AbortController());
  const cancel = () => {
    closePlan();
    place.parentElement.querySelector("textarea").focus();
  };
  place.replaceChildren(el("p", { class: "hint working" }, t("Making a plan…")), el("button", { type: "button", onclick: cancel }, t("Cancel")));
  announce(t("Making a plan…"));
  let made;
  try {
    made = await plan(asked(request), signal);
  } catch (error) {
    if (signal.aborted) return; // it was cancelled, or the question was changed meanwhile
    place.replaceChildren();
    throw error;
  }
  if (signal.aborted) return;
  new PlanEditor(place, request, made, start);
}

export function closePlan() {
  making?.abort();
  shown?.replaceChildren();
}

class PlanEditor {
  constructor(place, request, made, start) {
    const questions = made.questions.length ? made.questions : [made.query];
    this.made = { estimate: made.estimate, count: questions.length };
    this.takes = el("p", { class: "hint takes", "aria-live": "polite" });
    this.list = el("ol", { class: "plan-list" });
    this.error = el("p", { class: "error", role: "alert" });
    this.addButton = el("button", { type: "button", onclick: () => this.#add("", true) }, t("Add a sub-question"));
    const form = el("form", { class: "card plan", "aria-labelledby": "plan-title" },
      el("h2", { id: "plan-title", tabindex: "-1" }, t("Plan of the report")),
      el("p", { class: "hint" }, t("Each sub-question is searched and gets a section. Change what you like.")),
      this.list,
      el("div", { class: "buttons spread" },
        el("div", { class: "buttons" }, this.addButton,
          el("button", { type: "button", onclick: () => this.#others(request) }, t("Suggest others")))),
      this.takes,
      limits(),
      this.error,
      el("div", { class: "buttons" },
        el("button", { type: "button", class: "quiet", onclick: closePlan }, t("Discard")),
        el("button", { type: "submit", class: "primary" }, t("Start the report"))));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const chosen = this.#values();
      this.error.textContent = this.#problem();
      if (this.error.textContent) return;
      if (chosen.length) start({ ...request, plan: chosen, ...chosenLimits(form) });
      else this.error.textContent = t("A plan needs at least one sub-question.");
    });
    this.form = form;
    form.addEventListener("input", () => this.#tell());
    questions.forEach((text) => this.#add(text));
    place.replaceChildren(form);
    byId("plan-title").focus();
    import("./steps.js").then(({ usualDuration }) => {
      this.usual = usualDuration("report");
      this.#tell();
    });
  }

  #values() {
    return [...this.list.querySelectorAll("textarea")].map((input) => input.value.replace(/\s+/g, " ").trim()).filter(Boolean);
  }

  /** The first sub-question that is too long. */
  #problem() {
    return this.#values().map((text) => lengthProblem(text, maxQueryChars())).find(Boolean) ?? "";
  }

  #add(text, focuses = false) {
    const input = el("textarea", { rows: 1, minlength: 3, dir: "auto" }, text);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) event.preventDefault(); // one line, which wraps
    });
    input.addEventListener("input", () => { this.error.textContent = this.#problem(); });
    const move = (step) => {
      const other = step < 0 ? item.previousElementSibling : item.nextElementSibling;
      if (!other) return;
      step < 0 ? other.before(item) : other.after(item);
      this.#number();
      announce(t("Sub-question {n} of {all}", { n: [...this.list.children].indexOf(item) + 1, all: this.list.children.length }));
    };
    const button = (name, action) => el("button", { type: "button", class: "quiet round", onclick: action }, icon(name));
    const up = button("up", () => { move(-1); up.focus(); });
    const down = button("down", () => { move(1); down.focus(); });
    const remove = button("close", () => {
      const next = item.nextElementSibling ?? item.previousElementSibling;
      item.remove();
      this.#number();
      (next?.querySelector("textarea") ?? this.addButton).focus();
    });
    const item = el("li", {}, input, el("span", { class: "item-buttons" }, up, down, remove));
    this.list.append(item);
    this.#number();
    if (focuses) input.focus();
  }

  /** Name each field and button after its place. */
  #number() {
    [...this.list.children].forEach((item, index) => {
      const n = index + 1;
      const [up, down, remove] = item.querySelectorAll("button");
      item.querySelector("textarea").setAttribute("aria-label", t("Sub-question {n}", { n }));
      up.setAttribute("aria-label", t("Move sub-question {n} up", { n }));
      down.setAttribute("aria-label", t("Move sub-question {n} down", { n }));
      remove.setAttribute("aria-label", t("Remove sub-question {n}", { n }));
      up.disabled = index === 0;
      down.disabled = n === this.list.children.length;
    });
    this.addButton.disabled = this.list.children.length >= MOST;
    this.#tell();
  }

  /** What the report takes at most, with the sub-questions and limits as they stand, and how long past ones took. */
  #tell() {
    const { estimate, count } = this.made;
    if (!estimate || !this.form) return;
    const limit = chosenLimits(this.form);
    const more = this.list.children.length - count;
    const most = (name) => estimate.at_most[name] + more * estimate.per_question[name];
    const atMost = (name, most) => Math.min(most, limit[name] ?? Infinity);
    const calls = atMost("max_llm_calls", most("llm_calls"));
    const costs = estimate.at_most.cost_usd === null ? limit.max_cost_usd : atMost("max_cost_usd", most("cost_usd"));
    const amounts = [
      t("searches: {n}", { n: number(most("searches")) }),
      t("pages: {n}", { n: number(most("pages")) }),
      calls > 0 && t("calls of language models: {n}", { n: number(calls) }),
      calls > 0 && t("tokens: {n}", { n: number(most("tokens"), { notation: "compact", maximumSignificantDigits: 2 }) }),
      calls > 0 && (costs === undefined ? t("cost not known") : dollars(costs)),
      seconds(atMost("max_seconds", estimate.max_seconds) * 1000),
    ];
    const { usual } = this;
    const text = `${t("At most:")} ${amounts.filter(Boolean).join(" · ")}`;
    this.takes.textContent = usual ? `${text}. ${t("Your past reports took about {time}.", { time: seconds(usual) })}` : `${text}.`;
  }

  async #others(request) {
    this.error.textContent = "";
    const known = this.#values();
    try {
      const { questions } = await plan({ ...asked(request), other_than: known });
      const fresh = questions.filter((text) => !known.includes(text)).slice(0, MOST - this.list.children.length);
      for (const text of fresh) this.#add(text);
      announce(t("Added: {n}", { n: fresh.length }));
      if (!fresh.length) this.error.textContent = t("There are no others.");
    } catch (error) {
      this.error.replaceChildren(...errorParts(error));
    }
  }
}

const PLANNED = ["query", "message", "context", "language", "model", "previous_id", "history", "sources", "urls", "rounds"];
const asked = (request) => Object.fromEntries(PLANNED.map((name) => [name, request[name]]));

function limits() {
  return el("details", { class: "limits" },
    el("summary", {}, t("Limits")),
    el("div", { class: "limit-fields" }, LIMITS.map(([name, label]) =>
      el("label", {}, t(label), el("input", {
        type: "number", name, min: "0", step: name === "max_llm_calls" ? "1" : "any", placeholder: t("none"), inputmode: "decimal",
      })))));
}

function chosenLimits(form) {
  const chosen = {};
  for (const [name, , factor] of LIMITS) {
    const text = form.elements[name].value;
    if (text !== "") chosen[name] = Number(text) * factor;
  }
  return chosen;
}
