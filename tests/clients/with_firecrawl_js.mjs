// Firecrawl's SDK for JavaScript: version 2, and version 1.
import assert from "node:assert/strict";
import Firecrawl from "@mendable/firecrawl-js";
import { KEY, LIMITED_URL, PAGE_URL, QUESTION, URL, check, includesAnswer, main, thrown } from "./checks.mjs";

const client = new Firecrawl({ apiKey: KEY, apiUrl: `${URL}/firecrawl` });
const pages = [PAGE_URL, `${PAGE_URL}/tasks`];

check("scrape", [], async () => {
  const page = await client.scrape(PAGE_URL, { formats: ["markdown", "links", "html"], onlyMainContent: true });
  includesAnswer(page.markdown);
  assert.ok(page.links.includes(pages[1]));
  assert.equal(page.metadata.sourceURL, PAGE_URL);
  assert.match(page.warning, /html is not served/);
});

check("search", ["search"], async () => {
  const found = await client.search(QUESTION, { limit: 3, sources: ["web", "news"], tbs: "qdr:m" });
  includesAnswer(found.web[0].description);
  assert.ok(found.news[0].url);
});

check("map", [], async () => {
  const found = await client.map(PAGE_URL, { search: "tasks" });
  assert.deepEqual(found.links.slice(0, 2).map((link) => link.url), pages);
});

check("crawl", [], async () => {
  const found = await client.crawl(PAGE_URL, { limit: 10, pollInterval: 1, timeout: 100 });
  assert.equal(found.status, "completed");
  assert.deepEqual(found.data.map((page) => page.metadata.sourceURL), pages);
  includesAnswer(found.data[1].markdown);
});

check("crawl: status, errors, cancel", [], async () => {
  const job = await client.startCrawl(PAGE_URL, { limit: 10 });
  while ((await client.getCrawlStatus(job.id)).status === "scraping");
  assert.deepEqual((await client.getCrawlErrors(job.id)).robotsBlocked, [`${PAGE_URL}/private`]);
  assert.equal((await thrown(() => client.cancelCrawl(job.id))).status, 409);
});

check("version 1: scrape, search, map, crawl", [], async () => {
  const older = client.v1;
  const page = await older.scrapeUrl(PAGE_URL, { formats: ["markdown", "links"] });
  includesAnswer(page.markdown);
  assert.ok(page.links.includes(pages[1]));
  includesAnswer((await older.search(QUESTION, { limit: 3 })).data[0].description);
  assert.deepEqual((await older.mapUrl(PAGE_URL, {})).links.slice(0, 2), pages);
  const found = await older.crawlUrl(PAGE_URL, { limit: 10 }, 2);
  assert.deepEqual(found.data.map((each) => each.metadata.sourceURL), pages);
});

check("errors", [], async () => {
  const wrong = new Firecrawl({ apiKey: "not-the-right-key", apiUrl: `${URL}/firecrawl` });
  assert.equal((await thrown(() => wrong.scrape(PAGE_URL))).status, 401);
  const refused = await thrown(() => client.scrape(PAGE_URL, { formats: ["rawHtml"] }));
  assert.deepEqual([refused.status, /not served/.test(refused.message)], [400, true]);
  assert.match((await thrown(() => client.scrape("http://127.0.0.1:1/private"))).message, /url: /);
  const limited = new Firecrawl({ apiKey: KEY, apiUrl: `${LIMITED_URL}/firecrawl` });
  const scrape = async () => { for (const _ of [1, 2]) await limited.scrape(PAGE_URL); };
  assert.equal((await thrown(scrape)).status, 429);
});

await main();
