"""An invalid request gets a small problem object with the right status, and calls no service."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

CORPUS = Path(__file__).with_name("bad_requests.jsonl")
LARGEST_PROBLEM_BYTES = 16_384

Case = Mapping[str, Any]
CASES: list[Case] = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def _body(case: Case) -> bytes | None:
    if "body_b64" in case:
        return base64.b64decode(case["body_b64"])
    if made := case.get("body_gen"):
        return str(made["prefix"] + made["unit"] * made["count"] + made["suffix"]).encode()
    return case["body"].encode() if "body" in case else None


@for_each("case", CASES)
async def test_bad_request_gets_a_small_problem(case: Case) -> None:
    """The status is one of the case's statuses. A refusal is short, contains its code, and calls no service."""
    services = FakeServices()
    url = case["path"] + (f"?{case['query']}" if "query" in case else "")
    async with app_client(services) as client:
        answer = await client.request(case["method"], url, headers=case["headers"], content=_body(case))
    assert answer.status_code in {*case["expect_status"], *case.get("lenient", ())}
    if answer.status_code != 200:
        is_compatible = case["path"].startswith("/v1/")  # such a case has the error of its clients
        assert answer.headers["content-type"] == ("application/json" if is_compatible else "application/problem+json")
        assert (answer.json()["error"] if is_compatible else answer.json())["code"]
        assert len(answer.content) <= LARGEST_PROBLEM_BYTES
        assert services.requests == [] or "freshness" in answer.text  # the adapter checks it
