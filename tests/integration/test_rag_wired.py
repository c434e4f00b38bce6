"""From settings to an answer: the index, the answer stage and the parts of the worker, as the container wires them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.embedder import HashEmbedder
from tests.fakes.outcome_store import MemoryOutcomeStore
from tests.fakes.synthesizer import FakeSynthesizer
from tests.fakes.vector_store import MemoryVectorStore

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.application.services.doctor_service import NO_INDEX
from modules.llm_platform.container import build_platform, build_worker_parts
from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.dtos.indexing_dtos import IndexReport
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagCitation, RagQuestion, RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    PageConfigError,
    VectorStoreConfigError,
    WebSearchConfigError,
)
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.outcome_store import IOutcomeStore
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure.models.from_settings.chat_models import list_connections
from modules.llm_platform.infrastructure.models.from_settings.embedder import _connect_embedder
from modules.llm_platform.infrastructure.models.kinds import find_configuration_error
from modules.llm_platform.infrastructure.resources import Resources
from modules.llm_platform.presentation.kafka.contract.outcomes import IncomingRecord
from modules.llm_platform.testing import FakeLLM, FakePageReader
from shared.config import Settings

OF_STORES = ("store", "background_runs", "watched_questions")  # checks that every report of the doctor contains
QUESTION = "How long does a session token stay valid?"
TEXT = "A session token stays valid for thirty minutes after the last request."
OPENAI = "https://api.openai.com/v1"
AZURE = {
    "EMBEDDER": "azure",
    "AZURE_OPENAI_ENDPOINT": "https://a.openai.azure.com",
    "AZURE_OPENAI_API_KEY": "azure-key-1",
    "EMBEDDING_MODEL": "deployed",
}

Configure = Callable[..., Settings]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    def settings(**values: Any) -> Settings:
        return Settings(**{"LLM_PLATFORM_DATA_DIR": tmp_path / "data", "EMBEDDER": "none", **values})

    return settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "sessions.md").write_text(f"# Sessions\n\n{TEXT}\n", "utf-8")
    return tmp_path / "docs"


async def index(platform: LLMPlatform, folder: Path) -> IndexReport:
    *_, report = [step async for step in platform.indexing.index([folder])]
    assert isinstance(report, IndexReport)
    return report


@pytest.mark.parametrize("embedder", ["none", "wordllama"])
async def test_what_was_indexed_answers(configure: Configure, folder: Path, embedder: str) -> None:
    """Indexing and answering work with the embedded store without a network, a key or a server."""
    async with build_platform(configure(EMBEDDER=embedder, LLM_PLATFORM_OFFLINE=True)) as platform:
        assert (await index(platform, folder)).added == 1
        answer = await platform.answers.answer(RagQuestion(question=QUESTION))
    assert answer.answer == f"{TEXT[:-1]} [1]."
    assert answer.citations == (RagCitation(doc_id="sessions.md", title="Sessions", url="doc:sessions.md"),)


async def test_a_running_server_finds_what_is_indexed_later(configure: Configure, folder: Path) -> None:
    """With SEARCH_PROVIDERS=documents and no folder, a running server uses the index as soon as it exists.

    Until then the error names both remedies.
    """
    settings = configure(SEARCH_PROVIDERS=("documents",))
    wanted = WebSearchRequest(query=QUESTION)
    async with build_platform(settings) as server:
        with pytest.raises(WebSearchConfigError, match=r"llm-platform index PATH.*DOCUMENTS_DIR"):
            await server.web_search.search(wanted)
        async with build_platform(settings) as another:
            await index(another, folder)
        assert [result.url for result in (await server.web_search.search(wanted)).results] == ["doc:sessions.md"]


async def test_the_doctor_looks_at_the_index(configure: Configure, folder: Path) -> None:
    """A missing index is not a failure. An existing index is tested with its embedder, and reported once."""
    offline = {"LLM_PLATFORM_OFFLINE": True, "EMBEDDER": "wordllama"}
    async with build_platform(configure(**offline)) as platform:
        assert CheckResult("index", "ok", NO_INDEX) in await platform.doctor.examine()
        await index(platform, folder)
    async with build_platform(configure(**offline)) as platform:
        (found,) = [check for check in await platform.doctor.examine() if check.subject not in OF_STORES]
    assert (found.subject, found.verdict) == ("index", "ok")
    assert "collection documents, by wordllama" in found.text
    async with build_platform(configure(**offline | {"EMBEDDER": "openai", "EMBEDDING_MODEL": "m"})) as platform:
        (found,) = [check for check in await platform.doctor.examine(spend=True) if check.subject not in OF_STORES]
    assert (found.subject, found.verdict) == ("index", "failed")
    assert "Offline" in found.text


async def test_each_part_can_be_replaced(folder: Path, configure: Configure) -> None:
    """The ports of the index, the model, the writer and the reader can be overridden."""
    store, llm, reader = (
        MemoryVectorStore(),
        FakeLLM([f"{TEXT[:-1]} [1]."]),
        FakePageReader({"https://a.example/": TEXT}),
    )
    overrides = {IEmbedder: HashEmbedder(), IVectorStore: store, ILLMProvider: llm, IPageReader: reader}
    async with build_platform(configure(), overrides) as platform:
        await index(platform, folder)
        answer = await platform.answers.answer(
            RagQuestion(question=QUESTION, context=(ContextItem(url="https://a.example/"),))
        )
        assert [citation.doc_id for citation in answer.citations] == [None]
        assert len(store.searches) == len(llm.requests) == len(reader.urls) == 1
    writer = FakeSynthesizer("As it is.")
    async with build_platform(configure(), {**overrides, ISynthesizer: writer}) as platform:
        assert (await platform.answers.answer(RagQuestion(question=QUESTION))).answer.startswith("As it is.")


async def test_settings_bound_an_answer(configure: Configure, folder: Path) -> None:
    """RAG_TOP_K and QDRANT_COLLECTION apply to the search and to the answer."""
    store, writer = MemoryVectorStore(), FakeSynthesizer("As it is.")
    overrides = {IEmbedder: HashEmbedder(), IVectorStore: store, ISynthesizer: writer}
    (folder / "roles.md").write_text("# Roles\n\nOnly the owner of a session token may renew it.\n", "utf-8")
    async with build_platform(configure(RAG_TOP_K=1, QDRANT_COLLECTION="wiki"), overrides) as platform:
        assert (await index(platform, folder)).collection == "wiki"
        await platform.answers.answer(RagQuestion(question=QUESTION))
        assert len((await platform.retrieval.search(RagSearch(query=QUESTION))).hits) == 1
    assert len(writer.calls[0].sources) == 1


async def test_offline_nothing_beyond_loopback_is_asked(configure: Configure, folder: Path) -> None:
    """Offline, a remote embedder falls back to keywords, a remote index to the given context, and pages are not read."""
    remote = {
        "LLM_PLATFORM_OFFLINE": True,
        "EMBEDDER": "openai",
        "EMBEDDING_MODEL": "m",
        "EMBEDDING_API_KEY": "key-12345",
    }
    async with build_platform(configure()) as platform:
        await index(platform, folder)
    async with build_platform(configure(**remote)) as platform:
        found = await platform.retrieval.search(RagSearch(query=QUESTION))
        assert [hit.doc_id for hit in found.hits] == ["sessions.md"]
        assert "Offline" in found.degraded[0].reason
        with pytest.raises(EmbeddingConfigError, match="Offline"):
            await index(platform, folder)
    async with build_platform(
        configure(LLM_PLATFORM_OFFLINE=True, QDRANT_URL="https://qdrant.example.org")
    ) as platform:
        with pytest.raises(VectorStoreConfigError, match="Offline"):
            await platform.answers.answer(RagQuestion(question=QUESTION))
        answer = await platform.answers.answer(RagQuestion(question=QUESTION, context=(ContextItem(snippet=TEXT),)))
        assert answer.answered
    async with build_platform(configure(LLM_PLATFORM_OFFLINE=True), {IVectorStore: MemoryVectorStore()}) as platform:
        with pytest.raises((PageConfigError, VectorStoreConfigError)):
            await platform.answers.answer(
                RagQuestion(question=QUESTION, context=(ContextItem(url="https://a.example/"),))
            )


@pytest.mark.parametrize(
    ("values", "address", "key"),
    [
        ({}, OPENAI, "llm-key-1"),
        ({"LLM_BASE_URL": "https://b.example/v1"}, OPENAI, ""),
        ({"LLM_BASE_URL": "http://b.test/1", "EMBEDDING_BASE_URL": "http://b.test/2"}, "http://b.test/2", "llm-key-1"),
        ({"EMBEDDING_BASE_URL": "http://localhost:1/v1"}, "http://localhost:1/v1", ""),
        ({"EMBEDDING_API_KEY": "own-key-1"}, OPENAI, "own-key-1"),
        (AZURE, "https://a.openai.azure.com", "azure-key-1"),
        ({**AZURE, "EMBEDDING_BASE_URL": "https://c.openai.azure.com"}, "https://c.openai.azure.com", ""),
    ],
)
def test_a_key_is_only_sent_to_its_service(
    configure: Configure, values: dict[str, Any], address: str, key: str
) -> None:
    """The key of the language model is also used for embeddings of the same service, and is not sent to any other
    service.
    """
    connection = _connect_embedder(configure(**{"EMBEDDER": "openai", "LLM_API_KEY": "llm-key-1", **values}))
    assert (connection.address, connection.api_key) == (address, key)
    assert "key-1" not in repr(connection)


def test_what_azure_lacks_is_named(configure: Configure) -> None:
    """The error names the Azure variables to set."""
    mistake = _connect_embedder(configure(EMBEDDER="azure")).configuration_error
    assert mistake is not None
    assert "AZURE_OPENAI_ENDPOINT and EMBEDDING_MODEL and AZURE_OPENAI_API_KEY" in mistake


def request(question: str) -> IncomingRecord:
    value = json.dumps({"request_id": "r-1", "question": question, "metadata": {"tenant": "acme"}}).encode()
    return IncomingRecord("rag_answer_request", 0, 7, b"key", value)


async def test_a_worker_answers_from_the_index_and_repeats_itself(configure: Configure, folder: Path) -> None:
    """Outcomes are kept in the data folder, so another worker on the machine returns the same bytes."""
    settings = configure()
    async with build_platform(settings) as platform:
        await index(platform, folder)
    async with build_worker_parts(settings) as parts:
        outcome = await parts.handler.handle(request(QUESTION))
        assert any("QDRANT_URL" in note for note in parts.notes)
        assert any("LLM_API_KEY" in note for note in parts.notes)
    assert json.loads(outcome.value)["citations"][0]["doc_id"] == "sessions.md"
    async with build_worker_parts(settings) as parts:
        again = await parts.handler.handle(request(QUESTION))
    assert (again.topic, again.value) == (outcome.topic, outcome.value) == ("rag_answer_result", again.value)


def test_an_embedding_key_is_no_model(configure: Configure) -> None:
    """An Azure resource with only an embedding deployment is no language model. With a chat deployment it is both."""
    assert list_connections(configure(**AZURE)) == ()
    (writer,) = list_connections(configure(**AZURE, AZURE_OPENAI_DEPLOYMENT="gpt"))
    assert (writer.name, writer.model) == ("azure", "gpt")
    (half,) = list_connections(configure(AZURE_OPENAI_API_KEY="azure-key-1"))
    assert find_configuration_error(half) == (
        "azure needs an address and a deployment: set AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT"
    )


async def test_a_worker_says_what_its_model_lacks(configure: Configure) -> None:
    """The worker reports at its start what its model lacks, before a request fails."""
    settings = configure(AZURE_OPENAI_API_KEY="azure-key-1", AZURE_OPENAI_ENDPOINT="https://a.openai.azure.com")
    async with build_worker_parts(settings, {IOutcomeStore: MemoryOutcomeStore()}) as parts:
        assert "a language model cannot be used: azure needs a deployment: set AZURE_OPENAI_DEPLOYMENT" in parts.notes


async def test_a_workers_settings_reach_its_handler(configure: Configure) -> None:
    """The message limit, the tenant field and the outcome store reach the handler."""
    outcomes = MemoryOutcomeStore()
    settings = configure(
        RAG_MAX_MESSAGE_BYTES=1000,
        KAFKA_TENANT_FIELD="team",
        QDRANT_URL="http://localhost:6333",
        LLM_API_KEY="key-12345",
        LLM_MODEL="a-model",
    )
    async with build_worker_parts(settings, {IOutcomeStore: outcomes}) as parts:
        assert parts.outcomes is outcomes
        assert parts.notes == ()
        said = [json.loads((await parts.handler.handle(request(text))).value) for text in (QUESTION, "x" * 2000)]
    assert said[0]["details"]["reason"] == "tenant_missing"


async def test_building_opens_nothing(configure: Configure, tmp_path: Path) -> None:
    """Building the platform opens no file, thread or model."""
    async with build_platform(configure(EMBEDDER="wordllama")):
        assert not (tmp_path / "data").exists()
    assert Resources(configure()).redactor is not None
