"""infrastructure/documents/folder_index.py and source.py: a folder and its index, kept in step."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore
from tests.support.folder_ways import folder_index

from modules.llm_platform.application.rag import embedded_batches, intake
from modules.llm_platform.application.rag.indexing import IndexingService
from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, IndexProgress, LeftOut
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch, Vector
from modules.llm_platform.domain.exceptions import (
    EmbeddingConfigError,
    VectorStoreError,
    VectorStoreUnavailableError,
    WebSearchConfigError,
)
from modules.llm_platform.domain.ports.document_source import IDocumentSource, IDocumentWalk
from modules.llm_platform.infrastructure.documents import file_source
from modules.llm_platform.infrastructure.documents import folder_index as folder_module
from modules.llm_platform.infrastructure.documents.file_source import (
    FileDocumentSource,
    FolderReading,
    get_origin,
    qualify_id,
)
from modules.llm_platform.infrastructure.documents.folder import FoundFile, Listing
from modules.llm_platform.infrastructure.documents.folder_index import FolderIndex, SharedIndex
from modules.llm_platform.infrastructure.documents.folder_state import STATES_FOLDER, FolderStates
from modules.llm_platform.infrastructure.documents.index_directory import IndexDirectory
from modules.llm_platform.infrastructure.index.qdrant import edge_vector_store
from modules.llm_platform.infrastructure.index.qdrant.edge_vector_store import QdrantEdgeVectorStore
from modules.llm_platform.infrastructure.parsing.parser_process import DocumentParser
from modules.llm_platform.testing.waiting import becomes_true

PATIENCE_S = 30.0
CHECK_ALWAYS_S = folder_module.CHECK_ALWAYS_S

Make = Callable[..., FolderIndex]


class CountedFiles(FileDocumentSource):
    """Records what is read. A text that contains `bad` cannot be read."""

    def __init__(self, states: FolderStates | None = None) -> None:
        super().__init__(states=states)
        self.walks = 0
        self.read: list[str] = []

    def walk(self, paths: Sequence[Path], reading: FolderReading | None = None) -> IDocumentWalk:
        self.walks += 1
        return super().walk(paths, reading)

    def read_file(self, folder: Path, file: FoundFile, parser: DocumentParser, **names: str) -> DocumentText | LeftOut:
        self.read.append(file.path)
        text = super().read_file(folder, file, parser, **names)
        if isinstance(text, DocumentText) and "bad" in text.text:
            return LeftOut(str(folder / file.path), "it is bad", hides=names["doc_id"])
        return replace(text, note="a remark") if isinstance(text, DocumentText) and "remark" in text.text else text


class HeldEmbedder(HashEmbedder):
    """Embeds documents only once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = asyncio.Event()
        self.asked = 0

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.asked += 1
        await self.may.wait()
        return await super().embed(texts)


class BrokenEmbedder(HashEmbedder):
    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        raise EmbeddingConfigError("no vectors today")


@pytest.fixture(autouse=True)
def looked_at_on_every_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(folder_module, "CHECK_ALWAYS_S", PATIENCE_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The gateway restarts.")
    return tmp_path / "docs"


@pytest.fixture
def files() -> CountedFiles:
    return CountedFiles()


@pytest.fixture
async def make(folder: Path, tmp_path: Path, files: IDocumentSource) -> AsyncIterator[Make]:
    made: list[FolderIndex] = []

    def make(base: Path | None = tmp_path / "kept", **options: object) -> FolderIndex:
        made.append(folder_index(folder, base, **{"files": files, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for index in made:
        await index.aclose()


async def found(index: FolderIndex, query: str) -> list[str]:
    view = await index.refresh()
    if not view.documents:
        return []
    hits = (await index.retrieval.search(RagSearch(query=query, top_k=20, filters=index.filters))).hits
    return sorted(hit.doc_id for hit in hits if query in (hit.snippet or ""))


async def test_changes_are_seen(folder: Path, make: Make) -> None:
    """The next search finds added and changed files, and no removed ones."""
    index = make()
    assert await found(index, "gateway") == ["a.md"]
    (folder / "b.md").write_text("Another gateway.")
    assert await found(index, "gateway") == ["a.md", "b.md"]
    (folder / "a.md").write_text("The router restarts now.")
    assert await found(index, "gateway") == ["b.md"]
    assert await found(index, "router") == ["a.md"]
    (folder / "b.md").unlink()
    assert await found(index, "gateway") == []
    (folder / "a.md").unlink()
    assert (await index.refresh()).documents == 0
    assert [document async for document in index.retrieval._store.documents("documents")] == []


async def test_unchanged_files_are_not_read_again(folder: Path, make: Make, files: CountedFiles) -> None:
    """In this and later processes, each version of a file is read once, whether it is readable or not."""
    (folder / "b.md").write_text("bad")
    for _ in range(2):
        index = make()
        for _ in range(2):
            view = await index.refresh()
            assert (view.documents, dict(view.bad)) == (1, {"b.md": "it is bad"})
        await index.aclose()
    assert (files.walks, sorted(files.read)) == (1, ["a.md", "b.md"])
    (folder / "a.md").write_text("The gateway restarts again.")
    view = await make().refresh()
    assert (view.documents, dict(view.bad)) == (1, {"b.md": "it is bad"})
    assert files.read[2:] == ["a.md"]


async def test_only_what_changed_is_opened(
    folder: Path, make: Make, files: CountedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process and later ones compare files with their recorded state, and find the same passages."""
    opened: list[str] = []
    real = Path.open

    def noted(path: Path, *given: Any, **options: Any) -> Any:
        if path.parent == folder:
            opened.append(path.name)
        return real(path, *given, **options)

    monkeypatch.setattr(Path, "open", noted)
    for number in range(5):
        (folder / f"{number}.md").write_text(f"A gateway of number {number}.")
    index = make()
    assert len(await found(index, "gateway")) == 6
    assert set(opened) == {"a.md", *(f"{number}.md" for number in range(5))}
    for reader in (index, make()):
        opened.clear()
        assert len(await found(reader, "gateway")) == 6
        assert not opened
        (folder / "a.md").write_text("The gateway restarts once more.")
        (folder / "4.md").write_text(f"A gateway of another number, {id(reader)}.")
        opened.clear()
        assert len(await found(reader, "gateway")) == 6
        assert set(opened) == {"a.md", "4.md"}
        await reader.aclose()
    assert len(files.read) == 6 + 2 + 1  # the second time one of them says the same again
    (folder / "4.md").unlink()
    assert len(await found(make(), "gateway")) == 5


async def test_a_removed_collection_is_filled_again(folder: Path, tmp_path: Path, make: Make) -> None:
    """The recorded state of the files does not prove that the index contains them, because the collection may have been
    removed.
    """
    (folder / "b.md").write_text("Another gateway.")
    index = make()
    assert await found(index, "gateway") == ["a.md", "b.md"]
    await index.aclose()
    shutil.rmtree(tmp_path / "kept" / "key" / "documents")
    (folder / "b.md").write_text("Yet another gateway.")
    assert await found(make(), "gateway") == ["a.md", "b.md"]


async def test_ids_of_json_lines_can_move_between_files(folder: Path, make: Make) -> None:
    """Documents in JSON lines have their own ids, so an unchanged file may have to be read again."""
    (folder / "A.jsonl").write_text('{"doc_id": "a.md", "text": "A router by this name."}\n')
    index = make()
    assert await found(index, "router") == ["a.md"]
    (folder / "A.jsonl").unlink()
    (folder / "b.md").write_text("Another gateway.")
    assert await found(index, "router") == []
    assert "b.md" in await found(index, "gateway")


async def test_documents_with_the_id_of_another_one_are_reported(folder: Path, make: Make) -> None:
    """Only one of them is searched: the others are listed until they are the only one."""
    index = make()
    (folder / "A.jsonl").write_text('{"doc_id": "x", "text": "A gateway."}\n{"doc_id": "x", "text": "A bridge."}\n')
    (folder / "b.jsonl").write_text('{"doc_id": "x", "text": "A router."}\n')
    view = await index.refresh()
    reason = "another document has the id 'x': give each its own doc_id, or index their common folder"
    assert (view.documents, dict(view.bad)) == (2, {"A.jsonl:2": reason, "b.jsonl:1": reason})
    (folder / "A.jsonl").unlink()
    assert await found(index, "router") == ["x"]
    assert dict((await index.refresh()).bad) == {}


async def test_file_of_its_own_reports_documents_with_one_id(folder: Path, tmp_path: Path) -> None:
    """A single file is searched as a folder is."""
    lines = folder / "A.jsonl"
    lines.write_text('{"doc_id": "x", "text": "A gateway."}\n{"doc_id": "x", "text": "A bridge."}\n')
    index = folder_index(lines, tmp_path / "kept")
    assert list((await index.refresh()).bad) == ["A.jsonl:2"]
    await index.aclose()


@pytest.mark.parametrize(
    ("files_then", "has_a_mean"), [(folder_module.OUTGROWN - 10, False), (folder_module.OUTGROWN, True)]
)
async def test_collection_without_mean_is_rebuilt_when_large(
    folder: Path, make: Make, files_then: int, has_a_mean: bool
) -> None:
    """Too few passages give no mean of their vectors; many do, and nothing is lost by it."""
    index = make()
    await index.refresh()
    for number in range(files_then):
        (folder / f"{number}.md").write_text(f"A gateway of number {number}.")
    assert (await index.refresh()).documents == files_then + 1
    assert bool((await index.retrieval.describe()).mean) is has_a_mean


async def test_bad_files_are_reported_until_readable(folder: Path, make: Make) -> None:
    """The old version of an unreadable file is no longer found. The file is reported until it is readable or removed."""
    index = make()
    (folder / "b.md").write_text("A gateway with a remark.")
    (folder / "lines.jsonl").write_text('{"text": "A gateway in a line."}\nno JSON\n')
    (folder / "gone.md").symlink_to(folder / "nowhere.md")
    assert len(await found(index, "gateway")) == 3
    view = await index.refresh()
    assert dict(view.bad) == {"gone.md": "it is a link that leads nowhere", "lines.jsonl:2": "it is not JSON"}
    assert dict(view.notes) == {"b.md": "a remark"}
    (folder / "a.md").write_text("bad gateway")
    (folder / "lines.jsonl").unlink()
    (folder / "gone.md").unlink()
    assert await found(index, "gateway") == ["b.md"]
    view = await index.refresh()
    assert (view.documents, dict(view.bad), dict(view.notes)) == (1, {"a.md": "it is bad"}, {"b.md": "a remark"})
    (folder / "a.md").write_text("")
    assert dict((await index.refresh()).bad) == {"a.md": "it contains no text"}
    (folder / "a.md").write_text("A good gateway.")
    (folder / "b.md").write_text("Without it.")
    view = await index.refresh()
    assert (view.documents, dict(view.bad), dict(view.notes)) == (2, {}, {})


@pytest.mark.parametrize(("took_s", "looks_of_five"), [(0.0, 5), (CHECK_ALWAYS_S / 2, 5), (0.1, 1)])
async def test_only_large_folder_is_not_listed_on_every_search(
    make: Make, monkeypatch: pytest.MonkeyPatch, took_s: float, looks_of_five: int
) -> None:
    """A small one shows every change at once; in a large one looking takes a share of the time, not all of it."""
    monkeypatch.setattr(folder_module, "CHECK_ALWAYS_S", CHECK_ALWAYS_S)
    now = [0.0]
    looks = []

    def look(folder: Path, **options: object) -> Listing:
        looks.append(folder)
        now[0] += took_s
        return real(folder, **options)  # type: ignore[arg-type]

    real = folder_module.list_folder
    monkeypatch.setattr(folder_module, "list_folder", look)
    index = make(clock=lambda: now[0])
    for _ in range(5):
        await index.refresh()
    assert len(looks) == looks_of_five
    now[0] += 2 * folder_module.CHECK_AGAIN_S
    await index.refresh()
    assert len(looks) == looks_of_five + 1


async def test_concurrent_searches_share_one_update(make: Make, files: CountedFiles) -> None:
    """If one search is cancelled, the update continues for the next one."""
    embedder = HeldEmbedder()
    index = make(embedder=embedder)
    first, *others = [asyncio.create_task(index.refresh()) for _ in range(5)]
    assert await becomes_true(lambda: embedder.asked > 0, PATIENCE_S)
    first.cancel()
    await asyncio.wait([first])
    embedder.may.set()
    views = await asyncio.gather(*others)
    assert {view.documents for view in views} == {1}
    assert files.walks == 1


async def test_later_search_sees_changes_made_during_reading(folder: Path, make: Make) -> None:
    """A reading that began before is waited for, and then looked again."""
    embedder = HeldEmbedder()
    index = make(embedder=embedder)
    first = asyncio.create_task(index.refresh())
    assert await becomes_true(lambda: embedder.asked > 0, PATIENCE_S)
    (folder / "b.md").write_text("Later.")
    second = asyncio.create_task(index.refresh())
    await asyncio.sleep(0)
    embedder.may.set()
    await first
    assert (await second).documents == 2


async def test_progress_is_visible_while_reading(folder: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is available only while documents are read."""
    seen: list[int] = []

    class Watched(FolderIndex):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "progress" and isinstance(value, IndexProgress):
                seen.append(value.documents)
            super().__setattr__(name, value)

    monkeypatch.setattr("tests.support.folder_ways.FolderIndex", Watched)
    (folder / "b.md").write_text("Another gateway.")
    index = make()
    assert (index.progress, index.documents_read) == (None, 0)
    await index.refresh()
    assert seen[-1] == 2
    assert index.progress is None


async def test_closing_stops_the_reading(make: Make) -> None:
    """At once, however far it is; the writer's place is free for others."""
    embedder = HeldEmbedder()
    index = make(embedder=embedder)
    reading = asyncio.create_task(index.refresh())
    assert await becomes_true(lambda: embedder.asked > 0, PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        await index.aclose()
    assert reading.cancelled() or await asyncio.wait([reading])
    assert (await make().refresh()).documents == 1
    await index.aclose()


async def test_closing_ends_waiting_searches(make: Make) -> None:
    """A waiting search must not start to read, because nothing would stop it or remove its folder."""
    embedder = HeldEmbedder()
    index = make(None, embedder=embedder)
    waiting = [asyncio.create_task(index.refresh()) for _ in range(3)]
    assert await becomes_true(lambda: embedder.asked > 0, PATIENCE_S)
    position = index._directory.make()
    await index.aclose()
    assert not (await asyncio.wait(waiting, timeout=PATIENCE_S))[1]
    assert all(task.cancelled() or isinstance(task.exception(), WebSearchConfigError) for task in waiting)
    assert not position.exists()
    assert index._refreshing is None


async def test_stopped_reading_continues_later(
    folder: Path, make: Make, files: CountedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that ends early leaves the next one less to do."""
    monkeypatch.setattr(embedded_batches, "MEAN_PASSAGES", 2)
    monkeypatch.setattr(intake, "BATCH_PASSAGES", 2)
    for number in range(20):
        (folder / f"{number:02}.md").write_text(f"A gateway of number {number}.")

    class Tired(HashEmbedder):
        asked = 0

        async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
            self.asked += 1
            if self.asked > 6:
                await asyncio.Event().wait()
            return await super().embed(texts)

    tired = Tired()
    stopped = make(embedder=tired)
    reading = asyncio.create_task(stopped.refresh())
    assert await becomes_true(lambda: tired.asked > 6 and stopped.documents_read >= 8, PATIENCE_S)
    await stopped.aclose()
    assert await asyncio.wait([reading])
    files.read.clear()
    assert (await make().refresh()).documents == 21
    assert len(files.read) <= 21 - 8


async def test_interrupted_rebuild_is_not_complete(
    folder: Path, tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded state of an interrupted rebuild is not used, in this process or a later one."""
    monkeypatch.setattr(embedded_batches, "MEAN_PASSAGES", 2)
    monkeypatch.setattr(intake, "BATCH_PASSAGES", 2)
    for number in range(20):
        (folder / f"{number:02}.md").write_text(f"A gateway of number {number}.")
    await make().refresh()
    shutil.rmtree(tmp_path / "kept" / "key" / "documents")

    class Breaking(HashEmbedder):
        asked = 0

        async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
            self.asked += 1
            if self.asked == 6:
                raise EmbeddingConfigError("no vectors today")
            return await super().embed(texts)

    breaking, base = make(embedder=Breaking()), tmp_path / "kept"
    with pytest.raises(EmbeddingConfigError):
        await breaking.refresh()
    copied = tmp_path / "copied"
    shutil.copytree(base, copied)
    for index in (make(copied), breaking):
        assert (await index.refresh()).documents == 21
        assert len([document async for document in index.retrieval._store.documents("documents")]) == 21


async def test_two_concurrent_processes(make: Make, files: CountedFiles) -> None:
    """One process reads, and the other waits and has nothing left to do. Each has its own store."""
    views = await asyncio.gather(make().refresh(), make().refresh())
    assert [view.documents for view in views] == [1, 1]
    assert files.walks == 1


async def test_removed_or_damaged_index_is_rebuilt(tmp_path: Path, make: Make) -> None:
    """All of it can be read again."""
    kept = tmp_path / "kept" / "key"
    index = make()
    assert await found(index, "gateway") == ["a.md"]
    for removed in (kept / "documents", kept, kept.parent):
        shutil.rmtree(removed)
        assert await found(index, "gateway") == ["a.md"]
    await index.aclose()
    shutil.rmtree(kept / "documents" / STATES_FOLDER)
    for path in (kept / "documents").rglob("*.json"):
        path.write_text("{")
    assert await found(make(), "gateway") == ["a.md"]


async def test_file_system_without_locks_is_a_config_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a mistake of the settings, with its remedy: so are some network file systems."""

    def none_here(home: IndexDirectory) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(IndexDirectory, "acquire", none_here)
    with pytest.raises(WebSearchConfigError, match="LLM_PLATFORM_DATA_DIR"):
        await make().refresh()


async def test_a_given_store_is_used_and_left_open(make: Make) -> None:
    """The store gets a separate collection and is not closed. Its faults are reported."""
    store = MemoryVectorStore()
    assert await found(make(None, store=store, collection="mine"), "gateway") == ["a.md"]
    assert (await store.lookup("mine", ["a.md"])).keys() == {"a.md"}
    with pytest.raises(VectorStoreError):
        await make(None, store=MemoryVectorStore(error=VectorStoreError())).refresh()


async def test_without_a_folder_the_setting_is_named(folder: Path, tmp_path: Path, make: Make) -> None:
    """An operator's mistake, told without a path of the server; once it is there it is read."""
    folder.rename(tmp_path / "elsewhere")
    index = make()
    with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR") as raised:
        await index.refresh()
    assert str(tmp_path) not in raised.value.message
    (tmp_path / "elsewhere").rename(folder)
    assert (await index.refresh()).documents == 1


async def test_a_failed_reading_fails_for_all_callers_and_is_repeated(make: Make) -> None:
    """No search reports an empty folder."""
    index = make(embedder=BrokenEmbedder())
    for _ in range(2):
        with pytest.raises(EmbeddingConfigError, match="today"):
            await index.refresh()


async def test_a_store_that_fails_once_loses_nothing(
    folder: Path, make: Make, files: CountedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a temporary fault such as a full disk, nothing is read again.

    After two faults in a row the index is rebuilt.
    """
    index = make()
    await index.refresh()
    replace_many, failures = QdrantEdgeVectorStore.replace_many, 1

    async def failing(self: QdrantEdgeVectorStore, collection: str, documents: Any) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise VectorStoreError("the disk is full")
        await replace_many(self, collection, documents)

    monkeypatch.setattr(QdrantEdgeVectorStore, "replace_many", failing)
    for wanted, read_again in ((1, {"b.md"}), (2, {"a.md", "b.md", "c.md"})):
        failures = wanted
        name = next(iter(sorted({"b.md", "c.md"} - {path.name for path in folder.iterdir()})))
        (folder / name).write_text("The gateway stops.")
        with pytest.raises(VectorStoreError, match="full"):
            await index.refresh()
        files.read.clear()
        assert name in await found(index, "gateway")
        assert set(files.read) == read_again


async def test_a_temporarily_unusable_index_is_kept(
    folder: Path, tmp_path: Path, make: Make, files: CountedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults on opening and writing never remove the index. Afterwards only the changed file is read."""

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "its disk is full")

    index = make()
    await index.refresh()
    await index.aclose()
    (folder / "b.md").write_text("The gateway stops.")
    with monkeypatch.context() as patch:
        patch.setattr(edge_vector_store, "require_free_space", no_room)
        for wrong in (make(), make(), make()):
            for _ in range(3):
                with pytest.raises(VectorStoreUnavailableError, match="disk is full"):
                    await wrong.refresh()
    files.read.clear()
    assert await found(make(), "gateway") == ["a.md", "b.md"]
    assert files.read == ["b.md"]


def test_a_bad_file_without_a_stored_reason_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more files are bad than reasons are stored, the others do not count as indexed."""
    monkeypatch.setattr(file_source, "MAX_MESSAGES", 1)
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("text")
    reading = FolderReading(bad={"a.md": "it is bad", "b.md": "it is bad"}, readable_only=True)
    assert [type(walked_entry) for walked_entry in CountedFiles().walk([tmp_path], reading)] == [LeftOut, LeftOut]
    assert (set(reading.found_bad), reading.digests) == ({"a.md"}, {})


async def test_temporary_index_is_removed_on_close(folder: Path, tmp_path: Path, make: Make) -> None:
    """The index is in a temporary folder, which closing removes."""
    index = make(None)
    assert await found(index, "gateway") == ["a.md"]
    position = index._directory.make()
    assert position.is_dir()
    await index.aclose()
    assert not position.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs"]


class TestSharedIndex:
    """A folder that was put into the index by `llm-platform index`, searched by its name."""

    @pytest.fixture
    def shared(self, tmp_path: Path) -> SharedIndex:
        folder = tmp_path / "index"
        return SharedIndex(folder, "documents", FolderStates(folder / "documents"))

    @pytest.fixture
    def files(self, shared: SharedIndex) -> CountedFiles:
        return CountedFiles(shared.states)

    @pytest.fixture
    def other(self, tmp_path: Path) -> Path:
        """Return another folder with one path that the first folder also has."""
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "a.md").write_text("A gateway elsewhere.")
        (tmp_path / "other" / "z.md").write_text("Another gateway elsewhere.")
        return tmp_path / "other"

    async def index(self, shared: SharedIndex, files: CountedFiles, *folders: Path, **options: bool) -> None:
        store = QdrantEdgeVectorStore(shared.folder)
        async for _ in IndexingService(files, HashEmbedder(), store, "documents").index(folders, **options):
            pass
        await store.aclose()

    async def everything(self, shared: SharedIndex) -> list[str]:
        """Return the results of a worker, which searches the index without a filter."""
        store = QdrantEdgeVectorStore(shared.folder)
        hits = (
            await RetrievalService(HashEmbedder(), store, "documents", top_k=20).search(RagSearch(query="gateway"))
        ).hits
        await store.aclose()
        return sorted(hit.doc_id for hit in hits)

    async def test_folder_that_was_indexed_is_not_opened_again(
        self,
        folder: Path,
        tmp_path: Path,
        make: Make,
        shared: SharedIndex,
        files: CountedFiles,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The files of an indexed folder are listed but not opened, and the folder gets no separate index."""
        (folder / "b.md").write_text("bad")
        await self.index(shared, files, folder)
        opened: list[str] = []

        def noted(event: str, arguments: tuple[Any, ...]) -> None:
            if watching and event == "open" and str(arguments[0]).startswith(f"{folder}{os.sep}"):
                opened.append(arguments[0])

        watching = True
        sys.addaudithook(noted)
        for _ in range(2):
            index = make(shared=shared)
            assert await found(index, "gateway") == ["a.md"]
            assert dict((await index.refresh()).bad) == {"b.md": "it is bad"}
            await index.aclose()
        (folder / "a.md").read_bytes()
        watching = False
        assert opened == [str(folder / "a.md")]  # by this test
        assert not (tmp_path / "kept" / "key" / "documents").exists()

    async def test_search_and_pruning_are_kept_to_the_folder(
        self, folder: Path, other: Path, make: Make, shared: SharedIndex, files: CountedFiles
    ) -> None:
        """This also holds if both folders contain the same path. A worker finds what the search added to the index."""
        await self.index(shared, files, other, folder)
        qualified = qualify_id(folder.name, get_origin(folder), "a.md")
        index = make(shared=shared)
        assert await found(index, "gateway") == [qualified]
        assert await self.everything(shared) == sorted(["a.md", qualified, "z.md"])
        (folder / "b.md").write_text("The gateway of another file.")
        (folder / "a.md").unlink()
        assert await found(index, "gateway") == ["b.md"]
        assert await self.everything(shared) == ["a.md", "b.md", "z.md"]
        (folder / "b.md").unlink()
        assert (await index.refresh()).documents == 0
        assert await self.everything(shared) == ["a.md", "z.md"]

    async def test_document_of_another_folder_is_not_read(
        self, folder: Path, other: Path, make: Make, shared: SharedIndex, files: CountedFiles
    ) -> None:
        """A path refers to the document of its folder, whichever folder was indexed first."""
        await self.index(shared, files, other, folder)
        index = make(shared=shared)
        await index.refresh()
        assert [passage.text for passage in await index.document("a.md")] == ["The gateway restarts."]
        assert await index.document("z.md") == []

    async def test_folder_follows_the_index(
        self, folder: Path, other: Path, make: Make, shared: SharedIndex, files: CountedFiles
    ) -> None:
        """After indexing, the folder is searched in the index.

        After its removal from the index it has its own index again.
        """
        index = make(shared=shared)
        assert await found(index, "gateway") == ["a.md"]
        assert index.filters == {}
        await self.index(shared, files, folder)
        assert await found(index, "gateway") == ["a.md"]
        assert index.filters
        await self.index(shared, files, other, replaces_collection=True)
        assert await found(index, "gateway") == ["a.md"]
        assert index.filters == {}
        shutil.rmtree(shared.folder)
        assert await found(index, "gateway") == ["a.md"]

    async def test_id_that_passed_to_another_folder_is_taken_back(
        self, folder: Path, other: Path, make: Make, shared: SharedIndex, files: CountedFiles
    ) -> None:
        """JSON lines have their own ids. The searched folder takes its document back."""
        for path in (folder, other):
            (path / "lines.jsonl").write_text('{"doc_id": "x", "text": "A gateway in a line."}\n')
        await self.index(shared, files, folder)
        index = make(shared=shared)
        for _ in range(2):
            assert await found(index, "gateway") == ["a.md", "x"]
            await self.index(shared, files, other)

    async def test_single_file_has_its_own_index(
        self, folder: Path, make: Make, shared: SharedIndex, files: CountedFiles, tmp_path: Path
    ) -> None:
        """Also a file of a folder that was indexed: a search of it finds nothing else of that folder."""
        (folder / "b.md").write_text("Another gateway.")
        await self.index(shared, files, folder)
        index = folder_index(folder / "b.md", tmp_path / "kept", files=files, shared=shared)
        assert await found(index, "gateway") == ["b.md"]
        assert index.filters == {}
        await index.aclose()
        assert await self.everything(shared) == ["a.md", "b.md"]

    async def test_collection_of_another_embedder_is_not_used(
        self, folder: Path, make: Make, shared: SharedIndex, files: CountedFiles
    ) -> None:
        """The folder is embedded locally and gets a separate index."""
        await self.index(shared, files, folder)
        index = make(shared=shared, embedder=HashEmbedder(dimension=8))
        assert await found(index, "gateway") == ["a.md"]
        assert index.filters == {}

    async def test_update_waits_for_another_writer(
        self, folder: Path, make: Make, shared: SharedIndex, files: CountedFiles
    ) -> None:
        """`llm-platform index` may write to the same collection for minutes."""
        await self.index(shared, files, folder)
        index = make(shared=shared)
        await index.refresh()
        writer = QdrantEdgeVectorStore(shared.folder)
        facts = await writer.describe("documents")
        assert facts is not None
        await writer.prepare(facts)
        (folder / "b.md").write_text("Another gateway.")
        refreshing = asyncio.create_task(index.refresh())
        assert not (await asyncio.wait([refreshing], timeout=3 * folder_module.LOCK_POLL_S))[0]
        await writer.aclose()
        assert (await refreshing).documents == 2
