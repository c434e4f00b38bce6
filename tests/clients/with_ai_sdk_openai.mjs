// Vercel's AI SDK with its provider for OpenAI: over Responses and over chat completions.
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { Output, generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { KEY, LATE_ERROR, LLM, QUESTION, URL, check, includesAnswer, main, thrown } from "./checks.mjs";

const openai = createOpenAI({ apiKey: KEY, baseURL: `${URL}/v1` });
const how = { prompt: QUESTION, maxRetries: 0 };

check("responses", ["chat"], async () => {
  const result = await generateText({ model: openai("research-shallow"), ...how });
  includesAnswer(result.text);
  assert.equal(result.sources[0].url, "https://example.org/asyncio");
});

check("responses, streamed", ["stream"], async () => {
  const result = streamText({ model: openai("research-shallow"), ...how });
  let text = "";
  for await (const part of result.textStream) text += part;
  includesAnswer(text);
  assert.equal((await result.sources)[0].url, "https://example.org/asyncio");
});

check("responses, a second turn", ["second turn"], async () => {
  const messages = [{ role: "user", content: QUESTION }];
  const first = await generateText({ model: openai("research-shallow"), messages, maxRetries: 0 });
  messages.push(...first.response.messages, { role: "user", content: `${QUESTION} Say it again.` });
  includesAnswer((await generateText({ model: openai("research-shallow"), messages, maxRetries: 0 })).text);
});

check("responses, with its web search tool", ["chat"], async () => {
  const tools = { web_search: openai.tools.webSearch({}) };
  includesAnswer((await generateText({ model: openai("research-shallow"), tools, ...how })).text);
});

check("chat", ["chat"], async () => {
  const result = await generateText({ model: openai.chat("research-shallow"), ...how });
  includesAnswer(result.text);
  assert.equal(result.sources[0].url, "https://example.org/asyncio");
});

check("chat, streamed", ["stream"], async () => {
  const result = streamText({ model: openai.chat("research-shallow"), ...how });
  let text = "";
  for await (const part of result.textStream) text += part;
  includesAnswer(text);
});

const schema = jsonSchema({
  type: "object", properties: { answer: { type: "string" } }, required: ["answer"], additionalProperties: false,
});

check("a schema, with a research model", ["structure"], async () => {
  const result = await generateText({ model: openai.chat("research-shallow"), output: Output.object({ schema }), ...how });
  includesAnswer(result.output.answer);
});

check("a passthrough model with a tool of one's own", ["tools"], async () => {
  let calls = 0;
  const inputSchema = jsonSchema({ type: "object", properties: {}, additionalProperties: false });
  const today = tool({ description: "Returns the date.", inputSchema, execute: () => `2026-11-${20 + ++calls}` });
  const result = await generateText({ model: openai.chat(LLM), tools: { today }, stopWhen: isStepCount(2), ...how });
  includesAnswer(result.text);
  assert.equal(calls, 1);
});

check("an error of a stream after its beginning", [], async () => {
  const parts = [];
  const asked = { model: openai.chat(LLM), prompt: LATE_ERROR, maxRetries: 0, onError: () => {} };
  for await (const part of streamText(asked).fullStream) parts.push(part.type);
  assert.ok(parts.includes("error"), parts.join(" "));
});

check("errors", [], async () => {
  const wrong = createOpenAI({ apiKey: "not-the-right-key", baseURL: `${URL}/v1` });
  const error = await thrown(() => generateText({ model: wrong("research-shallow"), ...how }));
  assert.equal(error.statusCode, 401);
});

check("tools that are required", ["tools"], async () => {
  const inputSchema = jsonSchema({
    type: "object", properties: { answer: { type: "string" } }, required: ["answer"], additionalProperties: false,
  });
  for (const model of [openai.chat(LLM), openai.chat("research-shallow"), openai("research-shallow"), openai(LLM)]) {
    const answers = [];
    const record = tool({ description: "Records the answer.", inputSchema, execute: ({ answer }) => { answers.push(answer); return ""; } });
    const result = await generateText({
      model, tools: { record }, toolChoice: "required", stopWhen: isStepCount(1), providerOptions: { openai: { store: false } }, ...how,
    });
    assert.equal(result.finishReason, "tool-calls");
    assert.equal(answers.length, 1);
    if (model.modelId !== LLM) includesAnswer(answers[0]);
  }
});

await main();
