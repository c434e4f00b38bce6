"""A small fictional web and a scripted model for tests of reports, in memory and with every call counted."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modules.llm_platform.application.research import structured_output
from modules.llm_platform.application.research.check import judge
from modules.llm_platform.application.research.check.judge import LLMCitationJudge
from modules.llm_platform.application.research.events import Done, ResearchEvent
from modules.llm_platform.application.research.find import plan_prompt, round_queries
from modules.llm_platform.application.research.follow_up import FollowUps
from modules.llm_platform.application.research.pipelines import ResearchPipelines
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.quick_tools import QuickTools
from modules.llm_platform.application.research.report import queries, rank, summarize
from modules.llm_platform.application.research.report.reporter import Reporter
from modules.llm_platform.application.research.report.run import ReportOptions, ReportTools
from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.application.services.web_search_service import WebSearchService
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest, LLMResponse, LLMStreamPart, LLMToken, Spending, Usage
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.exceptions import PageBlockedError, WebSearchConnectionError
from modules.llm_platform.domain.ports.key_lock import NO_KEY_LOCK, IKeyLock
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.research_store import IResearchStore
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.cache.memory import MemoryCache
from modules.llm_platform.infrastructure.stores.research_runs.disk import DiskResearchStore, NoResearchStore
from modules.llm_platform.testing import sample_page

QUESTION = "How do heat pumps work in cold winters?"
SUB_QUESTIONS = ("How does a heat pump work?", "How do heat pumps do in cold winters?", "What do heat pumps cost?")
PROMPTS: Mapping[LLMStage, str] = {
    "plan": plan_prompt.REPORT_PROMPT,
    "queries": queries.PROMPT,
    "rank": rank.RULES,
    "summarize": summarize.RULES,
    "judge": judge.RULES,
    "output": structured_output.RULES,
}
STAGES: tuple[LLMStage, ...] = ("plan", "queries", "rank", "summarize", "write", "judge")  # without a schema
REWORDED = "Heat is moved by heat pumps [1]. They work in the cold [2]."  # there are claims to judge
_LISTED = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


def stage_of(request: LLMRequest) -> LLMStage:
    """Return the stage of a prompt, by the words before its first field."""
    text = request.messages[0].content
    if text.startswith(round_queries.PROMPT.partition("{")[0]):
        return "queries"
    return next((stage for stage, prompt in PROMPTS.items() if text.startswith(prompt.partition("{")[0])), "write")


class ReportModel(ILLMProvider):
    """Answers every stage as a good model would. `marks` gives the mark of a title; `failing` stages raise what they map to;
    `verdict` is what it says of a claim.
    """

    def __init__(
        self,
        marks: Callable[[str], int] = lambda title: 5,
        failing: Mapping[LLMStage, Exception] | None = None,
        delay_s: float = 0.0,
        delays: Mapping[LLMStage, float] | None = None,
        text: str = "Heat pumps move heat [1]. They work in the cold [2].",
        verdict: Callable[[str], str] = lambda claim: "supported",
    ) -> None:
        self.name, self.model = "scripted", "scripted-1"
        self.asked: list[LLMStage] = []
        self.requests: list[LLMRequest] = []
        self.text = text
        self._verdict = verdict
        self._marks, self._failing, self._delay_s, self._delays = marks, failing or {}, delay_s, delays or {}

    async def generate(self, request: LLMRequest) -> LLMResponse:
        stage = stage_of(request)
        self.asked.append(stage)
        self.requests.append(request)
        await asyncio.sleep(self._delays.get(stage, self._delay_s))
        if stage in self._failing:
            raise self._failing[stage]
        usage = Usage(prompt_tokens=100, completion_tokens=10)
        spent = Spending(calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.001)
        content = self._answer(stage, request)
        return LLMResponse(content=content, provider=self.name, model=self.model or "", usage=usage, spent=spent)

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        answer = await self.generate(request)
        for line in answer.content.splitlines(keepends=True):
            yield LLMToken(text=line)
        yield answer

    def _answer(self, stage: LLMStage, request: LLMRequest) -> str:
        prompt = request.messages[-1].content
        if stage == "plan":
            return "\n".join(f"ПОДЗАПРОС: {question}" for question in SUB_QUESTIONS)
        if stage == "queries":
            if "Topic: " not in prompt:  # of a further round
                return "Query: none"
            topic = prompt.rpartition("Topic: ")[2].splitlines()[0]
            return f"ЗАПРОС: {topic} explained"
        if stage == "rank":
            return json.dumps([[int(n), title[:12], *[self._marks(title)] * 5] for n, title in _LISTED.findall(prompt)])
        if stage == "judge":
            pairs = [json.loads(line) for line in prompt.splitlines() if line.startswith("[")]
            return json.dumps([[number, self._verdict(claim)] for number, claim, *_ in pairs])
        if stage == "output":
            return json.dumps({"summary": self.text})
        return "The page says that heat pumps move heat." if stage == "summarize" else self.text


class Web(IWebSearchProvider, IPageReader):
    """`pages` maps an address to its title; each query finds all that `finds` names for it, else every page.

    An address in `walled` cannot be read. `searched` and `read_urls` hold what was asked for.
    """

    def __init__(
        self,
        pages: Mapping[str, str],
        finds: Callable[[str], Sequence[str]] | None = None,
        walled: Sequence[str] = (),
        down: bool = False,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self.name = "web"
        self.searched: list[str] = []
        self.read_urls: list[str] = []
        self.pages, self._finds, self._walled, self.down, self._texts = pages, finds, walled, down, texts or {}

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.searched.append(request.query)
        if self.down:
            raise WebSearchConnectionError
        urls = self._finds(request.query) if self._finds else list(self.pages)
        items = tuple(
            WebSearchResultItem(title=self.pages[url], url=url, snippet=f"About {self.pages[url]}.", source="web")
            for url in urls[: request.count]
        )
        return WebSearchResponse(query=request.query, results=items, provider=self.name)

    async def read(self, url: str) -> Page:
        self.read_urls.append(url)
        if url in self._walled:
            raise PageBlockedError
        title = self.pages.get(url, "A page")
        text = self._texts.get(
            url, f"# {title}\n\nHeat pumps move heat. They work in the cold. {title} says so at {url}."
        )
        return sample_page(url, text, title)


def laws_of_events(events: Sequence[ResearchEvent]) -> None:
    """The laws of docs/reference/http.md: started first; planned before searched; sources before a token; the text is the
    tokens since the last reset; done or failed last, and once.
    """
    kinds = [event.type for event in events]
    assert kinds[0] == "started"
    assert [kind for kind in kinds if kind in ("done", "failed")] == kinds[-1:]
    assert len({event.request_id for event in events}) == 1
    for earlier, later in (
        ("planned", "searched"),
        ("planned", "ranked"),
        ("sources", "token"),
        ("read", "summarized"),
    ):
        if later in kinds:
            assert earlier in kinds[: kinds.index(later)], (earlier, later)
    text: list[str] = []
    for event in events:
        if event.type == "reset":
            text.clear()
        elif event.type == "token":
            text.append(event.text)
        elif event.type == "done":
            assert event.response.synthesis == "".join(text)


def some_pages(count: int = 8) -> dict[str, str]:
    """Return pages whose titles begin differently."""
    names = (
        "Alpha",
        "Bravo",
        "Charlie",
        "Delta",
        "Echo",
        "Foxtrot",
        "Golf",
        "Hotel",
        "India",
        "Juliett",
        "Kilo",
        "Lima",
    )
    return {
        f"https://site{n}.example/{names[n % 12].lower()}{n}": f"{names[n % 12]} on heat pumps {n}"
        for n in range(count)
    }


@dataclass
class World:
    """A research service with a fictional web that records its requests."""

    web: Web
    model: ReportModel | None = None
    store: IResearchStore = field(default_factory=NoResearchStore)
    options: ReportOptions = field(default_factory=ReportOptions)
    price: Callable[[int, int], float] | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: {"search": "web", "read": "web"})
    judging: bool = True
    stages: Sequence[LLMStage] = STAGES  # questions that the model answers
    lock: IKeyLock = NO_KEY_LOCK
    follow_ups: FollowUps = field(default_factory=lambda: FollowUps(MemoryCache(10)))

    def service(self) -> ResearchService:
        extractive = ExtractiveSynthesizer()
        search = WebSearchService(self.web)
        quick = QuickResearch(QuickTools(search, extractive, extractive))
        pipelines = ResearchPipelines(quick, self.reporter(), self.follow_ups)
        return ResearchService(pipelines, MemoryCache(100))

    def reporter(self) -> Reporter:
        return Reporter(self.make_tools())

    def make_tools(self) -> ReportTools:
        extractive = ExtractiveSynthesizer()
        llms: dict[LLMStage, ILLMProvider] = dict.fromkeys(self.stages, self.model) if self.model else {}
        return ReportTools(
            search=WebSearchService(self.web),
            pages=PageService(self.web),
            store=self.store,
            llms=llms,
            writer=lambda llm, context: LLMSynthesizer(llm, context_tokens=context) if llm else extractive,
            fallback=extractive,
            judge=(lambda llm: LLMCitationJudge(llm) if llm else None) if self.judging else None,
            labels={**self.labels, **(dict.fromkeys(STAGES, "scripted-1") if self.model else {})},
            price=self.price,
            options=self.options,
            lock=self.lock,
        )

    async def events(self, query: str = QUESTION, **request: object) -> list[ResearchEvent]:
        asked = ResearchRequest.model_validate({"query": query, "depth": "report", **request})
        return [event async for event in self.service().stream(asked)]

    def calls(self) -> Counter[str]:
        return Counter(self.model.asked) if self.model else Counter()


def store(folder: Path) -> DiskResearchStore:
    return DiskResearchStore(folder / "store", 30.0)


def answer_of(events: Sequence[ResearchEvent]) -> ResearchResponse:
    last = events[-1]
    assert isinstance(last, Done), last
    return last.response


class Asked(Web):
    """Records the complete requests."""

    def __init__(self, degraded: tuple[Degraded, ...] = (), reader: str = "web") -> None:
        super().__init__(some_pages())
        self.requests: list[WebSearchRequest] = []
        self._degraded, self._reader = degraded, reader

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        self.requests.append(request)
        return (await super().search(request)).with_degraded(self._degraded)

    async def read(self, url: str) -> Page:
        return (await super().read(url)).model_copy(update={"reader": self._reader})
