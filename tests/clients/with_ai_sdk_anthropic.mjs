// Vercel's AI SDK with its provider for Anthropic.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { Output, generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import { KEY, LLM, QUESTION, URL, check, includesAnswer, main } from "./checks.mjs";

const anthropic = createAnthropic({ apiKey: KEY, baseURL: `${URL}/anthropic/v1` });
const how = { prompt: QUESTION, maxRetries: 0, maxOutputTokens: 500 };
const properties = { answer: { type: "string" } };
const schema = jsonSchema({ type: "object", properties, required: ["answer"], additionalProperties: false });

check("a research model", ["chat", "stream"], async () => {
  includesAnswer((await generateText({ model: anthropic("research-shallow"), ...how })).text);
  const result = streamText({ model: anthropic("research-shallow"), ...how });
  let text = "";
  for await (const part of result.textStream) text += part;
  includesAnswer(text);
});

check("a schema, with a research model", ["structure"], async () => {
  const result = await generateText({ model: anthropic("research-shallow"), output: Output.object({ schema }), ...how });
  includesAnswer(result.output.answer);
});

check("a passthrough model with a tool of one's own, streamed too", ["tools", "stream"], async () => {
  let calls = 0;
  const inputSchema = jsonSchema({ type: "object", properties: {}, additionalProperties: false });
  const tools = { today: tool({ description: "Returns the date.", inputSchema, execute: () => { calls += 1; return ""; } }) };
  const result = await generateText({ model: anthropic(LLM), tools, stopWhen: isStepCount(2), ...how });
  includesAnswer(result.text);
  const streamed = streamText({ model: anthropic(LLM), tools, stopWhen: isStepCount(2), ...how });
  let text = "";
  for await (const part of streamed.textStream) text += part;
  includesAnswer(text);
  assert.equal(calls, 2);
});

check("a second turn", ["second turn"], async () => {
  const messages = [{ role: "user", content: QUESTION }];
  const first = await generateText({ model: anthropic("research-shallow"), messages, maxRetries: 0 });
  messages.push(...first.response.messages, { role: "user", content: `${QUESTION} Say it again.` });
  includesAnswer((await generateText({ model: anthropic("research-shallow"), messages, maxRetries: 0 })).text);
});

await main();
