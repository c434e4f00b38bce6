"""GET /research/options lists exactly what this server supports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.limits import most
from tests.unit.presentation.rest.fake_platform import app_client
from tests.unit.presentation.rest.test_research_job_routes import ALICE, KEYS

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.presentation.rest.app import create_app
from modules.llm_platform.testing.waiting import START_TIMEOUT_S
from shared.config import Settings

SEARXNG = {"SEARXNG_URL": "http://127.0.0.1:1"}
MODEL = {"LLM_BASE_URL": "http://127.0.0.1:1/v1", "LLM_MODEL": "small"}
LISTED = (
    '[{"name": "a", "kind": "openai", "model": "x/large", "api_key": "secret-of-a"},'
    ' {"name": "b", "kind": "openai", "model": "no-key"}]'
)


@asynccontextmanager
async def server(folder: Path, **values: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server with the real parts."""
    settings = Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=folder / "data", **values)
    app = create_app(build_platform(settings), settings)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


async def options_of(client: httpx2.AsyncClient, titles: int = 0) -> dict[str, Any]:
    """Return the options once the given number of titles is known, because the folder is read during requests."""
    async with asyncio.timeout(START_TIMEOUT_S):
        while True:
            found: dict[str, Any] = (await client.get("/research/options")).json()
            if len(found["document_titles"]) >= titles:
                return found


def documents(folder: Path, *titles: str) -> dict[str, Any]:
    position = folder / "documents"
    position.mkdir()
    for title in titles:
        (position / f"{title.lower()}.md").write_text(f"# {title}\n\nA text about {title}.\n")
    return {"DOCUMENTS_DIR": position}


async def test_the_options_are_all_there(tmp_path: Path) -> None:
    """The whole object, of a server with everything."""
    parts = {**SEARXNG, **MODEL, **documents(tmp_path, "Owls", "Bats")}
    async with server(tmp_path, **parts) as client:
        answer = await client.get("/research/options")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        found = await options_of(client, titles=2)
    assert sorted(found.pop("document_titles")) == ["Bats", "Owls"]
    assert found == {
        "depths": ["shallow", "deep", "report"],
        "sources": ["web", "news", "academic", "documents"],
        "default_sources": ["web"],
        "models": ["openai/small"],
        "max_query_chars": most(ResearchRequest, "query"),
        "max_context_chars": most(ResearchRequest, "context"),
        "max_instruction_chars": most(ResearchRequest, "instructions"),
        "max_domains": most(ResearchRequest, "domains"),
        "max_urls": most(ResearchRequest, "urls"),
        "max_files": most(ResearchRequest, "files"),
        "max_file_bytes": 10_000_000,
        "background": True,
        "favicons": False,
    }


@pytest.mark.parametrize(
    ("values", "sources", "usual", "titles"),
    [
        ({"LLM_PLATFORM_OFFLINE": True, **SEARXNG}, [], [], 0),
        ({"LLM_PLATFORM_OFFLINE": True, **SEARXNG, "owls": True}, ["documents"], ["documents"], 1),
        ({"owls": True}, ["documents"], ["documents"], 1),
        ({"SEARCH_PROVIDERS": "searxng"}, [], [], 0),
        ({}, ["web", "news"], ["web"], 0),
    ],
)
async def test_sources_are_those_of_the_configured_providers(
    tmp_path: Path, values: dict[str, Any], sources: list[str], usual: list[str], titles: int
) -> None:
    """Offline, only documents are listed, and only if there are any. The titles are those of searchable documents."""
    folder = documents(tmp_path, "Owls") if values.pop("owls", False) else {}
    async with server(tmp_path, **values, **folder) as client:
        found = await options_of(client, titles)
    assert (found["sources"], found["default_sources"], len(found["document_titles"])) == (sources, usual, titles)


async def test_only_models_that_can_write_are_offered(tmp_path: Path) -> None:
    """A model without its key would fail and is left out. No key or address of a service is shown."""
    async with server(tmp_path, LLM_PROVIDERS=LISTED) as client:
        answer = await client.get("/research/options")
    assert answer.json()["models"] == ["a/x/large"]
    assert "secret" not in answer.text
    async with server(tmp_path) as client:
        assert (await client.get("/research/options")).json()["models"] == []


async def test_offline_only_models_on_this_machine_are_offered(tmp_path: Path) -> None:
    listed = LISTED.replace('"no-key"', '"near", "base_url": "http://127.0.0.1:1/v1"')
    async with server(tmp_path, LLM_PROVIDERS=listed, LLM_PLATFORM_OFFLINE=True) as client:
        assert (await client.get("/research/options")).json()["models"] == ["b/near"]


async def test_background_needs_a_store(tmp_path: Path) -> None:
    async with server(tmp_path, STORE_TTL_DAYS=0) as client:
        assert (await client.get("/research/options")).json()["background"] is False


async def test_titles_are_few_and_short(tmp_path: Path) -> None:
    """A folder of many documents, one with an endless title."""
    parts = documents(tmp_path, *(f"Owl{number}" for number in range(9)))
    (parts["DOCUMENTS_DIR"] / "0.md").write_text(f"# {'long ' * 999}\n\nA text.\n")
    async with server(tmp_path, **parts) as client:
        titles = (await options_of(client, titles=4))["document_titles"]
    assert len(titles) == 4
    assert max(map(len, titles)) <= 200


async def test_titles_of_an_index(tmp_path: Path) -> None:
    """Without a folder, the documents are the indexed ones."""
    parts = documents(tmp_path, "Owls")
    settings = Settings(_env_file=None, LLM_PLATFORM_DATA_DIR=tmp_path / "data")
    async with build_platform(settings) as platform:
        async for _ in platform.indexing.index([parts["DOCUMENTS_DIR"]]):
            pass
    async with server(tmp_path) as client:
        found = await options_of(client, titles=1)
    assert ("documents" in found["sources"], found["document_titles"]) == (True, ["Owls"])


async def test_options_need_the_key_and_are_no_research() -> None:
    """Without a right key 401; the name is of no research run, so that it cannot be cancelled either."""
    async with app_client(LLM_PLATFORM_API_KEYS=KEYS) as client:
        assert (await client.get("/research/options")).status_code == 401
        assert (await client.get("/research/options", headers=ALICE)).status_code == 200
        refused = await client.delete("/research/options", headers=ALICE)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_the_documents_are_listed(tmp_path: Path) -> None:
    """With the files that cannot be read; a limit out of bounds is refused by name."""
    parts = documents(tmp_path, "Owls", "Bats")
    (parts["DOCUMENTS_DIR"] / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    async with server(tmp_path, **parts) as client:
        await options_of(client, titles=2)
        listed = (await client.get("/research/documents")).json()
        assert [(document["url"], document["title"]) for document in listed["documents"]] == [
            ("doc:bats.md", "Bats"),
            ("doc:owls.md", "Owls"),
        ]
        assert (listed["total"], listed["problems"][0]["path"]) == (2, "broken.pdf")
        assert len((await client.get("/research/documents?limit=1")).json()["documents"]) == 1
        for limit in ("0", "1001", "many"):
            refused = await client.get(f"/research/documents?limit={limit}")
            assert refused.status_code == 422
            assert "limit" in refused.text


async def test_a_server_without_documents_lists_none(tmp_path: Path) -> None:
    async with server(tmp_path, **SEARXNG) as client:
        assert (await client.get("/research/documents")).json() == {
            "total": 0,
            "documents": [],
            "not_read": 0,
            "partly_read": 0,
            "problems": [],
            "unread": "",
            "reading": None,
            "keywords_only": False,
        }


async def test_documents_are_for_callers_with_a_key(tmp_path: Path) -> None:
    async with server(tmp_path, **documents(tmp_path, "Owls"), LLM_PLATFORM_API_KEYS=KEYS) as client:
        assert (await client.get("/research/documents")).status_code == 401
