// What the first paint needs, before any module is there: the theme, the language and its direction, and that an address of an
// answer does not show the form. What the address needs is asked for at once, and not when one module after the other names it.
{
  const DIRECTIONS = { en: "ltr", de: "ltr", ru: "ltr", zh: "ltr", ar: "rtl", he: "rtl" };
  const BOTH = ["api", "dom", "preferences", "problems", "settings", "texts", "theme"];
  const ASKING = ["choices", "choices_panel", "composer", "files", "folders", "form", "pins", "plan", "sidebar", "suggestions"];
  const READING = ["actions", "answer", "citation_card", "clipboard", "contents", "export", "icons", "markdown", "quote", "receipts", "replaced", "research", "sentences",
    "source_text", "sources", "steps", "strip", "summary", "thread", "underlines", "vendor/dompurify", "vendor/markdown-it", "verdicts"];
  const ANSWER_MS = 15_000; // as in api.js
  const root = document.documentElement;
  const stored = (storage, name) => {
    try {
      return window[storage].getItem(`llm-platform.${name}`);
    } catch {
      return null; // storage is forbidden
    }
  };
  const theme = stored("localStorage", "theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  const wanted = [stored("localStorage", "language"), ...navigator.languages.map((tag) => tag.split("-")[0].toLowerCase())];
  root.lang = wanted.find((code) => Object.hasOwn(DIRECTIONS, code)) ?? "en";
  root.dir = DIRECTIONS[root.lang];
  root.classList.toggle("opening", location.hash.startsWith("#research/") || ["#check", "#watches"].includes(location.hash));

  const run = /^#research\/([\w-]{1,128})$/.exec(location.hash)?.[1];
  for (const name of [...BOTH, ...(run ? READING : ASKING), ...(root.lang === "en" ? [] : [`lang/${root.lang}`])]) {
    const href = new URL(`${name}.js`, document.currentScript.src);
    document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href }));
  }
  const key = stored("sessionStorage", "key");
  const ask = (path) => {
    const headers = { Accept: "application/json", ...(key && { "X-API-Key": key }) };
    const response = fetch(path, { headers, signal: AbortSignal.timeout(ANSWER_MS) });
    response.catch(() => {}); // it is heard of where the response is used
    return [path, response];
  };
  window.earlyResponses = new Map(run ? [ask(`research/threads/${run}`), ask(`research/${run}`)] : []);
}
