"""The doctor checks every configured upstream, and explains each problem."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.fakes.citation_judge import FakeCitationJudge
from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore
from tests.support.cases import for_each

from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.application.research.check.judge_trial import make_labelled_pairs
from modules.llm_platform.application.services.doctor_service import (
    NO_INDEX,
    NOT_TRIED,
    DoctorService,
    IndexCheck,
    SearchProviderCheck,
)
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim, ModelVerdict
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import (
    EmbeddingError,
    LLMConfigError,
    LLMConnectionError,
    WebSearchConfigError,
    WebSearchError,
)
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

HIT = WebSearchResultItem(title="t", url="https://example.org")
FINE = WebSearchResponse(query="q", results=(HIT,))


class Engine(IWebSearchProvider):
    """A search provider with a ping; an exception among its answers is raised."""

    def __init__(
        self,
        name: str = "engine",
        ping: str | AppException = "",
        answer: WebSearchResponse | AppException = FINE,
        wait_s: float = 0,
    ) -> None:
        self.name, self._ping, self._answer, self._wait_s = name, ping, answer, wait_s
        self.searched = 0
        self.sources: tuple[str, ...] = ()

    async def ping(self) -> str:
        await asyncio.sleep(self._wait_s)
        if isinstance(self._ping, AppException):
            raise self._ping
        return self._ping

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.searched += 1
        self.sources = request.sources
        if isinstance(self._answer, AppException):
            raise self._answer
        return self._answer


class Model(ILLMProvider):
    """A language model without a ping."""

    def __init__(self, answer: LLMResponse | AppException) -> None:
        self.name, self._answer = "model", answer
        self.asked = 0

    async def generate(self, request: LLMRequest) -> LLMResponse:
        self.asked += 1
        if isinstance(self._answer, AppException):
            raise self._answer
        return self._answer

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        yield await self.generate(request)


class Clock:
    """Half a second passes between two looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


def doctor(
    *searches: SearchProviderCheck, models: tuple[ILLMProvider, ...] = (), deadline_s: float = 5.0
) -> DoctorService:
    return DoctorService(searches, models, deadline_s=deadline_s, clock=Clock())


async def test_a_healthy_engine_is_tried_with_a_search() -> None:
    """A successful ping is not enough, so one small search checks for results."""
    engine = Engine(ping="/healthz answers")
    found = await doctor(SearchProviderCheck(engine)).examine()
    assert found == (CheckResult("engine", "ok", "/healthz answers; a search took 500 ms"),)
    assert engine.searched == 1


class ByKind(Engine):
    """A provider whose answer depends on the kind of source, and on the engines that are named."""

    def __init__(self, answers: dict[str, WebSearchResponse | AppException], ping: str = "") -> None:
        super().__init__(ping=ping)
        self._answers = answers
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.asked.append((request.sources, request.engines))
        self._answer = self._answers.get(",".join(request.engines) or request.sources[0], FINE)
        return await super().search(request)


async def test_each_kind_of_source_is_tried_by_itself() -> None:
    """Engines for the web that answer do not hide that those for news are all blocked."""
    engine = ByKind({"news": WebSearchError("all engines are blocked")}, ping="reachable")
    found = await doctor(SearchProviderCheck(engine, sources=("web", "news", "academic"))).examine()
    assert [sources for sources, _ in engine.asked] == [("web",), ("news",), ("academic",)]
    assert [(result.subject, result.verdict) for result in found] == [
        ("engine", "ok"),
        ("engine web", "ok"),
        ("engine news", "failed"),
        ("engine academic", "ok"),
    ]


class Listed(ByKind):
    """A provider that lists the engines of its service."""

    def __init__(
        self, lists: tuple[EngineListCheck, ...] | AppException, answers: dict[str, WebSearchResponse | AppException]
    ) -> None:
        super().__init__(answers)
        self._lists = lists

    async def engine_lists(self) -> tuple[EngineListCheck, ...]:
        if isinstance(self._lists, AppException):
            raise self._lists
        return self._lists


NOT_WELL = FINE.with_degraded([Degraded(component="engine/brave", reason="captcha")])


@for_each(
    ("check", "verdict", "text"),
    [
        (
            EngineListCheck("web", "ENGINES_WEB", ("gogle", "bingg"), missing=("gogle", "bingg"), on=("ddg", "brave")),
            "failed",
            "ENGINES_WEB: the instance does not have gogle and bingg; engines that answer: ENGINES_WEB=ddg",
        ),
        (
            EngineListCheck("web", "ENGINES_WEB", ("google", "ddg"), off=("google",), on=("ddg", "brave")),
            "warning",
            "ENGINES_WEB: the instance has disabled google (used only when named); engines that answer: ENGINES_WEB=ddg",
        ),
        (
            EngineListCheck("web", "ENGINES_WEB", ("x", "ddg"), missing=("x",)),
            "warning",
            "ENGINES_WEB: the instance does not have x",
        ),
    ],
)
async def test_engine_list_is_compared_with_the_instance(check: EngineListCheck, verdict: str, text: str) -> None:
    """What is missing or off is named, with a list of engines that answered a search there."""
    engine = Listed((check, EngineListCheck("news", "ENGINES_NEWS", ("n",), on=("n",))), {"ddg,brave": NOT_WELL})
    found = await doctor(SearchProviderCheck(engine, sources=("web", "news"))).examine()
    assert found[3:] == (CheckResult("engine web", verdict, text),)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [WebSearchError("blocked"), WebSearchResponse(query="q")], ids=["fails", "empty"])
async def test_no_list_is_proposed_that_does_not_answer(answer: WebSearchResponse | AppException) -> None:
    """Engines that are on and find nothing are no remedy."""
    check = EngineListCheck("web", "ENGINES_WEB", ("x", "y"), missing=("x",), on=("ddg",))
    found = await doctor(SearchProviderCheck(Listed((check,), {"ddg": answer}), sources=("web", "news"))).examine()
    assert found[-1].text == "ENGINES_WEB: the instance does not have x"


async def test_a_service_that_does_not_list_its_engines_is_a_warning() -> None:
    """The searches were tried anyway."""
    engine = Listed(WebSearchError("does not tell its engines"), {})
    found = await doctor(SearchProviderCheck(engine, sources=("web", "news"))).examine()
    assert found[-1] == CheckResult("engine", "warning", "does not tell its engines")
    assert [result.verdict for result in found[:-1]] == ["ok"] * 3


async def test_a_ping_that_fails_is_the_cause() -> None:
    """The adapter's message is the diagnosis, and no further check is made."""
    engine = Engine(ping=WebSearchConfigError("JSON is not enabled: add json to search.formats"))
    (finding,) = await doctor(SearchProviderCheck(engine)).examine()
    assert finding == CheckResult("engine", "failed", "JSON is not enabled: add json to search.formats")
    assert engine.searched == 0


async def test_a_search_that_fails_is_a_failure() -> None:
    """What a ping cannot see a search does."""
    (finding,) = await doctor(SearchProviderCheck(Engine(answer=WebSearchError("all engines are blocked")))).examine()
    assert finding == CheckResult("engine", "failed", "all engines are blocked")


async def test_failure_of_an_unconfigured_provider_is_a_warning() -> None:
    """A failed provider that was not configured is only a warning."""
    patient = SearchProviderCheck(Engine(answer=WebSearchError("no network")), configured=False)
    (finding,) = await doctor(patient).examine()
    assert finding.verdict == "warning"


async def test_engines_that_did_not_answer_are_warnings() -> None:
    """Each failed part has its own line."""
    answer = FINE.with_degraded([Degraded(component="engine/google", reason="captcha")])
    found = await doctor(SearchProviderCheck(Engine(answer=answer))).examine()
    assert [finding.verdict for finding in found] == ["ok", "warning"]
    assert found[1] == CheckResult("engine/google", "warning", "captcha")


@pytest.mark.parametrize(("expects_results", "verdict"), [(True, "warning"), (False, "ok")])
async def test_finding_nothing_is_odd_for_an_engine_and_not_for_a_folder(expects_results: bool, verdict: str) -> None:
    """Every engine finds an everyday word; a folder need not hold it."""
    patient = SearchProviderCheck(Engine(answer=WebSearchResponse(query="q")), expects_results=expects_results)
    (finding,) = await doctor(patient).examine()
    assert finding.verdict == verdict


async def test_money_is_spent_only_when_allowed() -> None:
    """A paid search and a model's answer wait for `spend`."""
    engine, model = Engine(ping="key is set"), Model(LLMResponse(content="ready", provider="p", model="m"))
    service = doctor(SearchProviderCheck(engine, paid=True), models=(model,))
    assert await service.examine() == (
        CheckResult("engine", "ok", f"key is set; {NOT_TRIED}"),
        CheckResult("model", "ok", NOT_TRIED),
    )
    assert (engine.searched, model.asked) == (0, 0)
    found = await service.examine(spend=True)
    assert (engine.searched, model.asked) == (1, 1)
    assert found[1].text.startswith("m answered in")


async def test_a_model_that_fails_says_why() -> None:
    """The cause is the adapter's."""
    (finding,) = await doctor(models=(Model(LLMConfigError("the key is wrong: set KIMI_API_KEY")),)).examine(spend=True)
    assert finding == CheckResult("model", "failed", "the key is wrong: set KIMI_API_KEY")


async def test_hanging_provider_does_not_delay_the_others() -> None:
    """All checks run concurrently with separate deadlines."""
    hanging = SearchProviderCheck(Engine("hangs", wait_s=60))
    found = await doctor(hanging, SearchProviderCheck(Engine("well")), deadline_s=0.05).examine()
    assert [(finding.subject, finding.verdict) for finding in found] == [("hangs", "failed"), ("well", "ok")]
    assert "within 0.05 s" in found[0].text


async def of_the_index(
    embedder: HashEmbedder, *, spend: bool = False, exists: bool = True, paid: bool = False
) -> CheckResult:
    store = MemoryVectorStore()
    await store.prepare(Collection(name="documents", embedder=embedder.name, dimension=embedder.dimension))
    patient = IndexCheck(RetrievalService(embedder, store, "documents", top_k=5), exists=exists, paid=paid)
    (found,) = await DoctorService((), (), index=patient, clock=Clock()).examine(spend=spend)
    return found


async def test_an_index_is_tried_with_its_embedder() -> None:
    """A collection that can be read is no use when nothing embeds the questions: words alone would hide that."""
    word = f"collection documents, by {HashEmbedder().name}"
    assert await of_the_index(HashEmbedder()) == CheckResult("index", "ok", f"{word}; a search took 500 ms")
    broken = HashEmbedder(error=EmbeddingError("nothing answers: is it running?"))
    assert await of_the_index(broken) == CheckResult("index", "failed", "nothing answers: is it running?")
    assert await of_the_index(broken, paid=True) == CheckResult("index", "ok", f"{word}; {NOT_TRIED}")
    assert (await of_the_index(broken, paid=True, spend=True)).verdict == "failed"


async def test_no_index_is_no_failure() -> None:
    """The report explains how to build an index."""
    assert await of_the_index(HashEmbedder(), exists=False) == CheckResult("index", "ok", NO_INDEX)


class Store:
    """A shared store: `ping` returns `status`, or raises `error`."""

    name = "redis"

    def __init__(self, error: AppException | None = None, status: str = "connected") -> None:
        self._error, self._status = error, status

    async def ping(self) -> str:
        if self._error is not None:
            raise self._error
        return self._status


@pytest.mark.parametrize(
    ("error", "expected"), [(None, ("ok", "connected")), (AppException("start Redis"), ("failed", "start Redis"))]
)
async def test_store_has_a_line(error: AppException | None, expected: tuple[str, str]) -> None:
    """A configured store is checked; its error has the remedy."""
    (result,) = await DoctorService((), (), stores=[Store(error)]).examine()
    assert (result.subject, result.verdict, result.text) == ("redis", *expected)


async def test_store_without_a_status_has_words_too() -> None:
    """The file of background runs has none: a blank line would leave open whether it was looked at."""
    (result,) = await DoctorService((), (), stores=[Store(status="")]).examine()
    assert (result.verdict, result.text) == ("ok", "it can be used")


JUDGED = {pair.sentence.rstrip(".!?。 "): pair.label for pair in make_labelled_pairs()}


def knowing(claim: CitedClaim) -> ModelVerdict | None:
    return JUDGED.get(claim.claim.rstrip(".!?。 "))  # type: ignore[return-value]


@for_each(
    ("judge", "verdict", "advice"),
    [
        (FakeCitationJudge(knowing), "ok", "set CITATION_JUDGE=report to use it"),
        (FakeCitationJudge("unsupported"), "warning", "set CITATION_JUDGE=off"),
        (FakeCitationJudge(lambda claim: None), "warning", "no verdict on"),
        (FakeCitationJudge(error=LLMConnectionError("down")), "failed", "down"),
    ],
)
async def test_a_judge_is_recommended_only_if_it_is_better_than_the_lexical_check(
    judge: ICitationJudge, verdict: str, advice: str
) -> None:
    """The judge is measured on labelled pairs of the package, and the result has both scores."""
    result = await DoctorService((), (), judge=judge).measure_judge()
    assert (result.subject, result.verdict) == ("judge/fake", verdict)
    assert advice in result.text
    assert ("by the word comparison alone" in result.text) == (verdict != "failed")


async def test_without_a_model_no_judge_is_measured() -> None:
    """Words verify the citations, and nothing is asked."""
    assert (await DoctorService((), ()).measure_judge()).verdict == "ok"


def test_the_pairs_have_all_verdicts_and_several_languages() -> None:
    """There are enough pairs of each verdict to detect a judge that always answers the same."""
    pairs = make_labelled_pairs()
    assert len(pairs) == 40
    assert all(sum(pair.label == label for pair in pairs) >= 6 for label in ("supported", "partial", "unsupported"))
    assert len({pair.language for pair in pairs}) >= 3
