// LangChain.js with ChatOpenAI, over chat completions, which drop annotations there, and over Responses.
import assert from "node:assert/strict";
import { ChatOpenAI } from "@langchain/openai";
import { KEY, QUESTION, URL, check, includesAnswer, main } from "./checks.mjs";

const configuration = { baseURL: `${URL}/v1` };
const how = { model: "research-shallow", apiKey: KEY, maxRetries: 0, configuration };

check("chat", async () => includesAnswer((await new ChatOpenAI(how).invoke(QUESTION)).text));

check("chat, streamed", async () => {
  let text = "";
  for await (const part of await new ChatOpenAI(how).stream(QUESTION)) text += part.text;
  includesAnswer(text);
});

check("responses", async () => {
  const answer = await new ChatOpenAI({ ...how, useResponsesApi: true }).invoke(QUESTION);
  includesAnswer(answer.text);
  assert.equal(answer.content[0].annotations[0].type, "citation");
});

check("a schema", async () => {
  const schema = {
    title: "summary", type: "object", properties: { answer: { type: "string" } }, required: ["answer"], additionalProperties: false,
  };
  const model = new ChatOpenAI(how).withStructuredOutput(schema, { method: "jsonSchema" });
  includesAnswer((await model.invoke(QUESTION)).answer);
});

await main();
