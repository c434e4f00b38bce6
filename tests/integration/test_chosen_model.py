"""A request can choose one of the configured language models. Every call of its run then uses this model only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.chat_server import ChatServer, Reply, answer, completion

from modules.llm_platform import LLMPlatform, LLMRequestError, PlanRequest, ResearchRequest, ResearchResponse
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import Turn
from modules.llm_platform.infrastructure.cache.from_settings import SharedState
from shared.config import Settings

QUESTION = "When do barn owls hunt mice?"
CHOSEN = "second/large"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"when": {"type": "string"}}, "required": ["when"]}


class Two(NamedTuple):
    """Two language models that record their requests, and a platform with both."""

    first: ChatServer
    second: ChatServer
    platform: LLMPlatform

    def calls(self) -> tuple[int, int]:
        """Return the chat requests of both models since the last call."""
        counts = tuple(
            sum("chat" in request.target for request in server.asked) for server in (self.first, self.second)
        )
        self.first.asked.clear()
        self.second.asked.clear()
        return counts[0], counts[1]

    def plan_first(self) -> None:
        """Answer the first request of each model with two questions."""
        plan = answer(completion('["When do barn owls hunt?", "Where do barn owls hunt mice?"]'))
        for server in (self.first, self.second):
            server.replies = (plan, *server.replies)

    async def research(self, **wishes: Any) -> ResearchResponse:
        return await self.platform.research.research(ResearchRequest.model_validate({"query": QUESTION, **wishes}))


@asynccontextmanager
async def two_models(folder: Path, *second: Reply, **values: Any) -> AsyncIterator[Two]:
    documents = folder / "documents"
    documents.mkdir(exist_ok=True)
    (documents / "owls.md").write_text("# Owls\n\nBarn owls hunt mice at night, in open land.\n")
    texts = (answer(completion(f"By the {name}: barn owls hunt mice at night [1].")) for name in ("first", "second"))
    first, usual = texts
    async with ChatServer(first).running() as one, ChatServer(*second or (usual,)).running() as two:
        listed = [
            {"name": "first", "kind": "openai", "model": "small", "api_key": "key-of-first", "base_url": one.url},
            {"name": "second", "kind": "openai", "model": "large", "api_key": "key-of-second", "base_url": two.url},
        ]
        settings = {
            "LLM_PROVIDERS": json.dumps(listed),
            "LLM_STAGES": {"plan": "first", "write": "first", "judge": "first"},
            "DOCUMENTS_DIR": documents,
            "LLM_PLATFORM_DATA_DIR": folder / "data",
            "EMBEDDER": "none",
            **values,
        }
        async with build_platform(Settings(_env_file=None, **settings)) as platform:
            yield Two(one, two, platform)


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_every_stage_calls_the_chosen_model(tmp_path: Path, depth: str) -> None:
    """Planning, ranking, writing, judging and schema filling use the chosen model and ignore LLM_STAGES.

    Without a choice LLM_STAGES applies.
    """
    async with two_models(tmp_path, CITATION_JUDGE="all") as models:
        chosen = await models.research(depth=depth, model=CHOSEN, output_schema=SCHEMA)
        first, second = models.calls()
        assert (first, second > 1) == (0, True)
        assert (chosen.metadata.synthesizer, "By the second" in chosen.synthesis) == (CHOSEN, True)
        usual = await models.research(depth=depth)
        first, second = models.calls()
        assert first > 0
        assert usual.metadata.synthesizer == "first/small"


async def test_a_schema_is_filled_by_the_model_of_its_stage(tmp_path: Path) -> None:
    """The model that LLM_STAGES names fills the schema. The first model writes the text."""
    async with two_models(tmp_path, LLM_STAGES={"output": "second"}) as models:
        found = await models.research(output_schema=SCHEMA)
        first, second = models.calls()
    assert (first, second > 0) == (1, True)
    assert found.metadata.synthesizer == "first/small"


async def test_a_follow_up_is_understood_by_the_chosen_model(tmp_path: Path) -> None:
    async with two_models(tmp_path) as models:
        history = (Turn(question="What do barn owls eat?", answer="Mice."),)
        found = await models.research(query="And when do they hunt them?", history=history, model=CHOSEN)
        assert found.metadata.llm_calls == 2
        assert models.calls() == (0, 2)


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_no_answer_of_another_model_is_reused(tmp_path: Path, depth: str) -> None:
    """Caches and the store keep texts and plans of different models apart, and reuse those of the same model."""
    async with two_models(tmp_path) as models:
        texts = [(await models.research(depth=depth, model=name)).synthesis for name in ("first/small", CHOSEN, CHOSEN)]
        assert ("By the first" in texts[0], "By the second" in texts[1]) == (True, True)
        assert texts[1] == texts[2]
        assert models.calls()[0] > 0
        await models.research(depth=depth, model=CHOSEN)
        assert models.calls()[0] == 0


async def test_models_share_no_entry_of_a_shared_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a Redis cache shared by replicas, plans and texts of one model are not used in runs of another model."""
    caches: dict[str, Any] = {}
    make = SharedState.cache
    monkeypatch.setattr(SharedState, "cache", lambda shared, name, of: caches.setdefault(name, make(shared, name, of)))
    async with two_models(tmp_path) as models:
        models.plan_first()
        await models.research(depth="deep", model="first/small")
        first = models.calls()
        await models.research(depth="deep", model=CHOSEN)
        second = models.calls()
        await models.research(depth="deep", model=CHOSEN)
        again = models.calls()
    assert first[0] > 1
    assert second == (0, first[0])
    assert again == (0, 0)


async def test_equal_concurrent_runs_share_their_model_calls(tmp_path: Path) -> None:
    """Of two equal concurrent runs one calls the model, and both return its answer."""
    async with two_models(tmp_path) as models:
        models.plan_first()
        await models.research(depth="deep", model=CHOSEN)
        _, alone = models.calls()
        await asyncio.gather(*(models.research(depth="deep", model="first/small") for _ in range(2)))
        assert models.calls() == (alone, 0)


async def test_no_other_model_replaces_the_chosen_one(tmp_path: Path) -> None:
    """If the chosen model fails, the answer consists of quotes and reports the failure."""
    async with two_models(tmp_path, Reply((b"{}",), status=400)) as models:
        found = await models.research(model=CHOSEN)
        assert models.calls()[0] == 0
    assert found.metadata.synthesizer == "extractive"
    assert any("second" in entry.reason for entry in found.degraded)


@pytest.mark.parametrize("name", ["second/other", "large", "second", "http://127.0.0.1:1/v1", "FIRST/SMALL"])
async def test_another_model_is_refused_before_anything_is_spent(tmp_path: Path, name: str) -> None:
    """Every interface refuses an address or an unknown model. The error names the field and the configured models."""
    async with two_models(tmp_path) as models:
        request = ResearchRequest(query=QUESTION, model=name)
        with pytest.raises(LLMRequestError) as refused:
            await models.platform.research.research(request)
        assert (refused.value.field, refused.value.status_code) == ("model", 422)
        assert str(refused.value.message).endswith("choose one of first/small, second/large")
        with pytest.raises(LLMRequestError):
            await anext(models.platform.research.stream(request))
        with pytest.raises(LLMRequestError):
            await models.platform.research_jobs.submit(request)
        with pytest.raises(LLMRequestError):
            await models.platform.research.plan(PlanRequest(query=QUESTION, model=name))
        assert models.calls() == (0, 0)


async def test_a_background_run_keeps_its_model(tmp_path: Path) -> None:
    """The stored request contains the model."""
    async with two_models(tmp_path) as models:
        jobs = models.platform.research_jobs
        job = await jobs.submit(ResearchRequest(query=QUESTION, model=CHOSEN))
        async for _ in jobs.events(job.id, owner=""):
            pass  # until it ends
        done = await jobs.get(job.id, owner="")
        assert done.response is not None
        assert done.response.metadata.synthesizer == CHOSEN
        assert done.request.model == CHOSEN
        assert models.calls() == (0, 1)


async def test_a_plan_is_made_by_the_chosen_model_and_with_the_context(tmp_path: Path) -> None:
    """A question that depends on its context is rewritten before it is planned."""
    plan = answer(completion("Question: When do barn owls hunt?\nQuestion: Which mice live in open land?"))
    standalone = answer(completion("Standalone: When do barn owls hunt mice?"))
    async with two_models(tmp_path, standalone, plan) as models:
        asked = PlanRequest(query="When do they hunt?", context="Barn owls eat mice. When do they hunt?", model=CHOSEN)
        made = await models.platform.research.plan(asked)
        assert models.calls() == (0, 2)
    assert (made.query, made.standalone_query) == ("When do they hunt?", "When do barn owls hunt mice?")
    assert made.planner == CHOSEN
    assert made.questions == ("When do barn owls hunt?", "Which mice live in open land?")


async def test_the_only_model_may_be_named(tmp_path: Path) -> None:
    """Naming the only model uses the same cache entries as naming none."""
    async with ChatServer(answer(completion("Barn owls hunt mice at night [1]."))).running() as server:
        (tmp_path / "owls.md").write_text("# Owls\n\nBarn owls hunt mice at night.\n")
        settings = Settings(
            _env_file=None,
            LLM_BASE_URL=server.url,
            LLM_MODEL="small",
            DOCUMENTS_DIR=tmp_path,
            EMBEDDER="none",
            LLM_PLATFORM_DATA_DIR=tmp_path / "data",
        )
        async with build_platform(settings) as platform:
            for name in (None, "openai/small"):
                found = await platform.research.research(ResearchRequest(query=QUESTION, model=name))
                assert found.metadata.synthesizer == "openai/small"
            assert found.metadata.cache_hit


async def test_without_a_model_none_can_be_chosen(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path, LLM_PLATFORM_OFFLINE=True)
    async with build_platform(settings) as platform:
        with pytest.raises(LLMRequestError, match="leave model out, or set LLM_API_KEY"):
            await platform.research.research(ResearchRequest(query=QUESTION, model="openai/small"))
