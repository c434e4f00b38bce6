// Vercel's AI SDK with its provider for Perplexity.
import assert from "node:assert/strict";
import { createPerplexity } from "@ai-sdk/perplexity";
import { generateText, streamText } from "ai";
import { KEY, QUESTION, URL, check, includesAnswer, main, thrown } from "./checks.mjs";

const perplexity = createPerplexity({ apiKey: KEY, baseURL: `${URL}/perplexity` });
const how = { prompt: QUESTION, maxRetries: 0 };

check("chat", ["chat"], async () => {
  const result = await generateText({ model: perplexity("sonar"), ...how });
  includesAnswer(result.text);
  assert.equal(result.sources[0].url, "https://example.org/asyncio");
});

check("chat, streamed", ["stream"], async () => {
  const result = streamText({ model: perplexity("sonar"), ...how });
  let text = "";
  for await (const part of result.textStream) text += part;
  includesAnswer(text);
  assert.equal((await result.sources)[0].url, "https://example.org/asyncio");
});

check("errors", [], async () => {
  const wrong = createPerplexity({ apiKey: "not-the-right-key", baseURL: `${URL}/perplexity` });
  const error = await thrown(() => generateText({ model: wrong("sonar"), ...how }));
  assert.equal(error.statusCode, 401);
  assert.match(error.message, /API key/);
});

check("a second turn", ["second turn"], async () => {
  const messages = [{ role: "user", content: QUESTION }];
  const first = await generateText({ model: perplexity("sonar"), messages, maxRetries: 0 });
  messages.push(...first.response.messages, { role: "user", content: `${QUESTION} Say it again.` });
  includesAnswer((await generateText({ model: perplexity("sonar"), messages, maxRetries: 0 })).text);
});

await main();
