// The runs whose question was edited and asked again in their place. The server keeps them; this browser leaves them out of their
// threads.

const STORED = "llm-platform.replaced";
const MAX_RUNS = 200;
let memory = []; // where the browser forbids storage

/** The ids of the runs that another one has replaced, the newest first. */
export function replacedRuns() {
  try {
    const found = JSON.parse(localStorage.getItem(STORED) ?? "null");
    return Array.isArray(found) ? found : memory;
  } catch {
    return memory;
  }
}

export function rememberReplaced(id) {
  memory = [id, ...replacedRuns()].slice(0, MAX_RUNS);
  try {
    localStorage.setItem(STORED, JSON.stringify(memory));
  } catch {
    // it is left out until the page is left
  }
}
