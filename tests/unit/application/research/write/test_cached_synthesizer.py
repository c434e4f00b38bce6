"""The same request over the same sources is written once."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from tests.fakes.synthesizer import FakeSynthesizer
from tests.support.cases import for_each

from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis, SynthesisPart, SynthesisToken
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import LLMConnectionError
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.infrastructure.cache.memory import MemoryCache

SOURCE = Source(index=1, title="Pumps", url="https://example.org/p", text="A pump moves water.", published="2024")
CALL = Spending(calls=1, prompt_tokens=10, completion_tokens=2, cost_usd=0.5)
ORDER = SynthesisRequest("What?", (SOURCE,), "en", max_tokens=9)


def writer(**script: object) -> FakeSynthesizer:
    return FakeSynthesizer("Water [1].", spent=CALL, **script)  # type: ignore[arg-type]


def cached(
    inner: FakeSynthesizer, ttl_s: float = 60, version: str = "1", cache: MemoryCache[Synthesis] | None = None
) -> SharedSynthesizer:
    return SharedSynthesizer(inner, cache or MemoryCache(10), ttl_s, version)


async def write(synthesizer: SharedSynthesizer, **changed: object) -> Synthesis:
    return await synthesizer.synthesize(replace(ORDER, **changed))  # type: ignore[arg-type]


async def collect(synthesizer: SharedSynthesizer, **changed: object) -> list[SynthesisPart]:
    return [part async for part in synthesizer.stream(replace(ORDER, **changed))]  # type: ignore[arg-type]


@for_each("first_streamed", [False, True])
@for_each("then_streamed", [False, True])
async def test_a_hit_is_marked_and_costs_nothing(first_streamed: bool, then_streamed: bool) -> None:
    """Streamed or not, the second answer equals the first one, with `cached` set and no cost."""
    inner = writer()
    synthesizer = cached(inner)
    first = (await collect(synthesizer))[-1] if first_streamed else await write(synthesizer)
    parts = (
        await collect(synthesizer) if then_streamed else [SynthesisToken(text="Water [1]."), await write(synthesizer)]
    )
    assert isinstance(first, Synthesis)
    assert not first.cached
    assert parts == [SynthesisToken(text="Water [1]."), first.model_copy(update={"cached": True, "spent": Spending()})]
    assert len(inner.calls) == 1


CHANGED_FIELDS: dict[str, object] = {
    "question": "Which?",
    "language": "de",
    "max_tokens": 10,
    "instructions": "Short.",
    "context": "I live in Oslo.",
    "questions": ("Why?",),
    "sources": (),
    "asks_in_doubt": False,
    "evidence": (
        EvidenceRow(question="Why?", quotes=(EvidenceQuote(url="https://a.example", title="A", text="So."),)),
    ),
}
CHANGES = [
    *({name: value} for name, value in CHANGED_FIELDS.items()),
    *(
        {"sources": (SOURCE.model_copy(update=change),)}
        for change in (
            {"index": 2},
            {"url": "https://example.org/q"},
            {"text": "Else."},
            {"title": "Else"},
            {"published": None},
        )
    ),
]


def test_each_field_of_the_request_is_changed_once() -> None:
    """A field that is new is in this table too. Whether a text is streamed does not shape it."""
    assert CHANGED_FIELDS.keys() == {field.name for field in fields(SynthesisRequest)} - {"is_streamed"}


@for_each("change", CHANGES)
async def test_every_field_of_the_request_is_part_of_the_key(change: dict[str, object]) -> None:
    """A request with one other field is not a hit."""
    inner = writer()
    synthesizer = cached(inner)
    await write(synthesizer)
    assert not (await write(synthesizer, **change)).cached
    assert len(inner.calls) == 2


async def test_version_and_writer_are_part_of_the_key() -> None:
    """A new prompt or model does not get the old answers."""
    cache: MemoryCache[Synthesis] = MemoryCache(10)
    await write(cached(writer(), cache=cache))
    assert not (await write(cached(writer(), version="2", cache=cache))).cached
    assert not (await write(cached(writer(name="other"), cache=cache))).cached
    assert (await write(cached(writer(), cache=cache))).cached


@for_each("script", [{"finish_reason": "length"}, {"degraded": (Degraded(component="x", reason="y"),)}])
@for_each("streamed", [False, True])
async def test_incomplete_texts_are_not_cached(script: dict[str, object], streamed: bool) -> None:
    """A cut text, or one with degraded entries, is written again."""
    synthesizer = cached(writer(**script))
    for _ in range(2):
        written = (await collect(synthesizer))[-1] if streamed else await write(synthesizer)
        assert isinstance(written, Synthesis)
        assert not written.cached


async def test_failures_are_not_cached() -> None:
    """The error is raised, and the next call reaches the writer."""
    inner = writer(error=LLMConnectionError())
    synthesizer = cached(inner)
    for _ in range(2):
        with pytest.raises(LLMConnectionError):
            await write(synthesizer)
        with pytest.raises(LLMConnectionError):
            await collect(synthesizer)
    assert len(inner.calls) == 4


async def test_a_ttl_of_zero_disables_the_cache() -> None:
    """The cache is neither read nor written."""
    cache: MemoryCache[Synthesis] = MemoryCache(10)
    await write(cached(writer(), cache=cache))
    inner = writer()
    synthesizer = cached(inner, ttl_s=0, cache=cache)
    assert not (await write(synthesizer)).cached
    assert len(await collect(synthesizer)) == 3
    assert len(inner.calls) == 2


async def test_an_entry_expires_after_its_ttl() -> None:
    """`ttl_s` seconds later the writer is called again."""
    now = [0.0]
    cache: MemoryCache[Synthesis] = MemoryCache(10, clock=lambda: now[0])
    synthesizer = cached(writer(), ttl_s=60, cache=cache)
    await write(synthesizer)
    now[0] = 59.0
    assert (await write(synthesizer)).cached
    now[0] = 60.0
    assert not (await write(synthesizer)).cached


async def test_the_name_is_that_of_the_writer() -> None:
    """For metadata and `degraded`."""
    assert cached(writer(name="kimi")).name == "kimi"


async def test_the_version_of_the_writer_is_part_of_the_key() -> None:
    """Texts of older rules are not returned."""
    cache: MemoryCache[Synthesis] = MemoryCache(10)
    old, new = writer(), writer()
    new.version = "2"
    assert cached(new).version == "2"
    await write(cached(old, cache=cache))
    await write(cached(new, cache=cache))
    assert len(new.calls) == 1


@pytest.mark.parametrize("ttl_s", [0, 60])
async def test_sub_questions_reach_the_writer(ttl_s: float) -> None:
    """With the cache and without it."""
    inner = writer()
    await write(cached(inner, ttl_s), questions=("Why?",))
    await collect(cached(inner, ttl_s), questions=("Why?",))
    assert [call.questions for call in inner.calls] == [("Why?",)] * 2
