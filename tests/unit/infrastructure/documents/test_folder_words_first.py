"""folders/folder_index.py and adapters/document_web_search.py: words find a large folder first, and vectors follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.fakes.embedder import HashEmbedder
from tests.support.folder_ways import folder_index

from modules.llm_platform.application.rag import indexing
from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import EmbeddingConfigError
from modules.llm_platform.infrastructure.documents import folder_index as folder_index_module
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch
from modules.llm_platform.testing.waiting import becomes_true

PATIENCE_S = 30.0
FIRST = 1  # passages that a collection takes its mean from

Make = Callable[..., DocumentWebSearch]


class HeldEmbedder(HashEmbedder):
    """Embeds the first passages at once, and others once it may; notes how many texts it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()
        self.error: EmbeddingConfigError | None = None
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        if self.texts >= FIRST:
            await self.may.wait()
        self.texts += len(texts)
        if self.error:
            raise self.error
        return await super().embed(texts)


@pytest.fixture(autouse=True)
def much(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is, it counts as much; and the folder is looked at on every search."""
    monkeypatch.setattr(folder_index_module, "MUCH_BYTES", -1)
    monkeypatch.setattr(folder_index_module, "CHECK_ALWAYS_S", PATIENCE_S)
    monkeypatch.setattr(indexing, "MEAN_PASSAGES", FIRST)
    monkeypatch.setattr("modules.llm_platform.application.rag.embedded_batches.MEAN_PASSAGES", FIRST)
    monkeypatch.setattr("modules.llm_platform.application.rag.intake.BATCH_PASSAGES", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# Page {name}\n\nThe gateway {name} restarts.")
    return tmp_path / "docs"


@pytest.fixture
def embedder() -> HeldEmbedder:
    return HeldEmbedder()


@pytest.fixture
async def make(folder: Path, tmp_path: Path, embedder: HeldEmbedder) -> AsyncIterator[Make]:
    made: list[DocumentWebSearch] = []

    def make(**options: HashEmbedder) -> DocumentWebSearch:
        index = folder_index(folder, tmp_path / "kept", **{"embedder": embedder, **options})
        made.append(DocumentWebSearch(index))
        return made[-1]

    yield make
    for search in made:
        await search.aclose()


async def search_for(search: DocumentWebSearch, query: str = "gateway") -> WebSearchResponse:
    async with asyncio.timeout(PATIENCE_S):
        return await search.search(WebSearchRequest(query=query, count=10))


def by_words(answer: WebSearchResponse) -> bool:
    return any("vectors of the documents are not complete" in degradation.reason for degradation in answer.degraded)


def urls(answer: WebSearchResponse) -> set[str]:
    return {item.url for item in answer.results}


async def meaning(search: DocumentWebSearch) -> None:
    """Wait until vectors have been made."""
    async with asyncio.timeout(PATIENCE_S):
        while by_words(await search_for(search)):
            await asyncio.sleep(0.01)


async def test_words_answer_while_vectors_are_made(make: Make, embedder: HeldEmbedder) -> None:
    """All documents can be found, and one word says how; their pages are there too. Then meaning finds them as well."""
    search = make()
    answer = await search_for(search)
    assert urls(answer) == {"doc:a.md", "doc:b.md", "doc:c.md"}
    assert (by_words(answer), len(answer.degraded)) == (True, 1)
    assert "The gateway b restarts." in (await DocumentPageReader(search).read("doc:b.md")).text
    embedder.may.set()
    await meaning(search)
    assert urls(await search_for(search, "?! restarting")) == {"doc:a.md", "doc:b.md", "doc:c.md"}


async def test_each_passage_is_embedded_once(make: Make, embedder: HeldEmbedder) -> None:
    """What is found by words is read from the index to be embedded, and not again."""
    search = make()
    await search_for(search)
    before = embedder.texts
    embedder.may.set()
    await meaning(search)
    questions = 1
    assert (before, embedder.texts) == (FIRST, 3 + questions)


async def test_a_change_goes_first(make: Make, folder: Path, embedder: HeldEmbedder) -> None:
    """The next search finds the change by keywords, and vectors are made later."""
    search = make()
    await search_for(search)
    (folder / "a.md").write_text("The turbine hums.")
    (folder / "d.md").write_text("The turbine whistles.")
    assert urls(await search_for(search, "turbine")) == {"doc:a.md", "doc:d.md"}
    embedder.may.set()
    await meaning(search)
    assert urls(await search_for(search, "turbine")) >= {"doc:a.md", "doc:d.md"}


async def test_the_next_process_goes_on(make: Make, embedder: HeldEmbedder) -> None:
    """A command that ends before the vectors are made leaves them to the next one, which reads nothing again."""
    first = make()
    assert by_words(await search_for(first))
    await first.aclose()
    free = HeldEmbedder()
    free.may.set()
    second = make(embedder=free)
    await meaning(second)
    assert free.texts <= 3 + 1
    third = make(embedder=HeldEmbedder())
    assert third.folder
    view = await third.folder.refresh()
    assert (view.pending, view.documents) == (False, 3)


async def test_words_go_on_where_vectors_cannot_be_made(make: Make, embedder: HeldEmbedder) -> None:
    """An embedder that fails later is no reason to find nothing."""
    search = make()
    await search_for(search)
    embedder.error = EmbeddingConfigError("broken")
    embedder.may.set()
    await becomes_true(lambda: embedder.texts > FIRST, PATIENCE_S)
    for _ in range(3):
        assert urls(await search_for(search)) == {"doc:a.md", "doc:b.md", "doc:c.md"}


async def test_closing_stops_the_embedding(make: Make, embedder: HeldEmbedder) -> None:
    """No thread or task remains."""
    search = make()
    await search_for(search)
    await search.aclose()
    assert len(asyncio.all_tasks()) == 1
