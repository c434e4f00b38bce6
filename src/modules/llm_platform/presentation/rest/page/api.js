// Requests to the server that this page came from, and the events of its streams.

import { askForKey, storedKey } from "./settings.js";
import { t } from "./texts.js";

const SHORT_WAIT_S = 10; // a rate limit that is over this soon is waited for
const WAITS = 3;
const RECONNECT_MS = [500, 1000, 2000, 4000, 8000];
const SILENCE_MS = 45_000; // the server sends a comment every 15 s: after this long it is away
const ANSWER_MS = 15_000; // for what the server answers from its store

/** A refusal: `problem` is the server's problem object. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail || problem?.title || t("The server answered with status {status}.", { status }));
    this.status = status;
    this.problem = problem ?? {};
  }
}

/** The text that a person reads about an error. */
export function errorText(error) {
  if (!(error instanceof Refused)) return t("The server cannot be reached. Try again.");
  const fields = (error.problem.errors ?? []).map((each) => `${each.loc?.at?.(-1) ?? ""}: ${each.msg}`);
  return [error.message, ...fields].join(" ");
}

/** A response that is not an error; asks for an API key as often as one is missing. */
async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (let waits = 0; ; ) {
    const key = storedKey();
    const response = await fetch(path, {
      method,
      signal,
      headers: {
        Accept: "application/json",
        ...(body && { "Content-Type": "application/json" }),
        ...(key && { "X-API-Key": key }),
        ...headers,
      },
      body: body && JSON.stringify(body),
      credentials: "same-origin",
    });
    if (response.ok) return response;
    const problem = await response.json().catch(() => null);
    const wait = Number(response.headers.get("Retry-After"));
    if (response.status === 429 && wait > 0 && wait <= SHORT_WAIT_S && waits < WAITS) {
      waits += 1;
      await pause(wait * 1000);
      signal?.throwIfAborted();
      continue;
    }
    if (response.status !== 401 || !(await askForKey(Boolean(key)))) throw new Refused(response.status, problem);
  }
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const json = async (path, options) => (await send(path, options)).json();
const soon = (path, options) => json(path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
const researchPath = (id) => `research/${encodeURIComponent(id)}`;

export const plan = (body, signal) => json("research/plan", { method: "POST", body, signal });
export const submit = (body) => json("research", { method: "POST", body: { ...body, background: true } });
export const getResearch = (id) => soon(researchPath(id));
export const cancelResearch = (id) => soon(researchPath(id), { method: "DELETE" });
export const listResearches = (before) =>
  json(`research?limit=20${before ? `&before=${encodeURIComponent(before)}` : ""}`);
export const getSource = (id, index) => soon(`${researchPath(id)}/sources/${index}`);
export const health = () => json("health");

/** Whether the server understands a field of POST /research. */
export async function understands(field) {
  const document_ = await json("docs/openapi.json");
  const schemas = Object.values(document_.components?.schemas ?? {});
  const body = document_.paths?.["/research"]?.post?.requestBody?.content?.["application/json"]?.schema ?? {};
  const name = body.$ref?.split("/").at(-1);
  const schema = name ? document_.components.schemas[name] : body;
  return field in (schema?.properties ?? {}) && schemas.length > 0;
}

/** The events of a research that lives as long as this connection. */
export async function* stream(body, signal) {
  const headers = { Accept: "text/event-stream" };
  const response = await send("research", { method: "POST", body: { ...body, stream: true }, headers, signal });
  yield* events(response);
}

/** The events of a background research from the first one on; a connection that breaks goes on where it was.

`onLost` is called when one breaks; after the last try the error is thrown. */
export async function* follow(id, signal, onLost) {
  let last = 0;
  let failures = 0;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": String(last) }) };
      const response = await send(`${researchPath(id)}/events`, { headers, signal });
      if (response.status === 204) return;
      for await (const event of events(response)) {
        last = event.number || last;
        failures = 0;
        yield event;
        if (event.type === "done" || event.type === "failed") return;
      }
    } catch (error) {
      if (signal.aborted || (error instanceof Refused && error.status < 500)) throw error;
      if (failures === RECONNECT_MS.length) throw error;
      failures += 1;
      onLost();
    }
    await pause(RECONNECT_MS[Math.min(failures, RECONNECT_MS.length - 1)]);
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
async function unlessSilent(reading) {
  let timer;
  const silence = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TypeError("the connection is silent")), SILENCE_MS);
  });
  return Promise.race([reading, silence]).finally(() => clearTimeout(timer));
}

function parsed(block) {
  let data = "";
  let number = 0;
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data += line.slice(5).trimStart();
    else if (line.startsWith("id:")) number = Number(line.slice(3)) || 0;
  }
  return data ? { ...JSON.parse(data), number } : null; // a comment keeps the line open
}
