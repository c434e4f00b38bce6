// The page: which part is shown, by the fragment of its address. The modules of the other parts are loaded after it is shown;
// first_paint.js names those of each part.

import { byId } from "./dom.js";
import { startSettings } from "./settings.js";
import { onLanguage, startLanguage } from "./texts.js";
import { startTheme } from "./theme.js";

const PARTS = ["ask", "result"];
const CHECK = "#check";
const WATCHES = "#watches";
const RESEARCH = /^#research\/([\w-]{1,128})$/;
let thread = null;
let routes = 0; // counts up: only the last one goes on
let asking = null;

/** The box for a question and the list of threads, which start when they are first needed. */
function startAsking() {
  asking ??= Promise.all([import("./form.js"), import("./sidebar.js")]).then(([form, sidebar]) => {
    form.startForm(ask);
    sidebar.startSidebar((deleted) => {
      if (thread?.id === deleted.id) location.hash = "";
    }, form.suggestThreads);
    return { ...form, ...sidebar };
  });
  return asking;
}

const startReading = () => import("./thread.js");

/** Delete what is stored of answers that need the API key: titles of threads, a checked text with its sources, folders. */
async function forgetAnswers() {
  const [pins, verification, folders] = await Promise.all([import("./pins.js"), import("./verification.js"), import("./folders.js")]);
  pins.unpinAll();
  verification.forgetVerification();
  folders.forgetFolders();
}

function show(part) {
  document.documentElement.classList.remove("opening");
  for (const id of PARTS) byId(id).hidden = id !== part;
  byId("to-new").setAttribute("aria-current", part === "ask" ? "page" : "false");
  byId("to-check").setAttribute("aria-current", location.hash === CHECK ? "page" : "false");
  if (part === "ask") document.title = "llm-platform";
  window.scrollTo(0, 0);
}

function leaveThread() {
  thread?.leave();
  thread = null;
}

function newThread({ ThreadView }) {
  leaveThread();
  const opened = new ThreadView(async () => {
    const { refreshThreads } = await startAsking();
    if (thread === opened) refreshThreads(opened.id);
  });
  thread = opened;
  show("result");
  return opened;
}

/** Start a thread; the address names its run once the server has stored it. */
async function ask(request) {
  const [reading, { closeThreads }] = await Promise.all([startReading(), startAsking()]);
  closeThreads();
  if (location.hash !== "#answer") history.pushState(null, "", "#answer");
  newThread(reading).ask(request);
}

async function route() {
  const number = (routes += 1);
  const research = RESEARCH.exec(location.hash);
  if (research) {
    if (thread?.has(research[1])) {
      show("result");
      thread.show(research[1]);
      return;
    }
    const reading = await startReading();
    if (number !== routes) return;
    await newThread(reading).open(research[1]);
    const { refreshThreads } = await startAsking();
    if (thread?.id) refreshThreads(thread.id);
    return;
  }
  if (location.hash === "#answer" && thread) return show("result");
  if (location.hash === CHECK) return openCheck(number);
  if (location.hash === WATCHES) return openWatched(number);
  const { clearForm, focusForm, openThreads, refreshThreads } = await startAsking();
  if (number !== routes) return;
  if (thread?.turns[0]?.id) clearForm(); // the server has the question
  leaveThread();
  show("ask");
  refreshThreads("");
  if (location.hash === "#history") openThreads();
  else focusForm();
}

/** The part that checks a text is loaded when it is first opened. */
async function openCheck(number) {
  const [{ openVerification }, { refreshThreads }] = await Promise.all([import("./verification.js"), startAsking()]);
  if (number !== routes) return;
  leaveThread();
  show("result");
  openVerification();
  refreshThreads("");
}

/** The watched questions are loaded when they are first opened. */
async function openWatched(number) {
  const [{ openWatches }, { refreshThreads }] = await Promise.all([import("./watches.js"), startAsking()]);
  if (number !== routes) return;
  leaveThread();
  show("result");
  openWatches();
  refreshThreads("");
}

const spoken = () => ({ lang: document.documentElement.lang, dir: document.documentElement.dir });

/** A thread that was drawn in the language `before` is drawn anew where the server has it, else it says its language. */
async function translateThread(before) {
  const [, run] = RESEARCH.exec(location.hash) ?? [];
  if (!thread) return;
  if (!run || !thread.isStored) return thread.label(before);
  const [place, shown, reading] = [scrollY, thread, await startReading()];
  if (thread !== shown) return;
  const opened = newThread(reading);
  await opened.open(run, false);
  if (thread === opened) window.scrollTo(0, place);
}

await startLanguage();
let language = spoken();
onLanguage(() => {
  const before = language;
  language = spoken();
  if (before.lang !== language.lang) location.hash === WATCHES ? route() : translateThread(before);
});
startTheme();
startSettings(forgetAnswers);
window.addEventListener("hashchange", route);
// As a jump to #main it would be a new address, and take the place of what is shown.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
await route();
(await import("./keyboard.js")).startKeyboard();
(await startAsking()).askAddress();
startReading(); // the first answer need not wait for it
