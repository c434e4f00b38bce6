// The folders in which a reader keeps threads; a thread stands in one of them. As the pins they stay in this browser.

const STORED = "llm-platform.folders";
const MAX_FOLDERS = 50;
const MAX_THREADS = 200; // in one folder
export const MAX_NAME_CHARS = 60;
let memory = []; // where the browser forbids storage

const isThread = (thread) => typeof thread?.id === "string" && typeof thread.title === "string";

/** The folders by their names, each {name, isClosed, threads: [{id, title}]}, the thread that was moved last first. */
export function folders() {
  try {
    const found = JSON.parse(localStorage.getItem(STORED) ?? "null");
    if (!Array.isArray(found)) return memory;
    const valid = found.filter((folder) => typeof folder?.name === "string" && Array.isArray(folder.threads));
    return valid.map((folder) => ({ ...folder, threads: folder.threads.filter(isThread) }));
  } catch {
    return memory;
  }
}

function store(changed) {
  memory = changed.toSorted((one, other) => one.name.localeCompare(other.name)).slice(0, MAX_FOLDERS);
  try {
    if (memory.length) localStorage.setItem(STORED, JSON.stringify(memory));
    else localStorage.removeItem(STORED);
  } catch {
    // they hold until the page is left
  }
}

/** The name of the folder of a thread; empty where it stands in none. */
export const folderOf = (id) => folders().find(({ threads }) => threads.some((thread) => thread.id === id))?.name ?? "";

/** Whether there are as many folders as may be: a further one would take the place of another. */
export const areFull = () => folders().length >= MAX_FOLDERS;

/** Put a thread into the folder of this name, which is made where it is new; into none where the name is empty. */
export function moveThread({ id, title }, name) {
  if (name && areFull() && !folders().some((folder) => folder.name === name)) return;
  const kept = folders().map((folder) => ({ ...folder, threads: folder.threads.filter((thread) => thread.id !== id) }));
  if (name && !kept.some((folder) => folder.name === name)) kept.push({ name, threads: [] });
  store(kept.map((folder) => (folder.name === name ? { ...folder, isClosed: false, threads: [{ id, title }, ...folder.threads].slice(0, MAX_THREADS) } : folder)));
}

/** Give a folder another name; where another folder has it, their threads come together. */
export function renameFolder(old, name) {
  const renamed = folders().find((folder) => folder.name === old);
  if (!renamed || old === name) return;
  const rest = folders().filter((folder) => folder !== renamed && folder.name !== old);
  const same = rest.find((folder) => folder.name === name);
  store([...rest.filter((folder) => folder !== same), { ...renamed, name, threads: [...renamed.threads, ...(same?.threads ?? [])].slice(0, MAX_THREADS) }]);
}

export const deleteFolder = (name) => store(folders().filter((folder) => folder.name !== name));
export const closeFolder = (name, isClosed) => store(folders().map((folder) => (folder.name === name ? { ...folder, isClosed } : folder)));
export const forgetFolders = () => store([]);

/** Let the threads in the folders have the titles that the server tells. */
export function renameInFolders(threads) {
  const titles = new Map(threads.map(({ id, title }) => [id, title]));
  const kept = folders();
  if (kept.some((folder) => folder.threads.some(({ id, title }) => (titles.get(id) ?? title) !== title)))
    store(kept.map((folder) => ({ ...folder, threads: folder.threads.map(({ id, title }) => ({ id, title: titles.get(id) ?? title })) })));
}
