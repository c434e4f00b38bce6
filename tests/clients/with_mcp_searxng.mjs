// mcp-searxng, a server of MCP that asks a SearXNG: started as an MCP host starts it, and asked over standard input.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { KEY, QUESTION, URL, check, includesAnswer, main } from "./checks.mjs";

const env = { ...process.env, SEARXNG_URL: `${URL}/searxng`, AUTH_USERNAME: "any", AUTH_PASSWORD: KEY };
const server = spawn(process.execPath, ["node_modules/mcp-searxng/dist/cli.js"], { env, stdio: ["pipe", "pipe", "ignore"] });
const answers = new Map();
createInterface({ input: server.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  answers.get(message.id)?.(message);
});

function send(message) {
  server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

function request(id, method, params) {
  const answer = new Promise((resolve) => answers.set(id, resolve));
  send({ id, method, params });
  return answer;
}

check("searxng_web_search", ["search"], async () => {
  const clientInfo = { name: "checks", version: "1" };
  await request(1, "initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  send({ method: "notifications/initialized" });
  const called = await request(2, "tools/call", { name: "searxng_web_search", arguments: { query: QUESTION } });
  assert.ok(!called.result?.isError, JSON.stringify(called));
  includesAnswer(called.result.content[0].text);
});

check("searxng_instance_info", [], async () => {
  const called = await request(3, "tools/call", { name: "searxng_instance_info", arguments: {} });
  assert.ok(!called.result?.isError, JSON.stringify(called));
});

await main();
