"""Deep answers and reports run further search rounds for what their sources leave open, on the wired platform."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from modules.llm_platform import (
    ResearchRequest,
    ResearchResponse,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.application.research.events import Done, ResearchEvent, RoundStarted
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceLine, StopReason
from modules.llm_platform.domain.exceptions import SourceNotHeldError, WebSearchBlockedError
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.testing import FakeLLM
from shared.config import Settings

QUESTION = "Which waterfall is in the country where the Bubye River is found?"
RIVER = WebSearchResultItem(title="Bubye River", url="doc:river", snippet="The Bubye River is found in Zimbabwe.")
FALLS = WebSearchResultItem(
    title="Victoria Falls", url="doc:falls", snippet="Victoria Falls is a waterfall in the country Zimbabwe."
)
COUNTRY = WebSearchResultItem(title="Zimbabwe", url="doc:zimbabwe", snippet="Zimbabwe is a country in Africa.")


class World(IWebSearchProvider):
    """Finds the river for every query, and `further` if the query names the country.

    Queries that contain a `refused` word fail.
    """

    name = "documents"

    def __init__(
        self, *items: WebSearchResultItem, further: WebSearchResultItem = FALLS, refused: Iterable[str] = ()
    ) -> None:
        self._items, self._further = items or (RIVER,), further
        self._refused = tuple(refused)
        self.queries: list[str] = []

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.queries.append(request.query)
        if any(word in request.query for word in self._refused):
            raise WebSearchBlockedError("quota")
        results = (*self._items, *([self._further] if "Zimbabwe" in request.query else []))
        return WebSearchResponse(query=request.query, results=results, provider="documents")


class WebWorld(World):
    """Returns the same results as web pages, because a report over documents is not stored."""

    name = "searxng"

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        found = await super().search(request)
        results = tuple(
            item.model_copy(update={"url": item.url.replace("doc:", "https://example.invalid/")})
            for item in found.results
        )
        return found.model_copy(update={"results": results, "provider": self.name})


async def asked(world: World, query: str = QUESTION, **fields: Any) -> tuple[ResearchResponse, list[ResearchEvent]]:
    settings = Settings(_env_file=None)
    async with build_platform(settings, {IWebSearchProvider: world}) as platform:
        request = ResearchRequest(query=query, **({"depth": "deep", "language": "en"} | fields))
        events = [event async for event in platform.research.stream(request)]
    done = events[-1]
    assert isinstance(done, Done)
    return done.response, events


@pytest.mark.parametrize("depth", ["deep", "report"])
async def test_what_the_first_search_reveals_is_searched_for(depth: str) -> None:
    """Names found in the first search are searched for.

    The answer quotes both results, and the event and the metadata contain the round.
    """
    answer, events = await asked(World(), depth=depth)
    supported = [
        answer.synthesis[found.start : found.end] for found in answer.citations if found.verdict == "supported"
    ]
    assert any("Zimbabwe" in sentence and "Bubye" in sentence for sentence in supported)
    assert any("Victoria Falls" in sentence for sentence in supported)
    [begun] = [event for event in events if isinstance(event, RoundStarted)]
    assert (begun.number, begun.of, begun.open) == (1, 1 if depth == "deep" else 2, (QUESTION,))
    assert begun.describe().startswith(f"round 1 of {begun.of} searches")
    assert any("Zimbabwe" in query for query in begun.queries)
    assert "waterfall" in begun.why
    assert [(row.question, row.state) for row in begun.evidence] == [(QUESTION, "partly")]
    metadata = answer.metadata
    assert (metadata.rounds, metadata.open_questions, metadata.stopped) == (1, (), "answered")


@pytest.mark.parametrize(("depth", "rounds"), [("shallow", None), ("deep", 0), ("report", 0)])
async def test_a_shallow_run_and_one_without_rounds_search_once(depth: str, rounds: int | None) -> None:
    """A run without rounds has no round event and no stop reason."""
    answer, events = await asked(World(), depth=depth, rounds=rounds)
    assert (answer.metadata.rounds, answer.metadata.stopped, answer.metadata.open_questions) == (0, None, ())
    assert not any(isinstance(event, RoundStarted) for event in events)


async def test_a_question_that_is_answered_at_once_makes_no_extra_search() -> None:
    """A question that is answered at once makes the same searches as a run without rounds."""
    question = "In which country is the Bubye River found?"
    text = "The Bubye River is found in the country Zimbabwe."
    first, further = (
        World(RIVER.model_copy(update={"snippet": text})),
        World(RIVER.model_copy(update={"snippet": text})),
    )
    await asked(first, question, rounds=0)
    answer, _ = await asked(further, question)
    assert sorted(further.queries) == sorted(first.queries)
    assert (answer.metadata.rounds, answer.metadata.stopped) == (0, "answered")


async def test_at_most_four_searches_a_round() -> None:
    """A passage with many names still causes at most four searches in a round."""
    names = ", ".join(f"{name} District" for name in ("Alba", "Berra", "Corda", "Delma", "Estra", "Fenra", "Galto"))
    world = World(RIVER.model_copy(update={"snippet": f"The Bubye River is found near {names}."}))
    _, events = await asked(world)
    [begun] = [event for event in events if isinstance(event, RoundStarted)]
    assert len(begun.queries) == 4
    assert world.queries[-4:] == list(begun.queries)


async def test_a_run_ends_when_there_is_nothing_new_to_search_for() -> None:
    """A passage that names nothing new causes no further search."""
    answer, _ = await asked(World(RIVER.model_copy(update={"snippet": "The Bubye River is found in a country."})))
    assert (answer.metadata.rounds, answer.metadata.stopped) == (0, "nothing_new")
    assert answer.metadata.open_questions == (QUESTION,)


async def test_a_report_stops_when_a_round_closes_no_word() -> None:
    """Names found in a round are not followed if the round closed no open word."""
    named = RIVER.model_copy(
        update={"snippet": "The Bubye River is found in Alba, Berra, Corda, Delma, Estra and Fenra."}
    )
    answer, _ = await asked(World(named), depth="report", rounds=4)
    assert answer.metadata.rounds == 1
    assert answer.metadata.stopped in ("nothing_new", "no_gain")


@pytest.mark.parametrize("depth", ["deep", "report"])
async def test_a_refusal_ends_the_rounds(depth: str) -> None:
    """When a provider refuses, at most two queries are under way.

    Later queries are not sent, and the answer is written.
    """
    names = "Alba District, Berra District, Corda District and Delma District"
    world = World(RIVER.model_copy(update={"snippet": f"The Bubye River is found in {names}."}), refused=("District",))
    answer, _ = await asked(world, depth=depth)
    assert sum("District" in query for query in world.queries) <= 2
    assert (answer.metadata.rounds, answer.metadata.stopped) == (1, "refused")
    assert answer.synthesis


@pytest.mark.parametrize(
    ("reason", "world", "fields"),
    [
        ("answered", World(), {}),
        ("nothing_new", World(RIVER.model_copy(update={"snippet": "The Bubye River is found in a country."})), {}),
        ("refused", World(refused=("Zimbabwe",)), {}),
        ("rounds", World(further=COUNTRY), {"rounds": 1}),
    ],
)
async def test_a_report_says_why_its_search_ended(reason: StopReason, world: World, fields: dict[str, Any]) -> None:
    """A report ends with one sentence, in its language, on why the search ended.

    Offsets and verdicts refer to the text above it.
    """
    answer, _ = await asked(world, depth="report", language="de", **fields)
    assert answer.metadata.stopped == reason
    *_, last = answer.synthesis.split("\n\n")
    assert last == get_messages("de").get_stop_message(reason)
    assert all(citation.end <= len(answer.synthesis) - len(last) for citation in answer.citations)


async def test_a_deep_answer_says_why_its_search_ended_only_if_it_does_not_answer() -> None:
    """The note follows only the closest passages. An answer with citations has no note."""
    open_answer, _ = await asked(World(), "Which gardener planted the hedge of Quoxberg?")
    assert open_answer.synthesis.endswith(get_messages("en").get_stop_message("no_gain"))
    answer, _ = await asked(World())
    assert get_messages("en").get_stop_message("answered") not in answer.synthesis


HOSTILE = (
    "The Bubye River is found in Zimbabwe.evil.com and !Guardian and Site:evil.example and Http://evil.example/Steal?d=1.",
    "The Bubye River is found -Zimbabwe !!g Inurl:evil and ads\u202eEvil\x07 @Evil.example.com.",
)


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_address_operator_or_control_character_of_a_page_reaches_a_query(text: str) -> None:
    """A page can suggest names to search for, but no address, operator or control character."""
    world = World(RIVER.model_copy(update={"snippet": text}))
    await asked(world)
    for query in world.queries:
        assert not any(sign in query for sign in ("://", "!", ":", "@", "\u202e", "\x07", "evil.", "Evil.", ".evil"))
        assert not any(word.startswith("-") for word in query.split())
        assert len(query) <= 200


SLOW = [{"name": "fake", "kind": "ollama", "model": "small"}]  # settings of the fake model


async def with_model(line: str, **values: Any) -> tuple[ResearchResponse, World, FakeLLM]:
    world, llm = World(RIVER.model_copy(update={"snippet": "The Bubye River is found near Alba."})), FakeLLM([line])
    async with build_platform(
        Settings(_env_file=None, **values), {IWebSearchProvider: world, ILLMProvider: llm}
    ) as platform:
        answer = await platform.research.research(ResearchRequest(query=QUESTION, language="en", depth="deep"))
    return answer, world, llm


async def test_a_model_adds_queries_to_those_of_the_rules_with_one_call() -> None:
    """The model's query is searched in addition to the queries of the rules, and its call is counted."""
    answer, world, llm = await with_model("Query: Zimbabwe waterfall of the Bubye River")
    further = [request for request in llm.requests if "Find what is missing" in request.messages[0].content]
    assert len(further) == 1
    assert "Zimbabwe waterfall of the Bubye River" in world.queries
    assert any(query.startswith("Alba") for query in world.queries)
    assert answer.metadata.llm_calls == len(llm.requests)


async def test_a_large_model_ends_the_rounds_and_a_local_one_does_not() -> None:
    """A small model too often reports that nothing is missing, so its word does not end the rounds."""
    large, _, _ = await with_model("Query: none")
    assert (large.metadata.rounds, large.metadata.stopped) == (0, "answered")
    local, world, asked_model = await with_model("Query: none", LLM_PROVIDERS=[{**SLOW[0], "kind": "vllm"}])
    assert any("Find what is missing" in request.messages[0].content for request in asked_model.requests)
    assert local.metadata.rounds == 1
    assert any(query.startswith("Alba") for query in world.queries)


async def test_a_slow_model_only_writes_a_deep_answer() -> None:
    """Rules plan its searches and its further round, and the support model is loaded for its text."""
    answer, world, llm = await with_model("The Bubye River is near Alba [1].", LLM_PROVIDERS=SLOW)
    assert len(llm.requests) == answer.metadata.llm_calls == 1
    assert answer.metadata.rounds == 1
    assert any(query.startswith("Alba") for query in world.queries)


@pytest.mark.parametrize("depth", ["deep", "report"])
async def test_the_ledger_of_a_run_can_be_read_afterwards(depth: str) -> None:
    """The ledger has one line for each quote: the verbatim text, its source number and the round that found it."""
    async with build_platform(Settings(_env_file=None), {IWebSearchProvider: World()}) as platform:
        answer = await platform.research.research(ResearchRequest(query=QUESTION, language="en", depth=depth))
        lines = await platform.research.list_evidence(answer.metadata.request_id)
        with pytest.raises(SourceNotHeldError):
            await platform.research.list_evidence(answer.metadata.request_id, owner="another")
    assert {(line.question, line.state) for line in lines} == {(QUESTION, "answered")}
    found = {line.source.url: line for line in lines if line.source}
    assert found["doc:river"].quote == RIVER.snippet
    assert (found["doc:river"].round, found["doc:falls"].round) == (0, 1)
    numbers = {source.url: source.index for source in answer.sources}
    assert {line.source.index for line in lines if line.source} == set(numbers.values())
    assert [row.question for row in answer.evidence] == [QUESTION]


async def test_a_shallow_run_keeps_no_ledger() -> None:
    """Reading the ledger of a shallow run returns an empty ledger and no error."""
    async with build_platform(Settings(_env_file=None), {IWebSearchProvider: World()}) as platform:
        answer = await platform.research.research(ResearchRequest(query=QUESTION, language="en"))
        assert await platform.research.list_evidence(answer.metadata.request_id) == ()


async def test_a_stored_report_keeps_its_ledger() -> None:
    """A second request, answered from the store, has the same ledger."""
    async with build_platform(Settings(_env_file=None), {IWebSearchProvider: WebWorld()}) as platform:
        request = ResearchRequest(query=QUESTION, language="en", depth="report")
        first = await platform.research.research(request)
        second = await platform.research.research(request)
        lines = await platform.research.list_evidence(second.metadata.request_id)
    assert second.metadata.stored_at is not None
    assert second.evidence == first.evidence != ()
    assert [line.quote for line in lines] == [quote.text for row in first.evidence for quote in row.quotes]


async def test_an_archive_carries_the_rounds_and_the_ledger(tmp_path: Path) -> None:
    """An imported report is the same on another machine without a network: the text with the stop reason, the rounds,
    and the quotes with their rounds.
    """
    request = ResearchRequest(query=QUESTION, language="en", depth="report")
    archive = tmp_path / "archive.zip"

    async def made(
        folder: str, world: World, *, offline: bool
    ) -> tuple[ResearchResponse, list[RoundStarted], tuple[EvidenceLine, ...]]:
        settings = Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path / folder, LLM_PLATFORM_OFFLINE=offline)
        async with build_platform(settings, {IWebSearchProvider: world}) as platform:
            if offline:
                assert (await platform.store.import_(archive)).added
            events = [event async for event in platform.research.stream(request)]
            done = events[-1]
            assert isinstance(done, Done)
            if not offline:
                await platform.store.export(archive)
            lines = await platform.research.list_evidence(done.response.metadata.request_id)
        begun = [event.model_copy(update={"request_id": ""}) for event in events if isinstance(event, RoundStarted)]
        return done.response, begun, lines

    answer, begun, lines = await made("here", WebWorld(), offline=False)
    world = WebWorld()
    replayed, replayed_rounds, replayed_lines = await made("there", world, offline=True)
    assert world.queries == []
    assert replayed.metadata.stored_at is not None
    assert replayed_rounds == begun != []
    assert replayed_lines == lines != ()
    assert (replayed.synthesis, replayed.evidence, replayed.citations) == (
        answer.synthesis,
        answer.evidence,
        answer.citations,
    )
    metadata = replayed.metadata
    assert (metadata.rounds, metadata.stopped, metadata.open_questions) == (1, "answered", ())


def falls(number: int) -> WebSearchResultItem:
    return WebSearchResultItem(
        title=f"Falls {number}", url=f"doc:{number}", snippet=f"Waterfall {number} is a waterfall."
    )


async def test_the_best_results_of_the_first_search_stay_first() -> None:
    """Results of further rounds follow the best results of the first search."""
    items = (falls(1), falls(2), RIVER)
    first, _ = await asked(World(*items), rounds=0)
    answer, _ = await asked(World(*items))
    assert answer.metadata.rounds == 1
    urls = [[found.url for found in (response.raw_results or ())] for response in (first, answer)]
    assert urls[1][:2] == urls[0][:2]
    assert set(urls[1][2:4]) == {"doc:river", "doc:falls"}


BRIDGE = "How long is the Meridian bridge?"
SHORT, LONG = (f"The Meridian bridge is {metres} metres long in total." for metres in (480, 512))


@pytest.mark.parametrize("llm", [None, FakeLLM(["The Meridian bridge is long [1]."])])
async def test_a_report_shows_sources_that_disagree_side_by_side_with_dates_and_voices(llm: FakeLLM | None) -> None:
    """Conflicting sources are shown once, in the text or else at its end, and in the ledger."""
    items = [
        WebSearchResultItem(title=f"Bridge {number}", url=f"doc:{number}", snippet=text, published_date=date)
        for number, (text, date) in enumerate([(SHORT, "2024-05-01"), (LONG, "2021-02-03"), (LONG, "2022-02-03")])
    ]
    ports: dict[type, object] = {IWebSearchProvider: World(*items)} | ({ILLMProvider: llm} if llm else {})
    async with build_platform(Settings(_env_file=None), ports) as platform:
        answer = await platform.research.research(ResearchRequest(query=BRIDGE, language="en", depth="report"))
    lines = [line for line in answer.synthesis.splitlines() if "independent sources" in line]
    assert {line[line.index(" metres") - 3 : line.index(" metres")]: line[line.index("(20") :] for line in lines} == {
        "480": "(2024-05-01; independent sources: 1)",
        "512": "(2021-02-03; independent sources: 1)",
    }
    assert len(lines) == 2
    [row] = [row for row in answer.evidence if row.question == BRIDGE]
    assert {(quote.text, quote.published, quote.voices) for quote in row.quotes[:2]} == {
        (SHORT, "2024-05-01", 1),
        (LONG, "2021-02-03", 1),
    }


async def test_a_report_ends_with_what_stayed_open_and_where_it_was_looked_for() -> None:
    """The note has one sentence for the open questions and one for the queries, whatever punctuation ends a question.

    The last paragraph gives the stop reason.
    """
    answer, events = await asked(World(), "Which gardener planted the hedge of Quoxberg?", depth="report")
    begun = [event for event in events if isinstance(event, RoundStarted)]
    note, stopped = answer.synthesis.split("\n\n")[-2:]
    assert stopped == get_messages("en").get_stop_message("no_gain")
    assert "Which gardener planted the hedge of Quoxberg. " in note
    assert all(query in note for event in begun for query in event.queries)
