// Files of questions, kept in this browser for a reader who has switched that on: the server stores none.

const DATABASE = "llm-platform";
const FILES = "files"; // {id, thread, at, files}: `files` are those of the request of the run `id`, in the thread `thread`
const MAX_RUNS = 50; // the oldest go first

let opening;

/** Without storage, as in a private window, nothing is kept and nothing is found. */
function opened() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      const store = request.result.createObjectStore(FILES, { keyPath: "id" });
      for (const name of ["thread", "at"]) store.createIndex(name, name);
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opening;
}

/** What `act(store)` asks for, once all that it changed is written; nothing where the browser forbids it. */
async function inStore(mode, act) {
  try {
    const change = (await opened()).transaction(FILES, mode);
    return await new Promise((resolve, reject) => {
      const asked = act(change.objectStore(FILES));
      change.oncomplete = () => resolve(asked?.result);
      change.onabort = () => reject(change.error);
    });
  } catch {
    return undefined;
  }
}

const remove = (ids) => inStore("readwrite", (store) => ids.forEach((id) => { store.delete(id); }));

/** Keep the files of a run; they go with its thread. */
export async function keepFiles(id, thread, files) {
  await inStore("readwrite", (store) => store.put({ id, thread, at: Date.now(), files }));
  const ids = (await inStore("readonly", (store) => store.index("at").getAllKeys())) ?? [];
  if (ids.length > MAX_RUNS) await remove(ids.slice(0, -MAX_RUNS));
}

/** The `files` of a run, as its request had them, else nothing. */
export async function keptFiles(id) {
  return (await inStore("readonly", (store) => store.get(id)))?.files;
}

export async function forgetFiles(thread) {
  await remove((await inStore("readonly", (store) => store.index("thread").getAllKeys(thread))) ?? []);
}

export const forgetAllFiles = () => inStore("readwrite", (store) => store.clear());
