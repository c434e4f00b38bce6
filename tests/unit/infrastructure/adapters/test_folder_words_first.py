"""adapters/folder_web_search.py and folder_page_reader.py: words answer while a folder is being read for meaning."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.folder_ways import folder_index

from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    PageError,
    PageTimeoutError,
    WebSearchConfigError,
    WebSearchTimeoutError,
)
from modules.llm_platform.infrastructure.adapters.document_web_search import (
    FIRST_LOOK_SECONDS,
    DocumentWebSearchAdapter,
)
from modules.llm_platform.infrastructure.adapters.folder_page_reader import FolderPageReader
from modules.llm_platform.infrastructure.adapters.folder_web_search import NO_LINES, FolderWebSearch
from modules.llm_platform.infrastructure.documents import library as library_module
from modules.llm_platform.infrastructure.documents.library import DocumentLibrary
from modules.llm_platform.infrastructure.folders import folder_index as folder_index_module
from modules.llm_platform.infrastructure.folders.words_meanwhile import WordsMeanwhile
from modules.llm_platform.testing import HashEmbedder
from modules.llm_platform.testing.patience import becomes

SOON_S = 0.05
LONG_S = 60.0
PATIENCE_S = 30.0

Make = Callable[..., FolderWebSearch]


class HeldEmbedder(HashEmbedder):
    """Embeds once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()
        self.error: EmbeddingConfigError | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        await self.may.wait()
        if self.error:
            raise self.error
        return await super().embed(texts)


class Words:
    """Makes searches by words, and notes them and the files that they read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        self.libraries: list[weakref.ref[DocumentLibrary]] = []

    def __call__(self) -> DocumentWebSearchAdapter:
        self.made += 1
        library = DocumentLibrary(self.folder)
        self.libraries.append(weakref.ref(library))
        return DocumentWebSearchAdapter(self.folder, library=library)

    def in_memory(self) -> bool:
        gc.collect()
        return any(library() is not None for library in self.libraries)


@pytest.fixture(autouse=True)
def looked_at_on_every_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(folder_index_module, "FREELY_S", PATIENCE_S)
    monkeypatch.setattr(library_module, "FREELY_SECONDS", PATIENCE_S)


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
def words(folder: Path) -> Words:
    return Words(folder)


@pytest.fixture
async def make(folder: Path, tmp_path: Path, embedder: HeldEmbedder, words: Words) -> AsyncIterator[Make]:
    made: list[FolderWebSearch] = []

    def make(words_after_s: float = SOON_S, timeout: float = LONG_S) -> FolderWebSearch:
        index = folder_index(folder, tmp_path / "kept", embedder=embedder)
        made.append(FolderWebSearch(index, timeout=timeout, words=words, words_after_s=words_after_s))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


async def asked(search: FolderWebSearch, query: str = "gateway") -> WebSearchResponse:
    async with asyncio.timeout(PATIENCE_S):
        return await search.search(WebSearchRequest(query=query, count=10))


def by_words(answer: WebSearchResponse) -> bool:
    return any("found by words alone" in each.reason for each in answer.degraded)


def urls(answer: WebSearchResponse) -> set[str]:
    return {item.url for item in answer.results}


async def test_words_answer_while_it_is_read(make: Make, words: Words) -> None:
    """All documents can be found, and one word says how; their pages are there too, and what there is not is not."""
    search = make()
    answer = await asked(search)
    assert urls(answer) == {"doc:a.md", "doc:b.md", "doc:c.md"}
    assert by_words(answer)
    assert len(answer.degraded) == 1
    pages = FolderPageReader(search)
    assert "The gateway b restarts." in (await pages.read("doc:b.md")).text
    with pytest.raises(PageError, match="no such document"):
        await pages.read("doc:d.md")
    assert words.made == 1


async def test_the_next_search_finds_a_change(make: Make, folder: Path, embedder: HeldEmbedder) -> None:
    """However long its index takes: while it is read for the first time, and after it was."""
    search = make()
    (folder / "a.md").write_text("The turbine hums.")
    assert urls(await asked(search, "turbine")) == {"doc:a.md"}
    (folder / "b.md").write_text("The turbine whistles.")
    assert urls(await asked(search, "turbine")) == {"doc:a.md", "doc:b.md"}
    embedder.may.set()
    assert await becomes(lambda: not search._folder.under_way_s, PATIENCE_S)
    search._words_after_s = LONG_S
    assert not by_words(await asked(search, "turbine"))
    embedder.may.clear()
    search._words_after_s = SOON_S
    (folder / "c.md").write_text("The windmill creaks.")
    answer = await asked(search, "windmill")
    assert urls(answer) == {"doc:c.md"}
    assert by_words(answer)


async def test_once_in_step_meaning_answers_and_the_memory_is_given_back(
    make: Make, words: Words, embedder: HeldEmbedder
) -> None:
    """Whether or not somebody searches again."""
    search = make()
    assert by_words(await asked(search))
    assert words.in_memory()
    embedder.may.set()
    assert await becomes(lambda: not words.in_memory(), PATIENCE_S)
    search._words_after_s = LONG_S
    answer = await asked(search)
    assert (len(answer.results), answer.degraded) == (3, ())
    assert words.made == 1


async def test_who_still_uses_words_keeps_them(make: Make, words: Words, embedder: HeldEmbedder) -> None:
    """They are given back when the last one is done."""
    search = make()
    await asked(search)
    async with search.by_words() as used:
        embedder.may.set()
        search._words_after_s = LONG_S
        assert not by_words(await asked(search))
        assert words.in_memory()
        assert len((await used.search(WebSearchRequest(query="gateway"))).results) == 3
    del used
    assert await becomes(lambda: not words.in_memory(), PATIENCE_S)


async def test_later_searches_do_not_wait_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that has taken long already is not waited for."""
    search = make()
    await asked(search)
    waits: list[float | None] = []
    real = asyncio.timeout

    def timeout(limit_s: float | None) -> asyncio.Timeout:
        waits.append(limit_s)
        return real(limit_s)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "timeout", timeout)
        for _ in range(3):
            assert by_words(await search.search(WebSearchRequest(query="gateway")))
    assert [each for each in waits if each != FIRST_LOOK_SECONDS] == [0.0, 0.0, 0.0]


async def test_whichever_is_first_answers(make: Make, words: Words, embedder: HeldEmbedder) -> None:
    """Where words take longer than the index they are given up."""
    search = make()
    may = threading.Event()
    real = DocumentLibrary.refresh

    class Stuck(DocumentLibrary):
        def refresh(self) -> None:
            may.wait(PATIENCE_S)
            real(self)

    search._words = WordsMeanwhile(
        lambda: DocumentWebSearchAdapter(words.folder, library=Stuck(words.folder)), search._folder.held_up
    )
    searching = asyncio.create_task(asked(search))
    assert await becomes(lambda: search._words is not None and search._words.begun, PATIENCE_S)
    embedder.may.set()
    answer = await searching
    may.set()
    assert (len(answer.results), answer.degraded) == (3, ())
    assert await becomes(lambda: search._words is not None and not search._words.begun, PATIENCE_S)


async def test_a_small_folder_never_notices(make: Make, words: Words, embedder: HeldEmbedder) -> None:
    """Its index is in step before words would be asked."""
    embedder.may.set()
    answer = await asked(make(words_after_s=LONG_S))
    assert (len(answer.results), answer.degraded) == (3, ())
    assert words.made == 0


@pytest.mark.parametrize("much", [True, False])
async def test_reading_is_held_up_for_the_first_answer_only(
    make: Make, words: Words, monkeypatch: pytest.MonkeyPatch, much: bool
) -> None:
    """Both at once would take both twice as long; once words are read the index is read on, whoever searches. Where
    little has changed it is read on all the time.
    """
    if much:
        monkeypatch.setattr(folder_index_module, "MUCH_BYTES", 0)
    search = make()
    held: list[bool] = []
    assert await search.in_step_soon() is None
    for _ in range(2):
        async with search.by_words():
            held.append(not search._folder._gate._open.is_set())
    assert held == [much, False]
    assert words.made == 1


async def test_json_lines_are_missing_from_words_and_it_is_said(make: Make, folder: Path) -> None:
    """Words know files alone; a document of a line is not denied."""
    (folder / "lines.jsonl").write_text('{"doc_id": "x", "text": "A gateway in a line."}\n')
    search = make()
    answer = await asked(search)
    assert len(answer.results) == 3
    assert NO_LINES in {each.reason for each in answer.degraded}
    with pytest.raises(PageTimeoutError):
        await FolderPageReader(search).read("doc:x")


async def test_nothing_but_json_lines_is_waited_for(
    make: Make, folder: Path, words: Words, embedder: HeldEmbedder
) -> None:
    """There words would say that there is no document."""
    for path in folder.iterdir():
        path.unlink()
    (folder / "lines.jsonl").write_text('{"doc_id": "x", "text": "A gateway in a line."}\n')
    with pytest.raises(WebSearchTimeoutError, match="still being read"):
        await asked(make(timeout=SOON_S))
    search = make()
    searching = asyncio.create_task(asked(search))
    await asyncio.sleep(2 * SOON_S)
    embedder.may.set()
    assert urls(await searching) == {"doc:x"}
    assert words.made == 0


async def test_a_reading_that_fails_is_told_once_it_did(make: Make, embedder: HeldEmbedder) -> None:
    """Words answered until then."""
    search = make()
    embedder.error = EmbeddingConfigError("no vectors today")
    assert by_words(await asked(search))
    embedder.may.set()
    assert await becomes(lambda: not search._folder.under_way_s, PATIENCE_S)
    search._words_after_s = LONG_S
    with pytest.raises(WebSearchConfigError, match="today"):
        await asked(search)


async def test_what_was_stopped_goes_on(make: Make, words: Words, embedder: HeldEmbedder) -> None:
    """A command that answered by words ends at once; the next one reads on, and the one after that has nothing to do."""
    first = make()
    assert by_words(await asked(first))
    async with asyncio.timeout(PATIENCE_S):
        await first.aclose()
        await first.aclose()
    assert await becomes(lambda: not words.in_memory(), PATIENCE_S)
    embedder.may.set()
    for _ in range(2):
        search = make(words_after_s=LONG_S)
        assert (await asked(search)).degraded == ()
        await search.aclose()
