// The page: which part is shown, by the fragment of its address.

import { byId } from "./dom.js";
import { focusForm, startForm } from "./form.js";
import { closePlan } from "./plan.js";
import { showHistory } from "./history.js";
import { ResearchView } from "./research.js";
import { startSettings } from "./settings.js";
import { onLanguage, startLanguage, t } from "./texts.js";

const PARTS = ["ask", "result", "history"];
let view = null;

function show(part) {
  for (const id of PARTS) byId(id).hidden = id !== part;
  for (const [id, target] of [["to-new", "ask"], ["to-history", "history"]])
    byId(id).setAttribute("aria-current", part === target ? "page" : "false");
  if (part !== "result") document.title = part === "history" ? `${t("History")} – llm-platform` : "llm-platform";
  window.scrollTo(0, 0);
}

function replaceView() {
  view?.leave();
  view = new ResearchView(ask);
  show("result");
  return view;
}

/** Start a research; the address names it once the server has stored it. */
function ask(request) {
  closePlan();
  if (location.hash !== "#answer") history.pushState(null, "", "#answer");
  replaceView().run(request);
}

async function route() {
  const research = /^#research\/([\w-]{1,128})$/.exec(location.hash);
  if (research) return replaceView().open(research[1]);
  if (location.hash === "#answer" && view) return show("result");
  view?.leave();
  view = null;
  if (location.hash === "#history") {
    show("history");
    await showHistory();
    byId("history-title").focus({ preventScroll: true });
    return;
  }
  show("ask");
  focusForm();
}

await startLanguage();
startSettings();
startForm(ask);
onLanguage(() => {
  if (location.hash === "#history") showHistory();
});
window.addEventListener("hashchange", route);
// As a jump to #main it would be a new address, and take the place of what is shown.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
route();
