"""A user's code, checked by mypy and never run: what it may rely on has types, and what is wrong is an error.

Each `type: ignore` stands for a mistake that mypy must find: strict mode reports an ignore that is not needed.
"""

from __future__ import annotations

from fastapi import FastAPI

from modules.llm_platform import (
    ILLMProvider,
    IWebSearchProvider,
    LLMPlatform,
    PlanRequest,
    ResearchPlan,
    ResearchRequest,
    ResearchResponse,
    Settings,
    WebSearchRequest,
    WebSearchResponse,
    WebSearchResultItem,
    build_platform,
    create_app,
    research_router,
)
from modules.llm_platform.testing import FakeLLM, FakeWebSearch


class Intranet(IWebSearchProvider):
    """A provider that somebody else wrote."""

    name = "intranet"

    async def search(self, request: WebSearchRequest) -> WebSearchResponse:
        item = WebSearchResultItem(title="Home", url="https://wiki.example.org/", snippet=request.query)
        return WebSearchResponse(query=request.query, results=(item,), provider=self.name)


async def search() -> list[str]:
    async with build_platform(Settings(SEARXNG_URL=("http://localhost:8080",))) as platform:
        found: WebSearchResponse = await platform.web_search.search(WebSearchRequest(query="…", count=5))
        for outcome in await platform.web_search.search_multi([WebSearchRequest(query="…")]):
            if isinstance(outcome, WebSearchResponse):
                found = outcome
        return [result.url for result in found.results]


async def research(platform: LLMPlatform) -> str:
    answer: ResearchResponse = await platform.research.research(ResearchRequest(query="…", depth="deep"))
    quotes = [citation.quote for citation in answer.citations if citation.verdict == "supported"]
    return "\n".join([answer.synthesis, *quotes])


async def report(platform: LLMPlatform) -> ResearchResponse:
    plan: ResearchPlan = await platform.research.plan(PlanRequest(query="…"))
    questions = (*plan.questions, "…")
    request = ResearchRequest(
        query="…", depth="report", plan=questions, urls=("https://…",), max_llm_calls=20, fresh=True
    )
    for topic in await platform.store.topics():
        await platform.store.clear(topic.name)
    return await platform.research.research(request)


async def tokens(platform: LLMPlatform) -> str:
    text = ""
    async for event in platform.research.stream(ResearchRequest(query="…")):
        if event.type == "token":
            text += event.text
        elif event.type == "reset":
            text = ""
        elif event.type == "done":
            assert event.response.synthesis == text
    return text


def replaced() -> LLMPlatform:
    overrides = {IWebSearchProvider: FakeWebSearch(), ILLMProvider: FakeLLM(["…"])}
    return build_platform(overrides=overrides)


def mounted(host: FastAPI, platform: LLMPlatform) -> None:
    host.mount("/llm", create_app(Settings.without_environment(SEARXNG_URL=("http://localhost:8080",))))
    host.include_router(research_router(platform), prefix="/api")


async def mistakes(platform: LLMPlatform) -> None:
    ResearchRequest(query="…", depth="deeper")  # type: ignore[arg-type]
    WebSearchRequest(query=7)  # type: ignore[arg-type]
    await platform.web_search.search("…")  # type: ignore[arg-type]
    platform.web_search = platform.web_search  # type: ignore[misc]
    _ = Intranet().search(WebSearchRequest(query="…")).results  # type: ignore[attr-defined]
