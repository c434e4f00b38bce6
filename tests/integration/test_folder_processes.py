"""A named folder searched by several processes, and its settings.

One process reads it and the others wait; a killed process does not affect the others.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.fakes.embedder import HashEmbedder
from tests.fakes.vector_store import MemoryVectorStore
from tests.integration import searching_folder
from tests.support.forked_command import PIPE, ForkedPython

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.vector_store import IVectorStore
from modules.llm_platform.infrastructure import resources as resources_module
from modules.llm_platform.testing.waiting import becomes_true
from shared.config import Settings

PATIENCE_S = 120.0
FILES = 40
MANY_FILES = 1500  # enough files that a kill can fall into reading
TEXT = (
    "# Page {0}\n\nThe gateway number {0} restarts after a timeout of {0} seconds.\n\n"
    + "More words of page {0}. " * 20
)

Configure = Callable[..., Settings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    write(tmp_path / "docs", FILES)
    return tmp_path / "docs"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def configure(folder: Path, data: Path) -> Configure:
    def settings(**values: Any) -> Settings:
        return Settings(**{"DOCUMENTS_DIR": folder, "LLM_PLATFORM_DATA_DIR": data, **values})

    return settings


def write(folder: Path, number: int) -> None:
    for page in range(number):
        (folder / f"page{page}.md").write_text(TEXT.format(page))


def started(folder: Path, data: Path, query: str = "gateway timeout") -> ForkedPython:
    program = f"from {searching_folder.__name__} import main; main()"
    return ForkedPython(program, folder, data, query, stdout=PIPE, stderr=PIPE, warn_as_error=True)


async def read_reply(process: ForkedPython) -> dict[str, Any]:
    with process:
        out, complaint = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
    assert process.returncode == 0, complaint
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


async def search(settings: Settings, query: str = "gateway timeout", **overrides: Any) -> WebSearchResponse:
    async with build_platform(settings, overrides.get("overrides")) as platform:
        return await platform.web_search.search(WebSearchRequest(query=query, count=50))


async def test_several_processes_at_once(folder: Path, data: Path) -> None:
    """All processes succeed with the same results, and create one index."""
    processes = [started(folder, data) for _ in range(3)]
    answers = [await read_reply(process) for process in processes]
    assert all(len(answer["urls"]) == FILES and not answer["degraded"] for answer in answers)
    assert len({frozenset(answer["urls"]) for answer in answers}) == 1
    assert len([path for path in (data / "folders").iterdir() if path.is_dir()]) == 1


async def test_a_process_killed_while_reading_does_not_affect_others(folder: Path, data: Path) -> None:
    """If the reading process is killed, a waiting one continues and finds everything."""
    write(folder, MANY_FILES)
    with started(folder, data) as first:
        assert await becomes_true(lambda: bool(list(data.glob("folders/*/documents/work"))), PATIENCE_S)
        second = started(folder, data, "the gateway number 1499")
        first.send_signal(signal.SIGKILL)
    assert not list(data.glob("folders/*/state.json")), "it was not killed in the middle"
    answer = await read_reply(second)
    assert answer["urls"][0] == "doc:page1499.md"


async def test_the_second_run_finds_it_read(configure: Configure, folder: Path, data: Path) -> None:
    """A later run reuses the index, and sees files that changed or were deleted since the last search."""
    assert len((await search(configure())).results) == FILES
    (index,) = data.glob("folders/*/documents/current")
    written = index.stat().st_mtime_ns
    assert len((await search(configure())).results) == FILES
    assert index.stat().st_mtime_ns == written
    (folder / "page0.md").write_text("The turbine hums.")
    (folder / "page1.md").unlink()
    assert (await search(configure(), "turbine hums")).results[0].url == "doc:page0.md"
    assert len((await search(configure())).results) in (FILES - 2, FILES - 1)  # a similar meaning also counts
    assert "doc:page1.md" not in {item.url for item in (await search(configure())).results}


async def test_no_index_is_kept_if_the_store_keeps_nothing(configure: Configure, data: Path) -> None:
    """With STORE_TTL_DAYS=0 the index is removed when the process ends."""
    assert len((await search(configure(STORE_TTL_DAYS=0))).results) == FILES
    assert not list(data.rglob("*"))


@pytest.mark.parametrize("kind", ["openai", "azure"])
async def test_no_byte_of_a_folder_goes_to_an_embedding_service(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A paid embedder and a Qdrant server are used by `index` only.

    A named folder is embedded and stored on this machine.
    """
    sent: list[httpx2.Request] = []

    async def send(client: object, request: httpx2.Request, **options: object) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(500, request=request)

    monkeypatch.setattr(httpx2.AsyncClient, "send", send)
    paid = {
        "EMBEDDER": kind,
        "EMBEDDING_MODEL": "m",
        "EMBEDDING_API_KEY": "key-12345",
        "QDRANT_URL": "http://127.0.0.1:9",
        "EMBEDDING_BASE_URL": "http://127.0.0.1:9/v1",
        "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9",
    }
    answer = await search(configure(**paid))
    assert (len(answer.results), answer.degraded) == (FILES, ())
    assert not sent


@pytest.mark.parametrize("missing", [{"qdrant_edge", "wordllama", "numpy"}, {"wordllama"}])
async def test_without_the_packages_keywords_are_searched(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, missing: set[str]
) -> None:
    """The search uses keywords and reports the install command once. The index made then is used with the packages too."""
    monkeypatch.setattr(resources_module, "find_spec", lambda name: None if name in missing else object())
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    for _ in range(2):
        answer = await search(configure())
        assert len(answer.results) == FILES
        (word,) = answer.degraded
        assert 'pip install "llm-platform[retrieval]"' in word.reason


async def test_where_wordllama_has_no_package_keywords_are_searched(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line gives the reason with the Python version and the machine, and suggests no package that cannot be
    installed.
    """
    monkeypatch.setattr(resources_module, "find_spec", lambda name: None if name == "wordllama" else object())
    monkeypatch.setattr("modules.llm_platform.domain.package.platform.machine", lambda: "riscv64")
    answer = await search(configure())
    assert len(answer.results) == FILES
    (word,) = answer.degraded
    assert word.component == "none"
    assert "riscv64" in word.reason
    assert "\n" not in word.reason
    assert "pip install" not in word.reason


async def test_keyword_search_on_request(configure: Configure) -> None:
    """EMBEDDER=none searches by keywords only, and reports that."""
    answer = await search(configure(EMBEDDER="none"))
    assert len(answer.results) == FILES
    assert [degradation.component for degradation in answer.degraded] == ["none"]


async def test_given_parts_are_used(configure: Configure, data: Path) -> None:
    """A custom embedder and store are also used for the folder. The store separates it from the index."""
    store = MemoryVectorStore()
    answer = await search(configure(), overrides={IEmbedder: HashEmbedder(), IVectorStore: store})
    assert len(answer.results) == FILES
    assert store.searches
    assert await store.describe("documents") is None
    assert not data.exists()


async def test_another_address_is_another_index(configure: Configure) -> None:
    """Passages indexed under one DOCUMENTS_BASE_URL are not returned after it changes."""
    assert (await search(configure())).results[0].url.startswith("doc:")
    moved = await search(configure(DOCUMENTS_BASE_URL="https://wiki.example.org"))
    assert moved.results[0].url.startswith("https://wiki.example.org/page")


async def test_a_secret_that_was_no_secret_when_it_was_read(configure: Configure, folder: Path) -> None:
    """A key that is configured only after indexing is still redacted."""
    (folder / "key.md").write_text("# sk-0123456789\n\nThe gateway's key is sk-0123456789.\n")
    assert "sk-0123456789" in (await search(configure(), "the key of the gateway")).model_dump_json()
    later = configure(BOCHA_API_KEY="sk-0123456789", SEARCH_PROVIDERS=("documents",))
    assert "sk-0123456789" not in (await search(later, "the key of the gateway")).model_dump_json()
