"""Which parts of a report are stored, and which stored parts are reused."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.support.report_world import Asked, ReportModel, Web, World, answer_of, laws_of_events, some_pages, store

from modules.llm_platform.application.research.report import checkpoint_store
from modules.llm_platform.application.research.report.report_key import EXCLUDED_OPTIONS
from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.application.research.report.stored_report import StoredReport
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import RankedSummaries
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.research.store_key import make_topic
from modules.llm_platform.infrastructure.stores.research_runs.disk import NoResearchStore

NEVER_S = 3600.0
PATIENCE_S = 60.0  # limit on a busy machine


# --- the store ------------------------------------------------------------------------------------------------------------


async def test_report_with_omit_raw_is_stored_with_results(tmp_path: Path) -> None:
    """`omit_raw` affects the response and not the store. A later request without it gets the results."""
    world = World(Web(some_pages()), ReportModel(), store(tmp_path))
    assert answer_of(await world.events(omit_raw=True)).raw_results is None
    again = answer_of(await world.events())
    assert again.metadata.cache_hit
    assert again.raw_results
    assert answer_of(await world.events(omit_raw=True)).raw_results is None


def _other_value(default: Any) -> Any:
    """Return a value that is not the default, of the same type."""
    if isinstance(default, tuple):
        return (*default, "en")
    return not default if isinstance(default, bool) else default + 1


@pytest.mark.parametrize("option", [field.name for field in fields(ReportOptions)])
async def test_a_report_of_other_options_is_not_replayed(tmp_path: Path, option: str) -> None:
    """Unless the key leaves the option out: a new option is part of it."""
    default = getattr(ReportOptions(), option)
    other = ReportOptions(**{option: _other_value(default)})
    kept = store(tmp_path)
    assert not answer_of(await World(Web(some_pages()), ReportModel(), kept).events()).metadata.stored_at
    again = answer_of(await World(Web(some_pages()), ReportModel(), kept, other).events())
    assert bool(again.metadata.stored_at) == (option in EXCLUDED_OPTIONS)


async def test_report_over_documents_is_not_replayed(tmp_path: Path) -> None:
    """With DOCUMENTS_BASE_URL a document has a web address, so the reader decides whether a source is a document."""
    world = World(Asked(reader="documents"), ReportModel(), store(tmp_path))
    first = answer_of(await world.events())
    assert len((first.raw_results or ())[0].content) > 60  # the whole text, not the snippet
    assert not answer_of(await world.events()).metadata.stored_at


@pytest.mark.parametrize("model", [ReportModel(), None], ids=["model", "quotes"])
async def test_a_finished_report_over_documents_is_listed_as_finished(
    tmp_path: Path, model: ReportModel | None
) -> None:
    """The store says that it ended, and holds nothing of its answer: the files may change."""
    kept = store(tmp_path)
    world = World(Asked(reader="documents"), model, kept)
    await world.events()
    (topic,) = await kept.topics()
    assert topic.finished
    await world.events()
    (again,) = await kept.topics()
    assert (again.finished, again.entries) == (True, topic.entries)
    assert not await kept.values(make_topic(topic.query), "answers", StoredReport)


async def test_a_report_over_documents_that_its_limits_cut_is_not_finished(tmp_path: Path) -> None:
    """A limit left out parts of the report, so a request with higher limits continues it."""
    kept = store(tmp_path)
    await World(Asked(reader="documents"), ReportModel(), kept).events(max_llm_calls=1)
    assert [topic.finished for topic in await kept.topics()] == [False]


async def test_degraded_search_is_reported_after_a_restart(tmp_path: Path) -> None:
    """A report made from results that were stored while an engine was blocked says so."""
    hole = Degraded(component="searxng/google", reason="captcha")
    await World(Asked((hole,)), ReportModel(), store(tmp_path)).events()
    later = World(Asked(), ReportModel(), store(tmp_path))
    answer = answer_of(await later.events(instructions="Short."))
    assert later.web.searched == []
    assert hole in answer.degraded


async def test_identical_concurrent_reports_are_equal(tmp_path: Path) -> None:
    """In one process on one topic, both reports have the same text, and a third request replays it."""
    worlds = [World(Web(some_pages()), ReportModel(delay_s=0.01), store(tmp_path)) for _ in range(2)]
    both = await asyncio.gather(*(world.events() for world in worlds))
    assert len({answer_of(events).synthesis for events in both}) == 1
    for events in both:
        laws_of_events(events)
    third = World(Web({}, down=True), ReportModel(), store(tmp_path))
    assert answer_of(await third.events()).metadata.cache_hit


async def test_without_a_store_a_report_is_made_each_time() -> None:
    """STORE_TTL_DAYS=0: nothing is kept, nothing is replayed."""
    world = World(Web(some_pages()), ReportModel(), NoResearchStore())
    await world.events()
    assert not answer_of(await world.events()).metadata.cache_hit
    assert world.calls()["write"] == 2


async def test_hanging_store_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is disabled once for the whole run. The report is returned, and says so."""
    monkeypatch.setattr(checkpoint_store, "STORE_TIMEOUT_S", 0.05)

    class Hanging(NoResearchStore):
        async def get(self, *args: object) -> None:  # type: ignore[override]
            await asyncio.sleep(NEVER_S)

    events = await asyncio.wait_for(World(Web(some_pages()), ReportModel(), Hanging()).events(), PATIENCE_S)
    assert [entry.component for entry in answer_of(events).degraded] == ["store"]


async def test_damaged_stored_report_is_made_again(tmp_path: Path) -> None:
    """An imported ranking of summaries that fits nothing is no ranking."""

    class Odd(NoResearchStore):
        async def get(self, topic, stage, key, kind):  # type: ignore[no-untyped-def,override]
            return RankedSummaries(urls=(), scores=()) if stage == "ranked_summaries" else None

    world = World(Web(some_pages(12)), ReportModel(), Odd(), ReportOptions(pages=7))
    assert answer_of(await world.events()).citations


async def test_stored_results_name_no_document() -> None:
    """What an archive brought is a stranger's: no `doc:` address of a web search is read, no odd scheme."""

    class Carried(NoResearchStore):
        async def get(self, topic, stage, key, kind):  # type: ignore[no-untyped-def,override]
            if kind is not WebSearchResponse:
                return None
            urls = ("doc:secret.md", "file:///etc/passwd", "https://good.example/")
            items = tuple(WebSearchResultItem(title="Heat pumps", url=url, snippet="Heat pumps.") for url in urls)
            return WebSearchResponse(query="q", results=items, provider="searxng")

    web = Web(some_pages())
    await World(web, ReportModel(), Carried()).events()
    assert web.searched == []
    assert web.read_urls == ["https://good.example/"]
