// The API key: asked for when the server wants one, kept for this tab.

import { byId, el } from "./dom.js";
import { onLanguage, t } from "./texts.js";

const STORED = "llm-platform.key";
let memory = ""; // where the browser forbids storage
let pending = null;
const listeners = [];

/** `listener()` is called when a person has given a key. */
export const onKey = (listener) => listeners.push(listener);

export function storedKey() {
  try {
    return sessionStorage.getItem(STORED) ?? memory;
  } catch {
    return memory;
  }
}

function store(key) {
  memory = key;
  try {
    if (key) sessionStorage.setItem(STORED, key);
    else sessionStorage.removeItem(STORED);
  } catch {
    // it holds until the page is left
  }
  byId("forget-key").hidden = !key;
}

/** A form for the key, for a place in the page; `wasWrong` where the server did not accept the one before. */
export function keyForm(wasWrong) {
  const input = el("input", { id: "page-key", type: "password", autocomplete: "off", required: true, spellcheck: "false", "aria-describedby": "page-key-note" });
  const form = el("form", { class: "card key-form" },
    el("label", { for: "page-key" }, t("This server needs an API key")),
    el("div", { class: "key-line" }, input, el("button", { type: "submit", class: "primary" }, t("Continue"))),
    el("p", { id: "page-key-note", class: wasWrong ? "error" : "hint", role: wasWrong ? "alert" : null }, noteOnKey(wasWrong)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    give(input.value.trim());
  });
  return form;
}

const noteOnKey = (wasWrong) => (wasWrong ? t("The server did not accept that key.") : t("It is stored in this tab only, until you close it."));

function give(key) {
  store(key);
  if (key) for (const listener of listeners) listener();
}

/** `forgetAnswers` deletes what other modules store of answers that need the key. */
export function startSettings(forgetAnswers) {
  byId("forget-key").hidden = !storedKey();
  byId("forget-key").addEventListener("click", async () => {
    store("");
    await forgetAnswers();
    location.hash = "";
    location.reload();
  });
  onLanguage(() => pending?.draw());
}

/** Ask for the key; false when the person wants to give none. Several requests wait for one answer. */
export function askForKey(wasWrong) {
  pending ??= prompt(wasWrong);
  return pending.answer;
}

function prompt(wasWrong) {
  const dialog = byId("key");
  const draw = () => {
    const input = el("input", { id: "key-input", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
    dialog.replaceChildren(
      el("form", { method: "dialog" },
        el("h2", { id: "key-title" }, t("This server needs an API key")),
        el("p", { class: wasWrong ? "error" : "hint", role: wasWrong ? "alert" : null }, noteOnKey(wasWrong)),
        el("label", { for: "key-input" }, t("API key")),
        input,
        el("div", { class: "buttons" },
          el("button", { type: "button", onclick: () => dialog.close("") }, t("Cancel")),
          el("button", { type: "submit", class: "primary", value: "given" }, t("Continue")))),
    );
    input.focus();
  };
  const answer = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const key = dialog.returnValue === "given" ? byId("key-input").value.trim() : "";
      pending = null;
      dialog.replaceChildren();
      give(key);
      resolve(Boolean(key));
    }, { once: true });
  });
  dialog.returnValue = "";
  draw();
  dialog.showModal();
  byId("key-input").focus();
  return { answer, draw };
}
