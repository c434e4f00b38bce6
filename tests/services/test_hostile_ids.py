"""One client sends invalid run ids to a server with PostgreSQL while another client works."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.support.fuzz import chosen
from tests.support.server_process import FORKED, Served, served

pytestmark = pytest.mark.services

ATTACK_S = float(chosen(3, 30))
STRANGERS = 8
KEYS = "alice:a-key-of-alice,bob:a-key-of-bob"
ALICE, BOB = {"X-API-Key": "a-key-of-alice"}, {"X-API-Key": "a-key-of-bob"}
HOSTILE_IDS = ("%00", "a%00b", "%0A", "%C3%A9", "%ED%A0%80", "%FF", "a" * 129, "%7F")
ROUTES = (("GET", "/sources/1"), ("GET", ""), ("GET", "/events"), ("DELETE", ""))
SUBMITTED = {"query": "What is a standby?", "background": True}


async def hostile(server: Served, until_s: float, statuses: Counter[int]) -> None:
    while time.monotonic() < until_s:
        for method, rest in ROUTES:
            for request_id in HOSTILE_IDS:
                answer = await server.client.request(method, f"/research/{request_id}{rest}", headers=BOB)
                statuses[answer.status_code] += 1
                assert answer.status_code == 404, (method, request_id, rest, answer.text)
        listed = await server.client.get("/research?before=%00", headers=BOB)
        continued = await server.client.post("/research", json={**SUBMITTED, "previous_id": "\0"}, headers=BOB)
        assert (listed.status_code, continued.status_code) == (404, 422)


async def test_hostile_ids_do_not_affect_other_clients(url: str, tmp_path: Path) -> None:
    """Each hostile id is a 404. Meanwhile another client can submit, list, read and cancel runs.

    It cancels its runs, because a queue has a limit of a thousand.
    """
    settings = {"DATABASE_URL": url, "LLM_PLATFORM_API_KEYS": KEYS, "MAX_BACKGROUND_RESEARCHES": "0"}
    async with served(FORKED, tmp_path, **settings) as server:
        until_s, refused, answered = time.monotonic() + ATTACK_S, Counter[int](), Counter[tuple[str, int]]()
        strangers = [asyncio.create_task(hostile(server, until_s, refused)) for _ in range(STRANGERS)]
        while time.monotonic() < until_s:
            submit = await server.client.post("/research", json=SUBMITTED, headers=ALICE)
            answered["submit", submit.status_code] += 1
            path = f"/{submit.json().get('id', 'none')}"
            for name, method, rest in (("list", "GET", ""), ("state", "GET", path), ("cancel", "DELETE", path)):
                answer = await server.client.request(method, f"/research{rest}", headers=ALICE)
                answered[name, answer.status_code] += 1
        found = await asyncio.gather(*strangers, return_exceptions=True)
    assert {status for _, status in answered} == {200, 202}, (answered, refused)
    assert [error for error in found if error is not None] == [], refused
