// Vercel's AI SDK with its provider for any service of OpenAI's protocol, which drops annotations.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { KEY, QUESTION, URL, check, includesAnswer, main } from "./checks.mjs";

const platform = createOpenAICompatible({ name: "llm-platform", apiKey: KEY, baseURL: `${URL}/v1` });
const how = { model: platform("research-shallow"), prompt: QUESTION, maxRetries: 0 };

check("chat", ["chat"], async () => includesAnswer((await generateText(how)).text));

check("chat, streamed", ["stream"], async () => {
  let text = "";
  for await (const part of streamText(how).textStream) text += part;
  includesAnswer(text);
});

check("a second turn", ["second turn"], async () => {
  const messages = [{ role: "user", content: QUESTION }];
  const first = await generateText({ model: platform("research-shallow"), messages, maxRetries: 0 });
  messages.push(...first.response.messages, { role: "user", content: `${QUESTION} Say it again.` });
  includesAnswer((await generateText({ model: platform("research-shallow"), messages, maxRetries: 0 })).text);
});

await main();
