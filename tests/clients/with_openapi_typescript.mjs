// openapi-typescript: types of every operation, a program that they accept, and a call with openapi-fetch.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import createClient from "openapi-fetch";
import openapiTS, { astToString } from "openapi-typescript";
import { ANSWER, KEY, QUESTION, URL, check, main } from "./checks.mjs";

const FOLDER = "openapi-types";  // beside the packages, which the compiler looks for
const PROGRAM = `
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";
const client = createClient<paths>({ baseUrl: "http://localhost" });
export async function titles(query: string): Promise<string[]> {
  const { data } = await client.POST("/llm-platform/web-search", { body: { query, count: 3 } });
  return (data?.results ?? []).map((result) => result.title);
}
// @ts-expect-error  a query is required
client.POST("/llm-platform/web-search", { body: {} });
`;

async function described() {
  return (await fetch(`${URL}/openapi.json`, { headers: { "X-API-Key": KEY } })).json();
}

check("all operations", [], async () => {
  const schema = await described();
  const types = astToString(await openapiTS(schema, { defaultNonNullable: false }));
  for (const [path, methods] of Object.entries(schema.paths)) {
    assert.ok(types.includes(JSON.stringify(path)), path);
    for (const { operationId } of Object.values(methods)) assert.ok(types.includes(`    ${operationId}: {`), operationId);
  }
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(`${FOLDER}/schema.d.ts`, types);
});

check("types of a program", [], async () => {
  writeFileSync(`${FOLDER}/program.ts`, PROGRAM);
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--moduleResolution", "nodenext"];
  try {
    execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", ...options, `${FOLDER}/program.ts`], { encoding: "utf8" });
  } catch (error) {
    assert.fail(error.stdout);
  }
});

check("search with openapi-fetch", ["search"], async () => {
  const client = createClient({ baseUrl: URL, headers: { "X-API-Key": KEY } });
  const { data, error } = await client.POST("/llm-platform/web-search", { body: { query: QUESTION } });
  assert.equal(error, undefined);
  assert.ok(data.results[0].snippet.includes(ANSWER));
});

await main();
