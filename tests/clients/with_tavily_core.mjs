// Tavily's SDK for JavaScript.
import assert from "node:assert/strict";
import { tavily } from "@tavily/core";
import { KEY, LIMITED_URL, PAGE_URL, QUESTION, URL, check, ended, includesAnswer, main, thrown } from "./checks.mjs";

const client = tavily({ apiKey: KEY, apiBaseURL: `${URL}/tavily` });

check("search", ["search"], async () => {
  const found = await client.search(QUESTION, { maxResults: 3, includeDomains: ["example.org"], timeRange: "week" });
  includesAnswer(found.results[0].content);
});

check("includeAnswer", ["chat"], async () => includesAnswer((await client.search(QUESTION, { includeAnswer: true })).answer));

check("extract", [], async () => includesAnswer((await client.extract([PAGE_URL])).results[0].rawContent));

check("crawl, map", [], async () => {
  const found = await client.crawl(PAGE_URL, { maxDepth: 2, limit: 10 });
  assert.deepEqual(found.results.map((each) => each.url), [PAGE_URL, `${PAGE_URL}/tasks`]);
  includesAnswer(found.results[1].rawContent);
  assert.deepEqual((await client.map(PAGE_URL, { selectPaths: ["/tasks$"] })).results, [PAGE_URL, `${PAGE_URL}/tasks`]);
});

const hasEnded = (found) => !["pending", "in_progress"].includes(found.status);
const researched = (task) => ended(() => client.getResearch(task.requestId, { includeUsage: true }), hasEnded);

check("research", ["chat"], async () => {
  const task = await client.research(QUESTION, { model: "mini" });
  assert.deepEqual([task.status, task.input, task.model], ["pending", QUESTION, "mini"]);
  const found = await researched(task);
  assert.equal(found.status, "completed");
  includesAnswer(found.content);
  assert.ok(found.content.includes(found.sources[0].url));
  assert.ok(found.usage.searches > 0);
  const styled = await researched(await client.research(QUESTION, { citationFormat: "mla" }));
  assert.match(styled.content, /## Works Cited/);
});

check("research, streamed", ["stream"], async () => {
  const parts = [];
  for await (const part of await client.research(QUESTION, { model: "mini", stream: true })) parts.push(part);
  const text = Buffer.concat(parts).toString();
  const lines = text.split("\n").filter((line) => line.startsWith("data: "));
  const deltas = lines.map((line) => JSON.parse(line.slice("data: ".length)).choices[0].delta);
  includesAnswer(deltas.map((delta) => delta.content ?? "").join(""));
  const calls = deltas.flatMap((delta) => delta.tool_calls?.tool_call ?? []).map((call) => call.name);
  assert.ok(calls.includes("WebSearch"));
  assert.equal(deltas.at(-1).sources[0].title, "asyncio");
  assert.ok(text.endsWith("event: done\n\n"));
});

check("research: a schema", ["structure"], async () => {
  const outputSchema = { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] };
  const found = await researched(await client.research(QUESTION, { model: "mini", outputSchema }));
  includesAnswer(found.content.answer);
});

check("errors", [], async () => {
  const wrong = tavily({ apiKey: "not-the-right-key", apiBaseURL: `${URL}/tavily` });
  for (const call of [wrong.search, wrong.research, wrong.getResearch]) {
    assert.match((await thrown(() => call(QUESTION))).message, /API key/);
  }
  assert.match((await thrown(() => client.research(QUESTION, { model: "max" }))).message, /model/);
  assert.match((await thrown(() => client.getResearch("nothing"))).message, /There is no/);
  assert.match((await thrown(() => client.crawl(PAGE_URL, { maxDepth: 9 }))).message, /max_depth/);
  const limited = tavily({ apiKey: KEY, apiBaseURL: `${LIMITED_URL}/tavily` });
  const search = async () => { for (const _ of [1, 2]) await limited.search(QUESTION); };
  assert.match((await thrown(search)).message, /[Tt]oo many requests/);
});

await main();
