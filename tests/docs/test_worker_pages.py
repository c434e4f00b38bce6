"""The pages about the index and the worker show the code's messages, metrics, settings and outcomes."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import rows_of, sessions_in, shows, text_of

from modules.llm_platform.container import build_platform, build_worker_parts
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, Filters, RagQuestion
from modules.llm_platform.domain.telemetry.metrics import PREFIX, WORKER_METRICS
from modules.llm_platform.infrastructure.index import payloads
from modules.llm_platform.infrastructure.index.qdrant import server as qdrant_server
from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder
from modules.llm_platform.presentation.cli.commands import index as index_command
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.presentation.kafka.worker.clients import REQUIRED_CONSUMER, REQUIRED_PRODUCER, check_config
from shared.config import Settings, SettingsError

INDEXING, SCALING = "docs/howto/index-documents.md", "docs/howto/scale-out-workers.md"
TENANTS, QDRANT = "docs/howto/several-tenants.md", "docs/howto/qdrant-server.md"
DELIVERY = "docs/explanation/delivery.md"


def json_lines(page: str) -> str:
    """Return the documents that the page shows."""
    found = re.findall(r"```json\n(.*?)```", text_of(page), re.S)[0]
    assert all(json.loads(line) for line in found.splitlines())
    return str(found)


def test_another_embedder_is_refused_in_these_words() -> None:
    """A reader who searches for the message finds the page."""
    there = Collection(name="documents", embedder=WordllamaEmbedder.name, dimension=256)
    wanted = Collection(name="documents", embedder="none", dimension=0)
    assert payloads.make_embedder_mismatch(there, wanted).message in text_of(INDEXING)


def test_what_took_anothers_place_is_told_in_these_words() -> None:
    """A reader who searches for the line finds the page."""
    assert index_command.DISPLACED.format(2) in text_of(INDEXING)


def test_a_setting_that_breaks_the_promise_is_refused_in_these_words() -> None:
    """The page quotes the error. Each setting that the explanation names is checked."""
    with pytest.raises(SettingsError) as refused:
        check_config({"acks": 1})
    assert f"llm-platform: {refused.value}" in text_of(SCALING)
    named = re.findall(
        r"`([a-z.]+)`", text_of(DELIVERY).partition("start with values for")[2].partition("other properties")[0]
    )
    assert len(named) == 4
    assert set(named) <= {**REQUIRED_CONSUMER, **REQUIRED_PRODUCER}.keys()


def test_what_a_server_is_said_to_do_wrong() -> None:
    """The table of messages contains every message about a Qdrant server."""
    table = {row[0] for row in rows_of(QDRANT)}
    said = {qdrant_server.NO_ANSWER, qdrant_server.NOT_QDRANT, qdrant_server.TOO_SLOW}
    assert said | {payloads.no_collection("documents").message} <= table


def test_every_metric_is_in_the_table() -> None:
    """The table has every worker metric and no other metric."""
    cells = [row[0] for row in rows_of(SCALING)]
    named = {name for cell in cells if cell.startswith("`") for name in re.findall(r"`(\w+)`", cell)}
    assert named == {metric.name.removeprefix(f"{PREFIX}worker_") for metric in WORKER_METRICS}


async def test_documents_as_lines_are_found_by_their_fields(tmp_path: Path) -> None:
    """The indexed line of the page matches its own filters and no other filter."""
    (tmp_path / "lines.jsonl").write_text(json_lines(INDEXING), "utf-8")
    settings = Settings(LLM_PLATFORM_DATA_DIR=tmp_path / "data")
    async with build_platform(settings) as platform:
        assert [step async for step in platform.indexing.index([tmp_path])]
        expected: list[tuple[Filters, bool]] = [
            ({"team": ("tax",), "tags": ("uk", "other")}, True),
            ({"source": ("nowhere",)}, False),
            ({"lang": ("en",), "tags": ("2026",)}, True),
        ]
        for filters, answered in expected:
            question = RagQuestion(question="What is the basic rate?", filters=filters)
            assert (await platform.answers.answer(question)).answered is answered


async def test_a_tenant_gets_what_is_shown(tmp_path: Path) -> None:
    """Both requests of the page go through the worker's handler."""
    (tmp_path / "tenants.jsonl").write_text(json_lines(TENANTS), "utf-8")
    settings = Settings(LLM_PLATFORM_DATA_DIR=tmp_path / "data", KAFKA_TENANT_FIELD="tenant")
    async with build_platform(settings) as platform:
        assert [step async for step in platform.indexing.index([tmp_path])]
    sessions: list[tuple[str, Any]] = sessions_in(TENANTS)
    assert len(sessions) == 2
    async with build_worker_parts(settings) as parts:
        for command, shown in sessions:
            message = shlex.split(command)[-1].encode()
            outcome = await parts.handler.handle(IncomingRecord("rag_search_request", 0, 0, None, message))
            assert shows(shown, outcome.value.decode()), outcome.value
