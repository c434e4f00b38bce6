"""A server process with a daily budget.

It answers with a model first, and with quotes after the budget is spent, also after a restart.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.chat_server import ChatServer, answer, completion
from tests.support.forked_command import run_forked
from tests.support.server_process import FORKED, FORKED_SERVERS, TIMEOUT_S, Served, served

CALL_USD = 0.02  # 20 tokens at 1000 dollars per million
USAGE = {"prompt_tokens": 11, "completion_tokens": 9}
EPOCH = date(1970, 1, 1)
LONGEST_TEST_S = 60.0
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 16}


def settings(chat: ChatServer, **more: str) -> dict[str, str]:
    model = {
        "name": "openai",
        "api_key": "a-long-key",
        "base_url": chat.url,
        "model": "m",
        "price_in": 1000,
        "price_out": 1000,
    }
    return {"LLM_PROVIDERS": json.dumps([model]), **more}


def chat_server() -> ChatServer:
    return ChatServer(answer(completion("asyncio is a library to write concurrent code. [1]", usage=USAGE)))


async def research(server: Served, **headers: str) -> dict[str, Any]:
    body = {"query": "What is Python asyncio?"}
    found: dict[str, Any] = (await server.client.post("/research", json=body, headers=headers)).json()
    return found


def budget_entries(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [degradation for degradation in answer["degraded"] if degradation["component"] == "budget/day"]


@pytest.fixture
def one_day() -> None:
    """Wait for midnight UTC if it is near, so that the daily budget is not reset during the test."""
    left_s = (datetime.now(UTC).date() + timedelta(days=1) - EPOCH).total_seconds() - time.time()
    if left_s < LONGEST_TEST_S:
        time.sleep(left_s)


@pytest.mark.usefixtures("one_day")
@pytest.mark.parametrize("kind", FORKED_SERVERS)
async def test_answers_are_quotes_when_the_budget_is_spent(tmp_path: Path, kind: str) -> None:
    """`degraded` gives the reason, chat returns 429 with the remedy, and a restart does not reset the budget."""
    async with chat_server().running() as chat:
        budget = settings(chat, BUDGET_USD_PER_DAY=str(CALL_USD))
        async with served(kind, tmp_path, **budget) as server:
            server.search.gate.set()
            first, second = await research(server), await research(server)
            assert (first["metadata"]["synthesizer"], first["metadata"]["cost_usd"]) == ("openai/m", CALL_USD)
            assert (budget_entries(first), len(chat.asked)) == ([], 1)
            assert (second["metadata"]["synthesizer"], second["metadata"]["llm_calls"]) == ("extractive", 0)
            (entry,) = budget_entries(second)
            assert "BUDGET_USD_PER_DAY (0.02" in entry["reason"]
            assert entry["until"] == f"{datetime.now(UTC).date() + timedelta(days=1)}T00:00:00Z"
            server.process.terminate()
            assert await server.ended() == 0
        async with served(kind, tmp_path, **budget) as server:
            refused = await server.client.post("/llm-platform/chat", json=CHAT)
            problem = refused.json()
            assert (refused.status_code, problem["code"], problem["retryable"]) == (429, "daily_budget", True)
            assert "raise it, or wait until 00:00 UTC" in problem["detail"]
            assert 0 < int(refused.headers["retry-after"]) <= 86_400
            streamed = await server.client.post("/llm-platform/chat", json={**CHAT, "stream": True})
            assert streamed.status_code == 429
        assert len(chat.asked) == 1


@pytest.mark.usefixtures("one_day")
async def test_each_api_key_has_its_own_budget(tmp_path: Path) -> None:
    """A key that has spent its share gets quotes. Other keys still get answers of the model."""
    keys = {"LLM_PLATFORM_API_KEYS": "alice:key-of-alice,key-of-nobody", "BUDGET_USD_PER_DAY": "*=0.01,alice=1"}
    async with chat_server().running() as chat, served(FORKED, tmp_path, **settings(chat, **keys)) as server:
        server.search.gate.set()
        writers = []
        for key in ("key-of-nobody", "key-of-nobody", "key-of-alice", "key-of-alice"):
            found = await research(server, Authorization=f"Bearer {key}")
            writers.append(found["metadata"]["synthesizer"])
        assert writers == ["openai/m", "extractive", "openai/m", "openai/m"]


@pytest.mark.usefixtures("one_day")
async def test_many_requests_of_a_key_at_once_do_not_overspend(tmp_path: Path) -> None:
    """Sixty concurrent requests with one key overspend its budget by at most one call. Another key is served meanwhile."""
    calls = 5
    keys = {"LLM_PLATFORM_API_KEYS": "alice:key-of-alice,bob:key-of-bob"}
    limits = {
        "BUDGET_USD_PER_DAY": f"alice={calls * CALL_USD},bob=1",
        "RATE_LIMIT_PER_MINUTE": "0",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
    }
    async with chat_server().running() as chat, served(FORKED, tmp_path, **settings(chat, **keys, **limits)) as server:

        async def ask(key: str, number: int) -> int:
            body = {**CHAT, "messages": [{"role": "user", "content": f"hi {number}"}]}
            answered = await server.client.post("/llm-platform/chat", json=body, headers={"X-API-Key": key})
            if answered.status_code != 200:
                assert (answered.status_code, answered.json()["code"]) == (429, "daily_budget")
            return answered.status_code

        for _ in range(3):  # the first requests reserve the whole budget, and later requests use what is released
            statuses = await asyncio.gather(
                *(ask("key-of-alice", number) for number in range(60)), ask("key-of-bob", 0)
            )
            assert statuses[-1] == 200
        for number in range(calls):
            await ask("key-of-alice", number)
        assert await ask("key-of-alice", 0) == 429
        of_bob = 3
        assert calls <= len(chat.asked) - of_bob <= calls + 1


@pytest.mark.parametrize("kind", FORKED_SERVERS)
def test_unknown_price_stops_the_start(tmp_path: Path, kind: str) -> None:
    """The error is one line that names the model and the setting to change."""
    environment = {"LLM_API_KEY": "a-long-key", "LLM_MODEL": "m", "BUDGET_USD_PER_DAY": "1"}
    program, arguments = FORKED_SERVERS[kind]
    env = {**os.environ, "LLM_PLATFORM_DATA_DIR": str(tmp_path), **environment}
    done = run_forked(program, *arguments, env=env, timeout=TIMEOUT_S)
    assert done.returncode != 0
    assert "BUDGET_USD_PER_DAY needs the price of every model, and that of m is not known: set price_in" in done.stderr
    assert "Traceback" not in done.stderr
