"""Finished reports from an imported archive: the replay contains nothing that a report made here could not contain."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.report_world import QUESTION, ReportModel, Web, World, answer_of, laws_of_events, some_pages

from modules.llm_platform.application.research.events import (
    Done,
    Failed,
    FoundResult,
    ModelProgressed,
    Planned,
    Ranked,
    RankedResult,
    Read,
    ResearchEvent,
    Reset,
    RoundStarted,
    Searched,
    SourcesNumbered,
    Started,
    Token,
    _Event,
)
from modules.llm_platform.application.research.find.rounds import MAX_ROWS
from modules.llm_platform.application.research.report.replay import MAX_LABEL_CHARS, MAX_TEXT_CHARS, replay_events
from modules.llm_platform.application.research.report.stored_report import StoredReport
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import RawResult, Source
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore

REQUEST = ResearchRequest(query=QUESTION, depth="report")
EVIL = "https://evil.example/steal"
BAD_URLS = (
    "javascript:alert(1)",
    "file:///etc/passwd",
    "https://a.example/x y",
    "data:text/html,x",
    'https://a.example/"onclick',
)
LONG_CHARS = 50_000
LINEAR_S = 8.0  # CPU seconds; linear time takes less than half a second
Spoil = Callable[[StoredReport], StoredReport]


def spoilt_text(report: StoredReport, text: str) -> StoredReport:
    """Return the report with another text in its tokens and its answer."""
    others = [event for event in report.events[:-1] if not isinstance(event, Token)]
    done = report.events[-1]
    assert isinstance(done, Done)
    response = done.response.model_copy(update={"synthesis": text})
    token = Token(request_id="x", text=text)
    return report.model_copy(update={"events": (*others, token, done.model_copy(update={"response": response}))})


async def carried(folder: Path, spoil: Spoil) -> list[ResearchEvent]:
    """Return the events of a replay whose stored report was modified, as an imported archive might contain it."""
    store = DiskResearchStore(folder / "store", 30.0)
    topic = make_topic(QUESTION)
    await World(Web(some_pages()), ReportModel(), store).events()
    (report,) = await store.values(topic, "answers", StoredReport)
    for entry in await store.entries(topic.name):
        if entry.stage == "answers" and await store.get(topic, "answers", entry.key, StoredReport):
            await store.put(topic, "answers", entry.key, spoil(report))
    events = await World(Web({}, down=True), ReportModel(), store).events()
    laws_of_events(events)
    return events


async def test_a_modified_ledger_has_only_valid_addresses(tmp_path: Path) -> None:
    """Texts of the ledger are within their limits and printable, and its addresses can be opened."""

    def spoil(report: StoredReport) -> StoredReport:
        done = report.events[-1]
        assert isinstance(done, Done)
        quotes = tuple(
            EvidenceQuote(url=url, title=f"A\x1b[31m{'t' * LONG_CHARS}", text="q") for url in (*BAD_URLS, EVIL)
        )
        row = EvidenceRow(question=f"Which\x07{'w' * LONG_CHARS}", words=("a\x1b",), quotes=quotes)
        response = done.response.model_copy(update={"evidence": (row,) * 8})
        return report.model_copy(
            update={"events": (*report.events[:-1], done.model_copy(update={"response": response}))}
        )

    done = (await carried(tmp_path, spoil))[-1]
    assert isinstance(done, Done)
    assert 0 < len(done.response.evidence) <= 6
    for row in done.response.evidence:
        assert {quote.url for quote in row.quotes} <= {EVIL}
        texts = [row.question, *row.words, *(quote.title for quote in row.quotes)]
        assert all(len(text) <= 2000 and text.isprintable() for text in texts)


async def test_an_unmodified_report_is_replayed_unchanged(tmp_path: Path) -> None:
    """The replay of an unmodified report is identical, event for event."""
    store = DiskResearchStore(tmp_path / "store", 30.0)
    model = ReportModel(
        text="## Heat & cold\n\nHeat pumps move heat [1]. `List<int>` [2].\n\n- a < b\n\n```\n<x>\n```\n"
    )
    first = await World(Web(some_pages()), model, store).events()
    again = await World(Web({}, down=True), model, store).events()
    assert answer_of(again).metadata.stored_at
    names = {"request_id": True}
    assert [event.model_dump(exclude=names) for event in again[:-1]] == [
        event.model_dump(exclude=names) for event in first[:-1]
    ]
    assert answer_of(again).model_dump(exclude={"metadata"}) == answer_of(first).model_dump(exclude={"metadata"})


@pytest.mark.parametrize(
    "text",
    [
        f"Read more at {EVIL} now [1].",
        f"[click]({EVIL}) [1]",
        f"![x]({EVIL}?q=secret) [1]",
        f"<img src={EVIL}> [1]",
        f"[a]: {EVIL}\n\n[a] [1]",
        "<script>alert(1)</script> [1]",
        "\x1b[31mred [1]",
    ],
)
async def test_its_text_passes_the_sanitiser(text: str, tmp_path: Path) -> None:
    """Addresses of no source, links, images, markup and control characters are removed or made harmless."""
    events = await carried(tmp_path, lambda report: spoilt_text(report, text))
    shown = "".join(event.text for event in events if isinstance(event, Token))
    assert shown == answer_of(events).synthesis
    assert f"]({EVIL}" not in shown
    assert f"{EVIL} now" not in shown.replace(f"`{EVIL}`", "")
    assert "<script" not in shown
    assert "<img" not in shown
    assert "\x1b" not in shown


async def test_its_citations_are_those_of_its_text(tmp_path: Path) -> None:
    """A number of no source is removed. The citations of a changed text are checked again."""
    text = f"Heat pumps move heat [1]. Heat pumps cost 40 euros, says [everyone]({EVIL}) [2]. And so on [77]."
    events = await carried(tmp_path, lambda report: spoilt_text(report, text))
    answer = answer_of(events)
    verdicts = {citation.source_index: citation.verdict for citation in answer.citations}
    assert verdicts == {1: "supported", 2: "unsupported"}
    assert {source.index for source in answer.sources} == {1, 2}
    assert "[77]" not in answer.synthesis
    texts = {citation.source_index: answer.synthesis[citation.start : citation.end] for citation in answer.citations}
    assert texts[1] == "Heat pumps move heat"


@pytest.mark.parametrize(
    "claimed",
    [
        {"quote": "I never said that"},
        {"start": -5},
        {"end": 10**9},
        {"source_index": 9},
        {"quote_start": -1, "quote": ""},
        {"start": 7, "end": 3},
        {"checked_by": "model", "word_verdict": None},
    ],
)
async def test_an_invented_quote_is_not_replayed(claimed: dict[str, object], tmp_path: Path) -> None:
    """Wrong offsets, quotes and verdicts are computed again."""

    def forge(report: StoredReport) -> StoredReport:
        done = report.events[-1]
        assert isinstance(done, Done)
        first, *others = done.response.citations
        forged = (first.model_copy(update={"verdict": "supported", "score": 1.0, **claimed}), *others)
        response = done.response.model_copy(update={"citations": forged})
        return report.model_copy(
            update={"events": (*report.events[:-1], done.model_copy(update={"response": response}))}
        )

    honest = answer_of(await carried(tmp_path / "honest", lambda report: report))
    assert answer_of(await carried(tmp_path / "forged", forge)).citations == honest.citations


async def test_invalid_positions_and_related_questions_are_not_replayed(tmp_path: Path) -> None:
    """Positions beyond the text are corrected, and an inadmissible related question is removed."""

    def forge(report: StoredReport) -> StoredReport:
        done = report.events[-1]
        assert isinstance(done, Done)
        forged = {
            "uncited": (TextSpan(start=-3, end=10**9),),
            "related_questions": (
                f"open {EVIL}",
                "\x1b[31mred",
                QUESTION,
                "What do owls eat?",
                *(f"What of {n}?" for n in range(99)),
            ),
        }
        metadata = done.response.metadata.model_copy(update=forged)
        response = done.response.model_copy(update={"metadata": metadata})
        return report.model_copy(
            update={"events": (*report.events[:-1], done.model_copy(update={"response": response}))}
        )

    answer = answer_of(await carried(tmp_path, forge))
    assert all(0 <= span.start < span.end <= len(answer.synthesis) for span in answer.metadata.uncited)
    assert len(answer.metadata.uncited) == answer.metadata.uncited_sentences
    assert answer.metadata.related_questions == ("What do owls eat?", *(f"What of {n}?" for n in range(4)))


@pytest.mark.parametrize("url", BAD_URLS)
async def test_no_invalid_source_address_is_replayed(url: str, tmp_path: Path) -> None:
    """No event, list or held source text contains an address that is invalid for a source."""

    def poison(report: StoredReport) -> StoredReport:
        done = report.events[-1]
        assert isinstance(done, Done)
        raw = (RawResult(title="x", url=url, content="x"), *(done.response.raw_results or ()))
        first, *others = report.sources
        bad = first.model_copy(update={"url": url})
        reference = done.response.sources[0].model_copy(update={"url": url})
        response = done.response.model_copy(
            update={"raw_results": raw, "sources": (reference, *done.response.sources[1:])}
        )
        events = (
            *report.events[:-1],
            Searched(
                request_id="x",
                query="q",
                provider="x",
                count=1,
                cached=False,
                results=(FoundResult(url=url, title="x"),),
            ),
            Ranked(request_id="x", query="q", kept=(RankedResult(url=url, title="x"),)),
            Read(request_id="x", url=url, status="read", chars=1),
            Started(request_id="x"),
            Failed(request_id="x", problem={"detail": url}),
            done.model_copy(update={"response": response}),
        )
        return report.model_copy(update={"sources": (bad, *others), "events": events})

    events = await carried(tmp_path, poison)
    assert not [event for event in events if url in repr(event)]
    assert 1 not in {source.index for source in answer_of(events).sources}
    assert "[1]" not in answer_of(events).synthesis


async def test_sources_are_taken_from_the_stored_texts(tmp_path: Path) -> None:
    """The sources are those of the stored texts, whatever addresses the answer claims."""

    def rename(report: StoredReport) -> StoredReport:
        events = tuple(
            event.model_copy(
                update={"sources": tuple(source.model_copy(update={"url": EVIL}) for source in event.sources)}
            )
            if isinstance(event, SourcesNumbered)
            else event
            for event in report.events[:-1]
        )
        done = report.events[-1]
        assert isinstance(done, Done)
        sources = tuple(source.model_copy(update={"url": EVIL}) for source in done.response.sources)
        response = done.response.model_copy(update={"sources": sources, "query": "Something else entirely?"})
        return report.model_copy(update={"events": (*events, done.model_copy(update={"response": response}))})

    events = await carried(tmp_path, rename)
    assert EVIL not in repr(events)
    assert answer_of(events).query == QUESTION


def test_a_text_before_a_reset_is_sanitised_too() -> None:
    """A text before a reset is discarded, but streaming clients see it. An open ending of a failed writer is kept."""
    source = Source(index=1, title="t", url="https://a.example/", text="Heat pumps move heat.")
    response = ResearchResponse(
        query=QUESTION, depth="report", synthesis="Heat pumps move heat [1].", metadata=ResearchMetadata(latency_ms=1)
    )
    told = (
        Token(request_id="x", text="```\nopen\n"),
        Reset(request_id="x", reason="failed"),
        Token(request_id="x", text=f"[a]({EVIL}) "),
        Token(request_id="x", text="b"),
        Reset(request_id="x", reason="failed"),
        Token(request_id="x", text="Heat pumps move heat [1]."),
        Done(request_id="x", response=response),
    )
    again = replay_events(told, (source,), REQUEST, "en")
    assert again is not None
    events, _ = again
    assert events[0] == told[0]
    assert [event.type for event in events] == ["token", "reset", "token", "reset", "token", "done"]
    assert EVIL not in repr(events)


def test_an_oversized_report_is_not_replayed() -> None:
    """A report above the limits of text or events is made again."""
    done = Done(
        request_id="x",
        response=ResearchResponse(
            query=QUESTION, depth="report", synthesis="", metadata=ResearchMetadata(latency_ms=1)
        ),
    )
    token = Token(request_id="x", text="x" * (MAX_TEXT_CHARS // 2 + 1))
    assert replay_events((token, token, done), (), REQUEST, "en") is None
    assert replay_events((Planned(request_id="x", questions=()),) * 50_001 + (done,), (), REQUEST, "en") is None
    assert (
        replay_events((done,), (Source(index=1, title="t", url="https://a.example/", text=""),) * 101, REQUEST, "en")
        is None
    )


@for_each("piece", ["[", "![](", "<a ", "`", "~~~\n", "[1]", "https://a.example/", "*", "[a]: b\n", "- "])
def test_a_long_text_takes_linear_time(piece: str) -> None:
    """Text that is designed to slow a sanitiser takes linear time."""
    text = (piece * (LONG_CHARS // len(piece) + 1))[:LONG_CHARS]
    response = ResearchResponse(query=QUESTION, depth="report", synthesis=text, metadata=ResearchMetadata(latency_ms=1))
    events = (Token(request_id="x", text=text), Done(request_id="x", response=response))
    began = time.process_time()
    assert replay_events(events, (Source(index=1, title="t", url="https://a.example/", text="x"),), REQUEST, "en")
    assert time.process_time() - began < LINEAR_S


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=300), st.lists(st.tuples(*[st.integers()] * 3, st.text(max_size=20)), max_size=5))
def test_nothing_raises_and_every_citation_has_valid_offsets(
    text: str, claims: list[tuple[int, int, int, str]]
) -> None:
    """Whatever the archive contains, offsets lie in the text and the source, and markers name sources."""
    source = Source(index=1, title="t", url="https://a.example/", text="Heat pumps move heat. They work in the cold.")
    citations = tuple(
        Citation(
            start=start,
            end=end,
            source_index=index,
            quote=quote,
            quote_start=start,
            quote_end=end,
            verdict="supported",
            score=1,
        )
        for start, end, index, quote in claims
    )
    response = ResearchResponse(
        query=QUESTION, depth="report", synthesis=text, citations=citations, metadata=ResearchMetadata(latency_ms=1)
    )
    again = replay_events(
        (Token(request_id="x", text=text), Done(request_id="x", response=response)), (source,), REQUEST, "en"
    )
    assert again is not None
    answer = answer_of(again[0])
    for citation in answer.citations:
        assert 0 <= citation.start <= citation.end <= len(answer.synthesis)
        assert source.text[citation.quote_start : citation.quote_end] == citation.quote
        assert citation.source_index == 1


async def test_an_output_of_the_archive_is_not_replayed(tmp_path: Path) -> None:
    """An object is made from the sanitised text for the request that asks for it."""

    def with_output(report: StoredReport) -> StoredReport:
        done = report.events[-1]
        assert isinstance(done, Done)
        response = done.response.model_copy(update={"output": {"source": EVIL}})
        return report.model_copy(
            update={"events": (*report.events[:-1], done.model_copy(update={"response": response}))}
        )

    events = await carried(tmp_path, with_output)
    assert isinstance(events[-1], Done)
    assert events[-1].response.metadata.stored_at is not None
    assert events[-1].response.output is None


def test_an_event_that_the_replay_does_not_know_is_refused() -> None:
    """A new kind of event is replayed only after its sanitising is written. mypy reports the missing case, and an
    unknown event ends the replay.
    """

    class Unchecked(_Event, frozen=True):
        type: str = "unchecked"
        html: str = "<script>alert(1)</script>"

    response = ResearchResponse(query=QUESTION, depth="report", synthesis="", metadata=ResearchMetadata(latency_ms=1))
    events = (Started(request_id="r"), Unchecked(request_id="r"), Done(request_id="r", response=response))
    with pytest.raises(AssertionError):
        replay_events(cast(Any, events), (), REQUEST, "en")


def test_rounds_plans_and_reads_are_bounded_and_sanitised() -> None:
    """The ledger of a round obeys the limits of the answer's ledger, and labels have at most their maximal length."""
    hostile = "a\x1b[2J\u202eb" + "x" * LONG_CHARS
    quotes = tuple(EvidenceQuote(url=url, title=hostile, text="q") for url in (*BAD_URLS, EVIL))
    row = EvidenceRow(question=hostile, words=(hostile,), quotes=quotes)
    response = ResearchResponse(query=QUESTION, depth="report", synthesis="", metadata=ResearchMetadata(latency_ms=1))
    told = (
        Planned(request_id="r", questions=(), standalone_query=hostile),
        Read(request_id="r", url="https://a.example/", status=hostile, chars=1),
        RoundStarted(request_id="r", number=1, open=(), queries=(), why=hostile, evidence=(row,) * 3000),
        Done(request_id="r", response=response),
    )
    again = replay_events(told, (), REQUEST, "en")
    assert again is not None
    planned, read, started, _ = again[0]
    assert isinstance(planned, Planned)
    assert isinstance(read, Read)
    assert isinstance(started, RoundStarted)
    assert 0 < len(started.evidence) <= MAX_ROWS
    assert {quote.url for row in started.evidence for quote in row.quotes} == {EVIL}
    titles = [quote.title for row in started.evidence for quote in row.quotes]
    words = [word for row in started.evidence for word in (row.question, *row.words)]
    labels = [planned.standalone_query or "", read.status, started.why, *titles, *words]
    assert all(label.startswith("a[2Jb") and len(label) <= MAX_LABEL_CHARS and label.isprintable() for label in labels)


def test_labels_of_events_have_no_control_characters() -> None:
    """Titles, model names and reasons are printable, because terminals show them."""
    hostile = "a\x1b[2J\u202eb"
    response = ResearchResponse(query=QUESTION, depth="report", synthesis="", metadata=ResearchMetadata(latency_ms=1))
    events = (
        Searched(
            request_id="r", query=hostile, provider=hostile, count=1, cached=False,
            results=(FoundResult(url="https://a.example", title=hostile, snippet=hostile),),
        ),
        ModelProgressed(
            request_id="r", model=hostile, phase="reading", prompt_tokens=1, completion_tokens=0, elapsed_s=1.0
        ),
        Reset(request_id="r", reason=hostile),
        Done(request_id="r", response=response),
    )  # fmt: skip
    source = Source(index=1, title=hostile, url="https://a.example", text="text")
    replayed = replay_events(events, (source,), REQUEST, "en")
    assert replayed is not None
    assert len(replayed[0]) == len(events)
    assert replayed[1][0].title == "a[2Jb"
    assert not any(sign in repr(replayed) for sign in (r"\x1b", r"\u202e"))
