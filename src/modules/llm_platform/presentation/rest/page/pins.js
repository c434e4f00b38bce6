// The threads that a reader keeps at the top of the list. Their titles stay in this browser.

const STORED = "llm-platform.pinned";
const MAX_PINS = 50;
let memory = []; // where the browser forbids storage

/** The pinned threads, each {id, title}, the newest pin first. */
export function pinned() {
  try {
    const found = JSON.parse(localStorage.getItem(STORED) ?? "null");
    return Array.isArray(found) ? found.filter((pin) => typeof pin?.id === "string" && typeof pin.title === "string") : memory;
  } catch {
    return memory;
  }
}

function store(pins) {
  memory = pins;
  try {
    if (pins.length) localStorage.setItem(STORED, JSON.stringify(pins));
    else localStorage.removeItem(STORED);
  } catch {
    // they hold until the page is left
  }
}

export const pin = ({ id, title }) => store([{ id, title }, ...pinned().filter((other) => other.id !== id)].slice(0, MAX_PINS));
export const unpin = (id) => store(pinned().filter((other) => other.id !== id));
export const unpinAll = () => store([]);

/** Let the pins have the titles that the server tells. */
export function renamePins(threads) {
  const titles = new Map(threads.map(({ id, title }) => [id, title]));
  const pins = pinned();
  if (pins.some(({ id, title }) => (titles.get(id) ?? title) !== title)) store(pins.map(({ id, title }) => ({ id, title: titles.get(id) ?? title })));
}
