// What the programs of JavaScript in this folder share; checks.py says the same for those of Python.
// They run in build/clients/node, where their packages are.
import assert from "node:assert/strict";

export const URL = process.env.CHECKED_URL ?? "";  // of a server with an API key
export const KEY = process.env.CHECKED_KEY ?? "";
export const LIMITED_URL = process.env.CHECKED_LIMITED_URL ?? "";  // of one that takes one request in a while
export const PAGE_URL = process.env.CHECKED_PAGE_URL ?? "";  // a page that the server may read
export const LLM = "openai/fake-1";
export const LATE_ERROR = "The service fails late.";  // a question that the language model refuses after some seconds
export const QUESTION = "What is Python asyncio?";
export const ANSWER = "asyncio is a library to write concurrent code";  // in every answer, result and page

const checks = new Map();

/** Names what is tried, and the columns of the table of clients that it shows. "COLUMN: reason" shows that the client cannot. */
export function check(name, shows, call) {
  checks.set(name, call);
}

export function includesAnswer(text) {
  assert.ok(text.includes(ANSWER), text);
}

/** The error that the call throws. */
export async function thrown(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was thrown" });
}

/** What `fetch` returns once it has ended: the research goes on in the background. */
export async function ended(fetch, hasEnded) {
  let found;
  for (let tries = 0; tries < 300; tries++) {
    found = await fetch();
    if (hasEnded(found)) return found;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new assert.AssertionError({ message: JSON.stringify(found) });
}

/** Try all checks and print one JSON object: name to what went wrong, or "". */
export async function main() {
  const results = {};
  for (const [name, call] of checks) {
    try {
      await call();
      results[name] = "";
    } catch (error) {
      results[name] = String(error?.stack ?? error);
    }
  }
  console.log(`\n${JSON.stringify(results)}`);
  process.exit(0);  // whatever keeps a connection
}
