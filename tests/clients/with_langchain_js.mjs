// LangChain.js with ChatOpenAI, over chat completions, which drop annotations there, and over Responses.
import assert from "node:assert/strict";
import { ChatOpenAI } from "@langchain/openai";
import { KEY, LLM, QUESTION, URL, check, includesAnswer, main } from "./checks.mjs";

const configuration = { baseURL: `${URL}/v1` };
const how = { model: "research-shallow", apiKey: KEY, maxRetries: 0, configuration };

check("chat", ["chat"], async () => includesAnswer((await new ChatOpenAI(how).invoke(QUESTION)).text));

check("chat, streamed", ["stream"], async () => {
  let text = "";
  for await (const part of await new ChatOpenAI(how).stream(QUESTION)) text += part.text;
  includesAnswer(text);
});

check("responses", ["chat"], async () => {
  const answer = await new ChatOpenAI({ ...how, useResponsesApi: true }).invoke(QUESTION);
  includesAnswer(answer.text);
  assert.equal(answer.content[0].annotations[0].type, "citation");
});

check("a schema", ["structure"], async () => {
  const schema = {
    title: "summary", type: "object", properties: { answer: { type: "string" } }, required: ["answer"], additionalProperties: false,
  };
  const model = new ChatOpenAI(how).withStructuredOutput(schema, { method: "jsonSchema" });
  includesAnswer((await model.invoke(QUESTION)).answer);
});

check("a second turn", ["second turn"], async () => {
  const model = new ChatOpenAI(how);
  const first = await model.invoke([["user", QUESTION]]);
  includesAnswer((await model.invoke([["user", QUESTION], first, ["user", `${QUESTION} Say it again.`]])).text);
});

check("a passthrough model with a tool of one's own", ["tools"], async () => {
  const schema = { type: "object", properties: {} };
  const model = new ChatOpenAI({ ...how, model: LLM }).bindTools([{ type: "function", function: { name: "today", parameters: schema } }]);
  const called = await model.invoke([["user", QUESTION]]);
  const result = { role: "tool", content: "", tool_call_id: called.tool_calls[0].id };
  includesAnswer((await model.invoke([["user", QUESTION], called, result])).text);
});

await main();
