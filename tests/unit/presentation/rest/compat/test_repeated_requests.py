"""What the SDKs of OpenAI and Anthropic do when an answer is lost, or refused for now: they send the request again."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from fastapi import Response
from tests.support.cases import for_each
from tests.support.turns import run_ready_tasks
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.exceptions import LLMUnavailableError
from modules.llm_platform.presentation.rest.http import kept_answers
from modules.llm_platform.presentation.rest.http.kept_answers import KeptAnswers
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError

TURNS = [{"role": "user", "content": "What is asyncio?"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": TURNS},
    "/v1/responses": {"input": "What is asyncio?"},
    "/anthropic/v1/messages": {"messages": TURNS, "max_tokens": 9},
}
DOORS = pytest.mark.parametrize("path", BODIES)
KEY = {"Idempotency-Key": "stainless-python-retry-0b9c"}


@DOORS
@pytest.mark.parametrize("model", ["research-deep", "fake/fake-1"])
async def test_repeated_request_is_run_once(
    client: httpx2.AsyncClient, services: FakeServices, path: str, model: str
) -> None:
    """The same answer is returned and marked as a repeat. Without an idempotency key each request is new."""
    body = {**BODIES[path], "model": model, "colour": 1}
    first = await client.post(path, json=body, headers=KEY)
    again = await client.post(path, json=body, headers=KEY)
    assert (again.status_code, again.content) == (200, first.content)
    assert (again.headers["idempotent-replayed"], "idempotent-replayed" in first.headers) == ("true", False)
    assert "colour" in again.headers["x-ignored-fields"]
    assert len(services.requests) == 1
    await client.post(path, json=body)
    assert len(services.requests) == 2


@pytest.mark.parametrize("model", ["research-deep", "fake/fake-1"])
async def test_repeated_conversation_is_compared_without_a_warning(
    client: httpx2.AsyncClient, services: FakeServices, model: str
) -> None:
    """A warning of pydantic about its items would quote them in the log."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "o"}
    body = {"model": model, "input": [*TURNS, call, result, *TURNS]}
    first = await client.post("/v1/responses", json=body, headers=KEY)
    again = await client.post("/v1/responses", json=body, headers=KEY)
    assert (first.status_code, again.content) == (200, first.content)
    assert len(services.requests) == 1
    another = {**body, "input": [*TURNS, call, {**result, "output": "another"}, *TURNS]}
    assert (await client.post("/v1/responses", json=another, headers=KEY)).status_code == 400


@DOORS
async def test_requests_that_arrive_together_are_run_once(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    """A client may repeat a request after its timeout while the server still works on the first one."""
    services.gate.clear()
    body = {**BODIES[path], "model": "research-deep"}
    requests = [asyncio.create_task(client.post(path, json=body, headers=KEY)) for _ in range(3)]
    await run_ready_tasks()
    services.gate.set()
    answers = await asyncio.gather(*requests)
    assert len({answer.content for answer in answers}) == 1
    assert sorted("idempotent-replayed" in answer.headers for answer in answers) == [False, True, True]
    assert len(services.requests) == 1


@DOORS
async def test_key_of_a_running_request_is_refused_for_another_one(
    client: httpx2.AsyncClient, services: FakeServices, path: str
) -> None:
    services.gate.clear()
    body = {**BODIES[path], "model": "research-deep"}
    first = asyncio.create_task(client.post(path, json=body, headers=KEY))
    await run_ready_tasks()
    other = asyncio.create_task(client.post(path, json={**body, "model": "research-shallow"}, headers=KEY))
    await run_ready_tasks()
    services.gate.set()
    assert ((await first).status_code, (await other).status_code) == (200, 400)


async def test_request_that_waits_for_a_cancelled_one_is_run(
    client: httpx2.AsyncClient, services: FakeServices
) -> None:
    """The first client has gone, and its answer with it."""
    path = "/v1/chat/completions"
    body = {**BODIES[path], "model": "research-deep"}
    services.gate.clear()
    first, second = (asyncio.create_task(client.post(path, json=body, headers=KEY)) for _ in range(2))
    await run_ready_tasks()
    assert len(services.requests) == 1
    first.cancel()
    await run_ready_tasks()
    services.gate.set()
    assert (await second).status_code == 200
    assert len(services.requests) == 2


@DOORS
async def test_key_of_another_request_is_refused_in_the_shape_of_the_api(client: httpx2.AsyncClient, path: str) -> None:
    body = {**BODIES[path], "model": "research-deep"}
    await client.post(path, json=body, headers=KEY)
    for headers, sent in ((KEY, {**body, "model": "research-shallow"}), ({"Idempotency-Key": "x" * 256}, body)):
        response = await client.post(path, json=sent, headers=headers)
        assert response.status_code == 400
        assert "Idempotency-Key" in response.json()["error"]["message"]
        assert "stainless" not in response.text


@DOORS
async def test_another_mode_of_the_check_is_another_request(client: httpx2.AsyncClient, path: str) -> None:
    """An answer without evidence is not sent to a client that asks for evidence now."""
    body = {**BODIES[path], "model": "fake/fake-1"}
    await client.post(path, json=body, headers={**KEY, "X-Verify": "off"})
    response = await client.post(path, json=body, headers={**KEY, "X-Verify": "annotate"})
    assert response.status_code == 400
    assert "Idempotency-Key" in response.json()["error"]["message"]


async def test_failure_is_not_kept(client: httpx2.AsyncClient, services: FakeServices) -> None:
    services.error = LLMUnavailableError("away")
    body = {**BODIES["/v1/chat/completions"], "model": "fake/fake-1"}
    assert (await client.post("/v1/chat/completions", json=body, headers=KEY)).status_code == 502
    services.error = None
    assert (await client.post("/v1/chat/completions", json=body, headers=KEY)).status_code == 200


async def test_another_key_of_the_server_does_not_find_the_answer() -> None:
    services = FakeServices()
    keys = ("a-long-enough-key-1", "a-long-enough-key-2")
    body = {**BODIES["/v1/chat/completions"], "model": "research-deep"}
    async with app_client(services, LLM_PLATFORM_API_KEYS=",".join(keys)) as client:
        for key in keys:
            headers = {**KEY, "authorization": f"Bearer {key}"}
            assert (await client.post("/v1/chat/completions", json=body, headers=headers)).status_code == 200
    assert len(services.requests) == 2


def test_kept_answers_are_few_small_and_short_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    answers = KeptAnswers(lambda: now[0])
    monkeypatch.setattr(kept_answers, "MAX_ANSWERS", 2)
    positions = [("", "/v1/responses", str(number)) for number in range(3)]
    for position in positions:
        answers.keep(position, b"a", Response(b"{}"))
    assert [answers.find(position, b"a") is None for position in positions] == [True, False, False]
    with pytest.raises(InvalidRequestError):
        answers.find(positions[1], b"b")
    answers.keep(positions[0], b"a", Response(b"x" * (kept_answers.MAX_ANSWER_BYTES + 1)))
    answers.keep(positions[0], b"a", Response(b"{}", 502))
    assert answers.find(positions[0], b"a") is None
    now[0] = kept_answers.KEPT_S + 1
    assert answers.find(positions[1], b"a") is None


@for_each("path", list(BODIES))
async def test_wait_that_an_upstream_names_is_passed_on(path: str) -> None:
    """The SDKs wait as long, and their second try succeeds."""
    services = FakeServices()
    services.error = LLMUnavailableError("The model failed (503): try again", retry_after_s=7.0)
    async with app_client(services) as client:
        response = await client.post(path, json={**BODIES[path], "model": "fake/fake-1"})
    assert (response.status_code, response.headers["retry-after"]) == (502, "7")
