// What went wrong, or was done only in part, in words for readers. The server's own words are for its operator: they stand
// behind "Details".

import { el } from "./dom.js";
import { dateTime, harmless, list, number, seconds, t } from "./texts.js";

const SOON_MS = 120_000; // a wait up to here is told in seconds
const MINUTE_MS = 60_000;
const HOURS_MS = 7_200_000; // a wait up to here is told in minutes

const PART_FAILED = () => t("Part of this server is temporarily unavailable.");
const NOT_UNDERSTOOD = () => t("The server does not accept this request.");
const TOO_MUCH = () => t("This is too much for one request. Send less.");
const NOT_THERE = () => t("This server does not offer that.");
const NO_DOCUMENTS = () => t("This server's documents cannot be searched right now.");
const BY_WORDS = () => t("The documents were searched by their words, and not by their meaning.");
const NO_FORM = () => t("The answer could not be converted to the requested format.");

/** By the code of an error of the server; a test compares them with its errors. */
const PROBLEMS = {
  web_search_request: () => t("The search service does not accept this search. Change the question or its limits."),
  web_search_config: () => t("This server is not set up to search there."),
  web_search_connection: () => t("The search service cannot be reached."),
  web_search_timeout: () => t("The search service did not answer in time."),
  web_search_blocked: () => t("The search service is busy."),
  web_search_error: () => t("The search service failed."),
  llm_request: () => t("The language model does not accept this request."),
  llm_config: () => t("This server has no language model that is ready for use."),
  llm_connection: () => t("The language model cannot be reached."),
  llm_timeout: () => t("The language model did not answer in time."),
  llm_blocked: () => t("The language model is busy."),
  llm_quota: () => t("The quota of the language model is used up."),
  llm_provider: () => t("The language model returned nothing usable."),
  llm_unavailable: () => t("The language model is temporarily unavailable."),
  llm_budget: () => t("The limits of this request allow no more language-model calls."),
  daily_budget: () => t("Today's budget is used up."),
  price_unknown: () => t("Costs cannot be limited here: the price of the language model is not known."),
  output_schema: NO_FORM,
  output: NO_FORM,
  page_request: () => t("This address may not be read: only public pages of the web can."),
  page_config: () => t("This server is not set up to read that page."),
  page_connection: () => t("The page cannot be reached."),
  page_timeout: () => t("The page did not load in time."),
  page_limit: () => t("Too many requests in a short time."),
  page_blocked: () => t("The page requires a login, consent or a CAPTCHA."),
  page_error: () => t("The page has no text that could be used."),
  page_not_found: () => t("There is no such page."),
  verification: () => t("The text cannot be verified: “Details” says why."),
  timeout: () => t("Time ran out before anything was found."),
  source_not_held: () => t("The whole text is not stored any more."),
  previous_research_not_found: () => t("The earlier answer is not stored any more. Ask without it, as a new question."),
  research_not_found: () => t("This answer is not stored any more, or it belongs to another API key."),
  background: () => t("This server cannot run this in the background: “Details” says why."),
  webhook: () => t("No message can be sent to that address."),
  watch_not_found: () => t("This question is not watched any more, or it belongs to another API key."),
  watch_limit: () => t("You have reached this server's limit for watched questions, or for runs of one question: “Details” says which."),
  research_queue_full: () => t("Too many of your questions are waiting for an answer. Ask again when some of them are done."),
  research_cancelled: () => t("This research was cancelled."),
  research_ended: () => t("This research has ended already."),
  seal: () => t("This answer cannot be sealed: “Details” says why."),
  seal_config: PART_FAILED,
  research_interrupted: () => t("The server stopped repeatedly while it worked on this. Ask again with less text."),
  store: () => t("The server cannot store or read answers right now."),
  spending_store: PART_FAILED,
  outcome_store: PART_FAILED,
  schema_registry: PART_FAILED,
  redis_unavailable: PART_FAILED,
  topic_not_found: NOT_THERE,
  support_model: PART_FAILED,
  embedding: NO_DOCUMENTS,
  embedding_config: NO_DOCUMENTS,
  vector_store: NO_DOCUMENTS,
  vector_store_config: NO_DOCUMENTS,
  uploaded_file: ({ file } = {}) => (file ? t("“{name}” cannot be read: “Details” says why.", { name: harmless(file) })
    : t("A file cannot be read: “Details” names it and says why.")),
  bad_request: NOT_UNDERSTOOD,
  unauthorized: () => t("This server needs an API key"),
  foreign_site: () => t("This server takes no requests from this page."),
  not_found: NOT_THERE,
  method_not_allowed: NOT_THERE,
  head_timeout: () => t("The request did not reach the server in time."),
  body_timeout: () => t("The request did not reach the server in time."),
  body_too_large: TOO_MUCH,
  address_too_long: TOO_MUCH,
  headers_too_large: TOO_MUCH,
  unsupported_media_type: NOT_UNDERSTOOD,
  unknown_host: () => t("The server does not accept this host name."),
  invalid_request: NOT_UNDERSTOOD,
  rate_limited: () => t("Too many requests in a short time."),
  not_serving: () => t("The server is starting or stopping."),
  overloaded: () => t("The server is busy."),
  no_metrics: NOT_THERE,
  no_mcp: NOT_THERE,
  internal: () => t("Something went wrong on the server."),
};

/** By status, where the code is not known: an older or newer server, or a proxy before it. */
const STATUSES = {
  401: PROBLEMS.unauthorized,
  403: () => t("This is not allowed."),
  404: NOT_THERE,
  408: PROBLEMS.body_timeout,
  413: TOO_MUCH,
  429: PROBLEMS.rate_limited,
  500: PROBLEMS.internal,
  502: () => t("A service that this server uses failed."),
  503: PART_FAILED,
  504: () => t("The server did not answer in time."),
};

/** The fields of a request, as the page calls them. */
const FIELDS = {
  query: () => t("Your question"),
  text: () => t("Text"),
  sources: () => t("Sources"),
  depth: () => t("Depth"),
  language: () => t("Answer in"),
  message: () => t("Your question"),
  model: () => t("Model"),
  time_range: () => t("Time"),
  domains: () => t("Sites"),
  urls: () => t("Addresses"),
  instructions: () => t("Instructions"),
  files: () => t("Files"),
  plan: () => t("Plan of the report"),
  max_seconds: () => t("Minutes"),
  max_llm_calls: () => t("Calls of language models"),
  max_cost_usd: () => t("Cost in US dollars"),
};

/** What a part of the work did less: by the part and the code, by a code of LIMITS, by the part, or by the code. */
const NOTES = {
  "documents web_search_config": () => t("This server has no documents to search."),
  documents: (names) => (names ? t("Documents that could not be searched: {names}.", { names }) : t("The document search ignored part of your request.")),
  plan: () => t("The question was split into parts without a language model."),
  queries: () => t("Some searches were worded without a language model."),
  rank: () => t("Some results were ranked by their words, without a language model."),
  summarize: () => t("Some summaries of pages are missing, or cover only a part of their page."),
  source: (names) => t("Only the beginning of these sources was used: {names}.", { names }),
  read: (names) => (names ? t("Pages that could not be read: {names}.", { names }) : t("No page could be read, so the answer is based on search excerpts only.")),
  search: () => t("Some searches failed or timed out."),
  judge: () => t("Not all citations were checked by a language model; the rest were compared by their words."),
  sentences: () => t("Some sentences were chosen by keywords only, not by meaning."),
  encoder: () => t("Not all citations were checked by their meaning; the rest were compared by their words."),
  "follow_up not_stored": () => t("The sources of the earlier answer are not stored any more and were not used."),
  follow_up: () => t("Your question was understood in its context without a language model."),
  output: NO_FORM,
  context: () => t("Your text was longer than what could be used: only a part of it was read."),
  question: () => t("Your question was longer than what could be used: only its beginning was read."),
  store: () => t("Not all of this answer could be stored."),
  budget: () => t("A limit ended the work early, and something is missing."),
  stale: () => t("No search service answered: these results are from an earlier search."),
  length: () => t("The text ends early: it reached its greatest length."),
  repetition: () => t("The language model repeated itself and was stopped."),
  unsupported: () => t("Some citations were not found in their documents."),
  timeout: (names) => t("Not ready in time: {names}.", { names }),
  embedding: BY_WORDS,
  embedding_config: BY_WORDS,
  other: (names) => t("Failed, or did less than was asked for: {names}.", { names }),
};
const LIMITS = ["budget", "daily_budget", "llm_budget"];

/** Whether an entry of `degraded` says that a limit ended the work. */
export const isLimit = ({ reason }) => LIMITS.includes(codeOf(reason));

const codeOf = (reason) => /^([a-z_]+):/.exec(reason)?.[1] ?? "";

/** The sentence of a code of the server, such as that of a page that was not read. */
export const sentenceOf = (code) => (Object.hasOwn(PROBLEMS, code) ? PROBLEMS[code] : PROBLEMS.page_error)();

/** The server may have taken a question, and did not say so. */
export class Unconfirmed extends Error {}

/** What a person reads about an error, in one string; `errorParts` has the server's words too. */
export function errorText(error) {
  if (error instanceof Unconfirmed) return t("The server did not confirm your question. Ask again if it is not among your threads.");
  if (!error.problem) return t("The server cannot be reached. Try again.");
  const { status, problem, waitMs } = error;
  const known = Object.hasOwn(PROBLEMS, problem.code) ? PROBLEMS[problem.code] : STATUSES[status];
  const sentence = known?.(problem) ?? t("The server answered with status {status}.", { status });
  const fields = [...new Set((problem.errors ?? []).map(fieldName).filter(Boolean))];
  const named = problem.code === "invalid_request" && fields.length ? t("It does not accept: {names}.", { names: list(fields) }) : "";
  return [sentence, named, advice(waitMs, problem.retryable)].filter(Boolean).join(" ");
}

/** The same as nodes, with what the server says to its operator behind "Details". */
export function errorParts(error) {
  const { detail, title, errors = [], code, request_id } = error.problem ?? {};
  const fields = errors.map(({ loc, msg }) => `${(loc ?? []).join(".")}: ${msg}`);
  const words = [detail || title, ...fields, [code, request_id].filter(Boolean).join(" · ")].filter(Boolean);
  return [el("span", {}, errorText(error)), words.length > 0 && details(words)].filter(Boolean);
}

/** The server's words, to be opened; they are English in every language of the page. */
export const details = (lines) => el("details", { class: "operator" },
  el("summary", {}, t("Details")),
  lines.map((line) => el("p", { lang: "en", dir: "auto" }, line)));

function fieldName({ loc }) {
  const name = (loc ?? []).findLast((part) => typeof part === "string");
  return name === "body" ? "" : FIELDS[name]?.() ?? name;
}

function advice(waitMs, isRetryable) {
  if (!waitMs) return isRetryable ? t("Try again later.") : "";
  if (waitMs <= SOON_MS) return t("Try again in {time}.", { time: seconds(waitMs) });
  if (waitMs <= HOURS_MS) return t("Try again in {time}.", { time: number(Math.ceil(waitMs / MINUTE_MS), { style: "unit", unit: "minute" }) });
  return t("Try again after {date}.", { date: dateTime(Date.now() + waitMs) });
}

/** The entries of `degraded` as {text, isLimit, until, lines}: those that say the same are one, `lines` are the server's words. */
export function notesOf(degraded) {
  const groups = new Map();
  for (const entry of degraded) {
    const [key, name] = keyOf(entry);
    const group = groups.get(key) ?? { names: new Set(), entries: [] };
    if (name) group.names.add(name);
    group.entries.push(entry);
    groups.set(key, group);
  }
  return [...groups].map(([key, { names, entries }]) => ({
    text: (NOTES[key] ?? PROBLEMS[key])(list([...names])),
    isLimit: entries.some(isLimit),
    until: entries.map(({ until }) => until).filter(Boolean).sort().at(-1),
    lines: entries.map(({ component, reason }) => `${component}: ${reason}`),
  }));
}

/** Where the sentence of an entry stands, and what it names: `read/example.org` is the part "read" with the name "example.org". */
function keyOf({ component, reason }) {
  const [part, ...rest] = component.split("/");
  const code = codeOf(reason);
  const isPart = Object.hasOwn(NOTES, part);
  const name = rest.join("/") || (isPart ? "" : part);
  const keys = [`${part} ${code}`, LIMITS.includes(code) && code, isPart && part, code];
  return [keys.find((key) => key && (Object.hasOwn(NOTES, key) || Object.hasOwn(PROBLEMS, key))) ?? "other", name];
}
