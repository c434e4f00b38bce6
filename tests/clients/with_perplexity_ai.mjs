// Perplexity's SDK for JavaScript.
import assert from "node:assert/strict";
import Perplexity from "@perplexity-ai/perplexity_ai";
import { ANSWER, KEY, LATE_ERROR, LIMITED_URL, PAGE_URL, QUESTION, URL, check, ended, includesAnswer, main, thrown } from "./checks.mjs";

const baseURL = `${URL}/perplexity`;
const messages = [{ role: "user", content: QUESTION }];
const client = new Perplexity({ apiKey: KEY, baseURL, maxRetries: 0 });

function checkAnswer(answer) {
  const text = answer.choices[0].message.content;
  includesAnswer(text);
  assert.match(text, /\[1\]/);
  assert.equal(answer.citations[0], answer.search_results[0].url);
  assert.ok(answer.usage.total_tokens > 0);
}

function checkResponse(response) {
  assert.equal(response.status, "completed");
  includesAnswer(response.output_text);
  assert.match(response.output_text, /\[1\]/);
  const found = response.output.find((item) => item.type === "search_results");
  assert.equal(found.results[0].id, 1);
  assert.ok(response.usage.total_tokens > 0);
}

const hasEnded = (found) => !["queued", "in_progress", "CREATED", "IN_PROGRESS"].includes(found.status);

check("chat", ["chat"], async () => {
  checkAnswer(await client.chat.completions.create({ model: "sonar", messages }));
  checkAnswer(await client.chat.completions.create({ model: "sonar-pro", messages }));
});

check("chat, streamed", ["stream"], async () => {
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({ model: "sonar", messages, stream: true })) chunks.push(chunk);
  includesAnswer(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join(""));
  assert.equal(chunks[0].search_results[0].url, chunks[0].citations[0]);
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
  assert.ok(chunks.at(-1).usage.total_tokens > 0);
});

check("search", ["search"], async () => {
  const { results } = await client.search.create({ query: [QUESTION, "event loop"], max_results: 3 });
  includesAnswer(results[0].snippet);
  assert.ok(results[0].url && results[0].title);
});

check("responses", ["chat"], async () => {
  const response = await client.responses.create({ effort: "low", input: QUESTION, instructions: "Be brief." });
  checkResponse(response);
  checkResponse(await client.responses.retrieve(response.id));
  const input = "What is its event loop?";
  const next = await client.responses.create({ preset: "pro-search", input, previous_response_id: response.id, store: false });
  assert.equal(next.status, "completed");
  assert.ok(await thrown(() => client.responses.retrieve(next.id)) instanceof Perplexity.NotFoundError);
  const tools = [{ type: "web_search", filters: { search_domain_filter: ["example.org"], search_recency_filter: "month" } }];
  checkResponse(await client.responses.create({ model: "sonar", input: QUESTION, tools, max_steps: 1 }));
});

check("responses, streamed", ["stream"], async () => {
  const events = [];
  for await (const event of await client.responses.create({ effort: "medium", input: QUESTION, stream: true })) events.push(event);
  const kinds = events.map((event) => event.type);
  for (const kind of ["created", "reasoning.started", "reasoning.search_queries", "reasoning.search_results"]) {
    assert.ok(kinds.includes(`response.${kind}`), kind);
  }
  includesAnswer(events.map((event) => event.type === "response.output_text.delta" ? event.delta : "").join(""));
  const { type, response } = events.at(-1);
  assert.equal(type, "response.completed");
  assert.equal(response.status, "completed");
});

check("responses, pages read", [], async () => {
  const tools = [{ type: "fetch_url", max_urls: 1 }];
  const input = `What does ${PAGE_URL} say about asyncio?`;
  const response = await client.responses.create({ effort: "low", input, tools });
  const fetched = response.output.find((item) => item.type === "fetch_url_results");
  assert.deepEqual(fetched.contents.map((content) => content.url), [PAGE_URL]);
});

check("responses, in the background", [], async () => {
  const queued = await client.responses.create({ effort: "medium", input: QUESTION, background: true });
  assert.equal(queued.status, "queued");
  checkResponse(await ended(() => client.responses.retrieve(queued.id), hasEnded));
  assert.ok(await thrown(() => client.responses.cancel(queued.id)) instanceof Perplexity.BadRequestError);
  const report = await client.responses.create({ effort: "xhigh", input: LATE_ERROR, background: true });
  assert.equal((await client.responses.cancel(report.id)).status, "cancelling");
  assert.equal((await ended(() => client.responses.retrieve(report.id), hasEnded)).status, "cancelled");
});

check("a schema", ["structure"], async () => {
  const schema = { type: "object", properties: { answer: { type: "string" } }, required: ["answer"] };
  const response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
  const response = await client.responses.create({ effort: "low", input: QUESTION, response_format });
  includesAnswer(JSON.parse(response.output_text).answer);
});

check("async chat", [], async () => {
  const created = await client.async.chat.completions.create({ request: { model: "sonar-pro", messages } });
  const found = await ended(() => client.async.chat.completions.get(created.id), hasEnded);
  assert.equal(found.status, "COMPLETED");
  checkAnswer(found.response);
  assert.ok((await client.async.chat.completions.list()).requests.some((each) => each.id === created.id));
});

check("errors", [], async () => {
  const wrong = new Perplexity({ apiKey: "not-the-right-key", baseURL, maxRetries: 0 });
  const denied = await thrown(() => wrong.responses.create({ effort: "low", input: QUESTION }));
  assert.ok(denied instanceof Perplexity.AuthenticationError);
  assert.equal(denied.error.error.code, 401);
  assert.equal(denied.error.error.type, "unauthorized");
  const long = [{ role: "user", content: "x".repeat(100_000) }];
  const refused = await thrown(() => client.chat.completions.create({ model: "sonar", messages: long }));
  assert.ok(refused instanceof Perplexity.UnprocessableEntityError);
  assert.match(refused.message, /422 .*messages\.0\.content/);
  const unknown = await thrown(() => client.responses.create({ model: "nothing", input: QUESTION }));
  assert.match(unknown.message, /effort/);
  const limited = new Perplexity({ apiKey: KEY, baseURL: `${LIMITED_URL}/perplexity`, maxRetries: 0 });
  const few = await thrown(async () => { for (const _ of [1, 2]) await limited.search.create({ query: QUESTION }); });
  assert.ok(few instanceof Perplexity.RateLimitError);
  assert.ok(Number(few.headers.get("retry-after")) > 0);
});

check("a second turn", ["second turn"], async () => {
  const first = await client.chat.completions.create({ model: "sonar", messages });
  const said = { role: "assistant", content: first.choices[0].message.content };
  const turns = [...messages, said, { role: "user", content: `${QUESTION} Say it again.` }];
  checkAnswer(await client.chat.completions.create({ model: "sonar", messages: turns }));
});

await main();
