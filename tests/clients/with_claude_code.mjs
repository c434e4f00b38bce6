// Claude Code in print mode, with the names of its own models, which ANTHROPIC_MODELS maps to a configured one.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ANSWER, KEY, QUESTION, URL, check, includesAnswer, main } from "./checks.mjs";

// The package of the platform has the program. What it sends beside messages is switched off, and finds no proxy.
const packages = join(process.cwd(), "node_modules/@anthropic-ai");
const platform = (await readdir(packages)).filter((name) => name.startsWith("claude-code-")).sort()[0];
const program = join(packages, platform, "claude");
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_TELEMETRY: "1", DISABLE_AUTOUPDATER: "1", DISABLE_ERROR_REPORTING: "1",
  HTTPS_PROXY: "http://127.0.0.1:9", HTTP_PROXY: "http://127.0.0.1:9", NO_PROXY: "127.0.0.1",
};

async function claude(words, more = {}) {
  const home = await mkdtemp(join(tmpdir(), "claude-"));
  const note = join(home, "note.md");
  await writeFile(note, `${ANSWER}.\n`);
  const env = { PATH: process.env.PATH, HOME: home, ANTHROPIC_BASE_URL: `${URL}/anthropic`, ANTHROPIC_AUTH_TOKEN: KEY, ...QUIET, ...more };
  const child = spawn(program, ["-p", ...words(note)], { cwd: home, env, stdio: ["ignore", "pipe", "pipe"] });
  let [said, errors] = ["", ""];
  child.stdout.on("data", (part) => { said += part; });
  child.stderr.on("data", (part) => { errors += part; });
  const code = await new Promise((resolve) => child.on("close", resolve));
  return { code, said, errors };
}

check("a question", ["chat", "stream"], async () => {
  const { code, said, errors } = await claude(() => [QUESTION, "--tools", ""]);
  assert.equal(code, 0, said + errors);
  includesAnswer(said);
});

check("a file that it reads with its tool", ["tools", "second turn"], async () => {
  const { code, said, errors } = await claude((note) => [
    `Read ${note} and tell what asyncio is.`, "--output-format", "stream-json", "--verbose", "--allowedTools", "Read",
  ]);
  assert.equal(code, 0, said + errors);
  const events = said.trim().split("\n").map((line) => JSON.parse(line));
  const blocks = events.flatMap((event) => event.message?.content ?? []);
  const called = blocks.find((block) => block.type === "tool_use");
  assert.equal(called?.name, "Read", said);
  const result = blocks.find((block) => block.type === "tool_result");
  includesAnswer(JSON.stringify(result.content));
  includesAnswer(events.at(-1).result);
});

check("a model of the server by its name", ["chat"], async () => {
  const { code, said, errors } = await claude(() => [QUESTION, "--model", "openai/fake-1", "--tools", ""]);
  assert.equal(code, 0, said + errors);
  includesAnswer(said);
});

await main();
