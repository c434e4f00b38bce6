"""Answers that are sent again from their bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.research_dtos import HeldSources, ResearchMetadata, ResearchResponse
from modules.llm_platform.presentation.rest.http.repeated_answers import (
    KEY,
    MAX_KEY_BYTES,
    RepeatedAnswer,
    RepeatedAnswers,
    request_key,
)


@pytest.mark.parametrize(
    ("headers", "body"),
    [({}, b'{"query":"tea"}' + b" " * MAX_KEY_BYTES), ({b"accept": b"*/*," * MAX_KEY_BYTES}, b'{"query":"tea"}')],
)
def test_a_padded_request_is_not_stored(headers: dict[bytes, bytes], body: bytes) -> None:
    """The limit counts answers; a caller could fill the memory with one question in a megabyte of blanks, each time others."""
    answers: Any = RepeatedAnswers()
    answer: Any = RepeatedAnswer(cast("Any", None), cast("Any", None), (b"{}",))
    answers._add(request_key("/research", "", headers, body), answer)
    answers._add(request_key("/research", "", {}, b'{"query":"tea"}'), answer)
    assert [key[-1] for key in answers._answers] == [b'{"query":"tea"}']
    assert len(answers._answers) == 1


class Reads:
    """The caches that an answer came from."""

    def has(self, *kinds: type) -> bool:
        return True


class Research:
    async def held_sources(self, request_id: str, *, owner: str) -> HeldSources:
        return HeldSources(sources=())

    async def held_turns(self, request_id: str, *, owner: str) -> None:
        return None


def response(degraded: tuple[Degraded, ...] = (), **metadata: Any) -> ResearchResponse:
    described = {"latency_ms": 1, "cache_hit": True, "request_id": "r", **metadata}
    return ResearchResponse(
        query="q", depth="shallow", synthesis="Tea.", degraded=degraded, metadata=ResearchMetadata(**described)
    )


@pytest.mark.parametrize(
    ("answer", "is_stored"),
    [
        (response(), True),
        (response(cache_hit=False), False),
        (response(searches=1), False),
        (response(llm_calls=1), False),
        (response((Degraded(component="searxng", reason="captcha"),)), False),
    ],
    ids=["cached", "written", "searched", "planned", "degraded"],
)
async def test_only_a_whole_answer_from_the_caches_is_repeated(answer: ResearchResponse, is_stored: bool) -> None:
    """What failed this time may work the next time, and what was asked of a service was not free."""
    answers, platform = RepeatedAnswers(), cast("Any", SimpleNamespace(research=Research()))
    scope = {KEY: request_key("/research", "", {}, b'{"query":"tea"}')}
    await answers.add_research(scope, cast("Any", Reads()), answer, platform, "")
    assert bool(answers._answers) == is_stored
