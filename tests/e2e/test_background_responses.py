"""Background responses of the Responses APIs with real processes.

The next server continues the responses of a killed one.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.e2e.test_background_researches import PATIENCE_S, QUESTION, Server, end_leases, read_until_asleep, server
from tests.support.cases import for_each
from tests.support.loopback_upstream import serving
from tests.support.report_upstream import Upstream
from tests.support.server_process import asleep

APIS = (
    ("/v1/responses", {"model": "o3-deep-research"}, {"model": "research-shallow"}),
    ("/perplexity/v1/responses", {"effort": "xhigh"}, {"effort": "low"}),
)


def decoded(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def settled(running: Server, path: str) -> list[dict[str, Any]]:
    """Return the events so far, once the server only waits for its silent upstream."""
    await asleep(running.process)
    async with running.client.stream("GET", path, params={"stream": "true"}) as answer:
        return decoded(await read_until_asleep(answer, running))


@for_each(("route", "report", "follow_up"), APIS)
async def test_background_response_survives_its_server(
    route: str, report: dict[str, Any], follow_up: dict[str, Any], tmp_path: Path
) -> None:
    """After SIGKILL the next server finishes the response.

    The event numbers continue, earlier events stay unchanged, and no search is reported twice. A follow-up question
    finds the answer after another restart.
    """
    data = tmp_path / route.strip("/").replace("/", "-")
    upstream = Upstream(silent_from=14)
    async with serving(upstream.handle) as loopback:
        async with server(loopback, data) as first:
            queued = (await first.client.post(route, json={"input": QUESTION, "background": True, **report})).json()
            assert queued["status"] == "queued"
            path = f"{route}/{queued['id']}"
            await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
            seen = await settled(first, path)
            assert (await first.client.get(path)).json()["status"] == "in_progress"
            await first.kill()
        end_leases(data)
        assert len(seen) > 5
        upstream.silent_from, upstream.reached = 10_000, asyncio.Event()
        async with server(loopback, data) as second:
            after = {"stream": "true", "starting_after": seen[-1]["sequence_number"]}
            rest = decoded((await second.client.get(path, params=after)).text)
            assert [event["sequence_number"] for event in seen + rest] == list(range(len(seen + rest)))
            assert decoded((await second.client.get(path, params={"stream": "true"})).text) == seen + rest
            response = rest[-1]["response"]
            assert (rest[-1]["type"], response["status"]) == ("response.completed", "completed")
            text = response["output"][-1]["content"][0]["text"]
            assert "".join(event.get("delta", "") for event in seen + rest) == text
            searched = [query for event in seen + rest for query in queries_of(event)]
            assert len(searched) == len(set(searched)) > 0
        async with server(loopback, data) as third:
            assert (await third.client.get(path)).json() == response
            asked = {"input": "How loud are they?", "previous_response_id": queued["id"], **follow_up}
            answer = await third.client.post(route, json=asked)
            assert answer.status_code == 200, answer.text
            meta = answer.json()["llm_platform"]["metadata"]
            assert "heat pump" in meta["standalone_query"].lower()


def queries_of(event: dict[str, Any]) -> list[str]:
    """Return the searches that an event reports."""
    if event["type"] == "response.output_item.done":
        return [query for query in [event["item"].get("action", {}).get("query")] if query]
    return list(event.get("queries", ()))
