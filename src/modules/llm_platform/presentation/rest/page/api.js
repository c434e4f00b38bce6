// Requests to the server that this page came from, and the events of its streams.

import { instructions } from "./preferences.js";
import { Unconfirmed } from "./problems.js";
import { askForKey, storedKey } from "./settings.js";
import { harmless } from "./texts.js";

export { errorParts } from "./problems.js";

// A rate limit that is over this soon is waited for. What is stored is waited for longer: it spends nothing.
const WAIT_S = { GET: 60, other: 10 };
const WAITS = { GET: 8, other: 3 };
const SPREAD = 0.25; // share of a wait that is added at random, so that the requests of a page do not come back at once
const RECONNECT_MS = [500, 1000, 2000, 4000, 8000];
const AWAY_MS = 8000; // a server that is away is asked this often, until the reader leaves
const SILENCE_MS = 45_000; // the server sends a comment every 15 s: after this long it is away
const ANSWER_MS = 15_000; // for what the server answers from its store
const SEALED_MS = 60_000; // for a file with all sources of an answer
const STEADY_MS = 10_000; // a stream that ends before this without an event was cut off by what stands between

/** Nobody sends. */
class Silent extends TypeError {}

/** A refusal: `problem` is the server's problem object, `waitMs` when it may be asked again, if it says so. */
export class Refused extends Error {
  constructor(status, problem, waitMs = (problem?.retry_after_s ?? 0) * 1000) {
    super(problem?.detail ?? `status ${status}`);
    this.status = status;
    this.problem = problem ?? {};
    this.waitMs = waitMs;
  }
}

/** The response that first_paint.js asked for before this module was there; once. */
function early(method, path) {
  const found = method === "GET" ? window.earlyResponses.get(path) : undefined;
  window.earlyResponses.delete(path);
  return found;
}

/** A response that is not an error; asks for an API key as often as one is missing, unless `asksForKey` is false.

`timeout` bounds the whole answer in milliseconds, and not the time in which a person looks for a key; with `beginsSoon` an
answer must begin before the server counts as silent. `signal` ends the request; `halt` ends what comes before and between the
tries, and a request that is under way goes on. */
async function send(path, { method = "GET", body, headers = {}, signal, halt = signal, timeout, beginsSoon, asksForKey = true } = {}) {
  for (let waits = 0; ; ) {
    halt?.throwIfAborted();
    const key = storedKey();
    const silence = new AbortController();
    const sent = early(method, path) ?? fetch(path, {
      method,
      signal: AbortSignal.any([silence.signal, signal, timeout && AbortSignal.timeout(timeout)].filter(Boolean)),
      headers: {
        Accept: "application/json",
        ...(body && { "Content-Type": "application/json" }),
        ...(key && { "X-API-Key": key }),
        ...headers,
      },
      body: body && JSON.stringify(body),
      credentials: "same-origin",
    });
    const response = await (beginsSoon ? unlessSilent(sent, () => silence.abort()) : sent);
    if (response.ok) return response;
    const problem = await response.json().catch(() => null);
    const wait = Number(response.headers.get("Retry-After"));
    const kind = method === "GET" ? "GET" : "other";
    if (response.status === 429 && wait > 0 && wait <= WAIT_S[kind] && waits < WAITS[kind]) {
      waits += 1;
      await pause(wait * 1000 * (1 + SPREAD * Math.random()), halt);
      continue;
    }
    if (response.status !== 401 || !asksForKey || !(await askForKey(Boolean(key)))) throw new Refused(response.status, problem, wait * 1000);
  }
}

const pause = (milliseconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, milliseconds);
  signal?.addEventListener("abort", () => {
    clearTimeout(timer);
    reject(signal.reason);
  }, { once: true });
});

/** The time after which a server that was away is asked again: a few seconds, or less where the network, the window or the tab
comes back. Rejects when the reader leaves. */
export function untilWorthATry(signal, milliseconds = AWAY_MS) {
  const back = new AbortController();
  const until = { signal: back.signal };
  const isBack = new Promise((resolve) => {
    addEventListener("online", resolve, until);
    addEventListener("focus", resolve, until);
    document.addEventListener("visibilitychange", () => document.hidden || resolve(), until);
  });
  return Promise.race([pause(milliseconds, signal), isBack]).finally(() => back.abort());
}

// What the page shows in one line. Texts that spans point into stay as they are.
const LINES = new Set(["title", "snippet", "site_name", "query", "message", "correction", "understood_question"]);
const isList = (value) => Array.isArray(value) && value.every((item) => typeof item === "string"); // of questions, titles or names
function decoded(text) {
  return JSON.parse(text, (name, value) => {
    if (isList(value)) return value.map(harmless);
    // Red is for what a source contradicts: what no source says is a verdict of its own on this page.
    if (value?.finding === "absent" && value.verdict === "unsupported") value.verdict = "absent";
    if (value?.metadata?.synthesizer === "extractive") value.citations?.forEach(markQuote);
    return typeof value === "string" && LINES.has(name) ? harmless(value) : value;
  });
}
/** Green is for what supports an answer: a copy in an answer without a language model is a quote, which may say nothing on the question. */
function markQuote(citation) {
  if (citation.is_verbatim) for (const each of [citation, ...(citation.cells ?? [])]) if (each.verdict === "supported") each.verdict = "quoted";
}
const json = async (path, options) => decoded(await (await send(path, options)).text());
const soon = (path, options) => json(path, { ...options, timeout: ANSWER_MS });
const researchPath = (id) => `research/${encodeURIComponent(id)}`;
const threadPath = (id) => `research/threads/${encodeURIComponent(id)}`;

/** The request with the wishes for every answer in front of its own, unless it has them: it may be asked for the second time. */
function withInstructions(body) {
  const own = body.instructions ?? "";
  const kept = instructions();
  return !kept || own.startsWith(kept) ? body : { ...body, instructions: [kept, own].filter(Boolean).join("\n") };
}

export const plan = (body, signal) => json("research/plan", { method: "POST", body, signal });
/** Let the server take a question, unless `halt` was aborted before it is sent. */
export async function submit(body, halt) {
  try {
    return await json("research", { method: "POST", body: { ...withInstructions(body), background: true }, halt, beginsSoon: true });
  } catch (error) {
    throw error instanceof Silent ? new Unconfirmed() : error;
  }
}
export const getResearch = (id) => soon(researchPath(id));
export const cancelResearch = (id) => soon(researchPath(id), { method: "DELETE" });
export const finishResearch = (id) => soon(`${researchPath(id)}/finish`, { method: "POST" });
export const getThread = (id) => soon(threadPath(id));
export const renameThread = (id, title) => soon(threadPath(id), { method: "PATCH", body: { title } });
export const deleteThread = (id) => soon(threadPath(id), { method: "DELETE" });
export const listThreads = ({ q = "", before = null, asksForKey = true }) =>
  soon(`research/threads?${new URLSearchParams({ limit: 30, ...(q && { q }), ...(before && { before }) })}`, { asksForKey });
let offered = null;
let queryChars = null;
/** The most characters of a question and of the title of a thread, as the server counts them; null until it has said so. */
export const maxQueryChars = () => queryChars;
async function askForOptions(how) {
  const found = await soon("research/options", how);
  queryChars = found.max_query_chars;
  return found;
}
/** What a request can choose on this server, which is asked until it has said so once, and again with `isAgain`. A person is
asked for a key only with `asksForKey`. */
export async function options(asksForKey = false, isAgain = false) {
  if (isAgain) offered = null;
  offered ??= askForOptions({ asksForKey: false });
  try {
    return await offered;
  } catch (error) {
    offered = null;
    if (!asksForKey || error.status !== 401) throw error;
    return (offered = askForOptions());
  }
}
export const addWatch = (body) => json("watches", { method: "POST", body });
export const listWatches = (before) => soon(`watches?${new URLSearchParams({ limit: 10, ...(before && { before }) })}`);
export const listChanges = (id, before) => soon(`watches/${encodeURIComponent(id)}/changes?${new URLSearchParams({ limit: 5, ...(before && { before }) })}`);
export const runWatch = (id) => soon(`watches/${encodeURIComponent(id)}/run`, { method: "POST" });
export const removeWatch = (id) => send(`watches/${encodeURIComponent(id)}`, { method: "DELETE", timeout: ANSWER_MS });
/** The documents that the server searches, and the files that it cannot read. */
export const listDocuments = () => soon("research/documents", { asksForKey: false });
/** The icon of a source's site as a data: address. The policy of the page allows these and no blob:, and an image runs nothing. */
export async function getIcon(id, index) {
  const icon = await (await send(`${researchPath(id)}/sources/${index}/icon`, { asksForKey: false, timeout: ANSWER_MS })).blob();
  return new Promise((resolve, reject) => {
    const reader = Object.assign(new FileReader(), { onload: () => resolve(reader.result), onerror: reject });
    reader.readAsDataURL(icon);
  });
}
/** The file of a sealed answer, as a blob. */
export const getSealed = async (id) => (await send(`${researchPath(id)}/sealed`, { timeout: SEALED_MS })).blob();
export const getSource = (id, index) => soon(`${researchPath(id)}/sources/${index}`);

/** The events of a research run that lives as long as this connection, or of another request that is streamed. */
export async function* stream(body, signal, path = "research") {
  const headers = { Accept: "text/event-stream" };
  const wanted = path === "research" ? withInstructions(body) : body;
  const response = await send(path, { method: "POST", body: { ...wanted, stream: true }, headers, signal });
  yield* events(response);
}

/** The events of the verification of a text. */
export const verify = (body, signal) => stream(body, signal, "verify");

/** The events of a background research run from the first one on; a connection that breaks goes on where it was.

`onLost` is called when one breaks. A server that is away is asked until `signal` ends it; one that refuses, or ends each stream
at once, throws the error. */
export async function* follow(id, signal, onLost) {
  let last = 0;
  let failures = 0;
  let cut = 0; // streams that were ended at once, one after the other
  while (!signal.aborted) {
    const began = performance.now();
    let isHeard = false;
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": String(last) }) };
      const response = await send(`${researchPath(id)}/events`, { headers, signal, beginsSoon: true });
      if (response.status === 204) return;
      for await (const event of events(response)) {
        last = event.eventId || last;
        failures = cut = 0;
        isHeard = true;
        yield event;
        if (event.type === "done" || event.type === "failed") return;
      }
      if (!isHeard && performance.now() - began < STEADY_MS) {
        cut += 1;
        throw new TypeError("the stream ended at once");
      }
      failures = cut = 0;
    } catch (error) {
      if (signal.aborted || (error instanceof Refused && error.status < 500)) throw error;
      if (cut > RECONNECT_MS.length) throw error;
      failures += 1;
      onLost();
    }
    await untilWorthATry(signal, RECONNECT_MS[Math.min(failures, RECONNECT_MS.length - 1)]);
  }
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await unlessSilent(reader.read());
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = parsed(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** What is read next, or an error when the connection is open and nobody sends. */
async function unlessSilent(reading, onSilence = () => {}) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Silent("the connection is silent"));
      onSilence();
    }, SILENCE_MS);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}

function parsed(block) {
  let data = "";
  let eventId = 0; // of the stream; an event may have a number of its own
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data += line.slice(5).trimStart();
    else if (line.startsWith("id:")) eventId = Number(line.slice(3)) || 0;
  }
  return data ? { ...decoded(data), eventId } : null; // a comment keeps the line open
}
