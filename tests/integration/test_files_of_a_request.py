"""Files of a request through the wired platform: they are sources of this answer in addition to other sources, and are
not kept.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.chat_server import ChatServer, answer, completion

from modules.llm_platform import LLMPlatform, ResearchRequest, ResearchResponse
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.uploaded_file_dtos import UploadedFile
from modules.llm_platform.domain.exceptions import BackgroundError, SourceNotHeldError, UploadedFileError
from modules.llm_platform.domain.privacy.redaction import REDACTED, Redactor
from modules.llm_platform.infrastructure.documents.uploaded_files import UploadedFiles
from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

QUESTION = "What do barn owls hunt?"
SECRET = "Barn owls hunt mice, said Wilhelmina Quux."
OWLS = {"name": "notes/owls.md", "content": base64.b64encode(f"# Owls\n\n{SECRET}\n".encode()).decode()}
KEY = {"X-API-Key": "a-key-of-alice"}


def settings(folder: Path, **values: Any) -> Settings:
    documents = folder / "documents"
    documents.mkdir(exist_ok=True)
    (documents / "bats.md").write_text("# Bats\n\nBats hunt insects near water, not as barn owls do.\n")
    usual = {"DOCUMENTS_DIR": documents, "LLM_PLATFORM_DATA_DIR": folder / "data", "EMBEDDER": "none"}
    return Settings(_env_file=None, **{**usual, **values})


@asynccontextmanager
async def server(folder: Path, **values: Any) -> AsyncIterator[httpx2.AsyncClient]:
    given = settings(folder, **values)
    app = create_app(build_platform(given), given)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


async def ask(platform: LLMPlatform, *files: dict[str, Any], **wishes: Any) -> ResearchResponse:
    request = ResearchRequest.model_validate({"query": QUESTION, "files": files, **wishes})
    return await platform.research.research(request)


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def docx(text: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        body = f"<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>"
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{space}">{body}</w:document>')
    return buffer.getvalue()


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_an_answer_cites_the_files(tmp_path: Path, depth: str) -> None:
    """Files are cited as documents without a web address. Without `sources` only the files are searched."""
    async with build_platform(settings(tmp_path)) as platform:
        found = await ask(platform, OWLS, depth=depth)
    assert [(source.url, source.title) for source in found.sources] == [("doc:owls.md", "Owls")]
    assert "Wilhelmina Quux [1]" in found.synthesis
    assert {(citation.checked_against, citation.verdict) for citation in found.citations} == {("document", "supported")}
    assert [result.url for result in found.raw_results or ()] == ["doc:owls.md"]
    assert found.metadata.sent_to == ()
    assert found.metadata.files == ("owls.md",)


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_files_are_searched_together_with_the_given_sources(tmp_path: Path, depth: str) -> None:
    async with build_platform(settings(tmp_path)) as platform:
        found = await ask(platform, OWLS, depth=depth, sources=["documents"])
    assert {result.url for result in found.raw_results or ()} == {"doc:owls.md", "doc:bats.md"}


async def test_a_file_takes_the_place_of_a_document_of_its_name(tmp_path: Path) -> None:
    """A file replaces a document of the same name, because quotes could otherwise point into the wrong text."""
    bats = {"name": "bats.md", "content": base64.b64encode(b"Barn owls hunt no bats.").decode()}
    async with build_platform(settings(tmp_path)) as platform:
        found = await ask(platform, bats, sources=["documents"])
    assert [(result.url, result.content) for result in found.raw_results or ()] == [
        ("doc:bats.md", "Barn owls hunt no bats.")
    ]


async def test_a_source_that_fails_leaves_the_files(tmp_path: Path) -> None:
    """`degraded` names the source that failed."""
    async with build_platform(
        settings(tmp_path, SEARCH_PROVIDERS="searxng", SEARXNG_URL="http://127.0.0.1:1")
    ) as platform:
        found = await ask(platform, OWLS, sources=["web"])
    assert [source.url for source in found.sources] == ["doc:owls.md"]
    assert any(degradation.component.startswith("searxng") for degradation in found.degraded)


async def test_a_question_about_the_whole_file_finds_its_beginning(tmp_path: Path) -> None:
    """`Summarise this` shares no word with any passage, so the beginning of the file is used."""
    async with ChatServer(answer(completion("Someone watched owls [1]."))).running() as model:
        values = {"LLM_BASE_URL": model.url, "LLM_MODEL": "small"}
        async with build_platform(settings(tmp_path, **values)) as platform:
            found = await ask(platform, OWLS, query="Summarise this, please")
    assert [source.url for source in found.sources] == ["doc:owls.md"]
    assert SECRET in json.dumps(model.asked[-1].body)
    assert "files" in {degradation.component for degradation in found.degraded}


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_no_part_of_a_file_is_kept(tmp_path: Path, depth: str) -> None:
    """No file, store, cache or earlier turn keeps its text or the answer. The same question calls the model again."""
    async with ChatServer(answer(completion(f"{SECRET[:-1]} [1]."))).running() as model:
        values = {"LLM_BASE_URL": model.url, "LLM_MODEL": "small", "CITATION_JUDGE": "all"}
        async with build_platform(settings(tmp_path, **values)) as platform:
            first = await ask(platform, OWLS, depth=depth)
            calls = len(model.asked)
            again = await ask(platform, OWLS, depth=depth)
            assert len(model.asked) >= 2 * calls - 1  # the size of the context window is requested once
            assert (first.metadata.cache_hit, again.metadata.cache_hit) == (False, False)
            assert first.metadata.topic is None  # cached answers are found by the name of the model
            with pytest.raises(SourceNotHeldError):
                await platform.research.get_source(first.metadata.request_id, 1)
            assert await platform.store.topics() == ()
    assert b"Quux" not in bytes_below(tmp_path / "data")


async def test_a_file_that_cannot_be_read_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """Every interface names the file and the reason."""
    wrong = {"name": "a/scan.pdf", "content": base64.b64encode(b"no PDF").decode()}
    async with ChatServer().running() as model:
        values = {"LLM_BASE_URL": model.url, "LLM_MODEL": "small"}
        async with build_platform(settings(tmp_path, **values)) as platform:
            with pytest.raises(
                UploadedFileError, match=r"The file scan\.pdf cannot be read: it is not a PDF"
            ) as refused:
                await ask(platform, OWLS, wrong)
            assert refused.value.problem(instance="/research", request_id="r")["file"] == "scan.pdf"
            request = ResearchRequest.model_validate({"query": QUESTION, "files": [wrong]})
            with pytest.raises(UploadedFileError):
                await anext(platform.research.stream(request))
            unknown = {"name": "table.xls", "content": OWLS["content"]}
            with pytest.raises(UploadedFileError, match=r"ends in none of \.md"):
                await ask(platform, unknown)
            with pytest.raises(BackgroundError):
                await platform.research_jobs.submit(request)
    assert [request.target for request in model.asked if "chat" in request.target] == []


async def test_formats_that_a_parser_opens_are_read_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No temporary file is created."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    notebook = {"cells": [{"cell_type": "markdown", "source": [SECRET]}], "metadata": {}, "nbformat": 4}
    files = {"a.docx": docx(SECRET), "a.ipynb": json.dumps(notebook).encode(), "a.html": f"<p>{SECRET}</p>".encode()}
    async with build_platform(settings(tmp_path)) as platform:
        for name, content in files.items():
            found = await ask(platform, {"name": name, "content": base64.b64encode(content).decode()})
            assert "Wilhelmina Quux [1]" in found.synthesis, name


# --- over HTTP ------------------------------------------------------------------------------------------------------------


async def test_files_over_http(tmp_path: Path) -> None:
    """JSON and event streams return the same answer.

    Stored answers keep their sources, and the stored request has no files.
    """
    async with server(tmp_path) as client:
        asked = {"query": QUESTION, "files": [OWLS]}
        whole = (await client.post("/research", json=asked)).json()
        owls = {"index": 1, "title": "Owls", "url": "doc:owls.md", "extraction": None, "language": None}
        assert whole["sources"] == [owls]
        name = whole["metadata"]["request_id"]
        assert (await client.get(f"/research/{name}/sources/1")).status_code == 404
        streamed = (await client.post("/research", json={**asked, "stream": True, "store": True})).text
        done = json.loads(next(line for line in reversed(streamed.splitlines()) if line.startswith("data:"))[5:])
        assert done["response"]["synthesis"] == whole["synthesis"]
        name = done["request_id"]
        assert SECRET in (await client.get(f"/research/{name}/sources/1")).json()["text"]
        stored = await client.get(f"/research/{name}")
        assert "files" not in stored.json()["request"] or not stored.json()["request"]["files"]
        assert OWLS["content"] not in stored.text


async def test_a_large_body_is_for_files_only(tmp_path: Path) -> None:
    """POST /research accepts ten megabytes of files.

    A larger body, or the same body elsewhere, returns 413, and without a key 401.
    """
    text = (f"{SECRET} " * 9).encode()
    filler = b"The quick brown fox jumps over the lazy dog. " * 40_000
    large = {"name": "large.txt", "content": base64.b64encode(text + filler).decode()}
    body = {"query": QUESTION, "files": [large]}
    async with server(tmp_path, LLM_PLATFORM_API_KEYS="alice:a-key-of-alice") as client:
        assert len(json.dumps(body)) > 2_000_000
        found = await client.post("/research", json=body, headers=KEY)
        assert (found.status_code, found.json()["sources"][0]["url"]) == (200, "doc:large.txt")
        assert (await client.post("/research", json=body)).status_code == 401
        assert (await client.post("/research/plan", json=body, headers=KEY)).status_code == 413
        padded = json.dumps({"query": QUESTION}).ljust(2_000_000).encode()
        typed = {**KEY, "Content-Type": "application/json"}
        assert (await client.post("/research", content=padded, headers=typed)).status_code == 413
        over = {"query": QUESTION, "files": [{"name": "a.txt", "content": "eHh4" * 3_800_000}]}
        refused = await client.post("/research", json=over, headers=KEY)
        assert refused.status_code == 413
        assert "at most 10 MB together" in refused.json()["detail"]
        over["files"] = [{"name": "a.txt", "content": "eHh4" * 3_400_000}]
        assert (await client.post("/research", json=over, headers=KEY)).status_code == 422


async def test_few_requests_with_files_are_received_and_run_at_once(tmp_path: Path) -> None:
    """Requests above the limit wait a moment and then get 503 with Retry-After before their bodies are read."""
    given = settings(tmp_path)
    app = create_app(build_platform(given), given)
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        state = app.state.server
        for admission in (state.uploads, state.runs_over_files):
            admission._max_queue_s = 0.0
        large = {
            "query": QUESTION,
            "files": [{"name": "a.txt", "content": base64.b64encode(b"owls " * 300_000).decode()}],
        }
        small = {"query": QUESTION, "files": [OWLS]}
        for admission, body in ((state.uploads, large), (state.runs_over_files, small)):
            slots = [admission.slot() for _ in range(admission._max_queued)]
            for slot in slots:
                await slot.__aenter__()
            for stream in (False, True):
                refused = await client.post("/research", json={**body, "stream": stream})
                assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
                assert "Retry-After" in refused.headers
            assert (await client.post("/research", json={"query": QUESTION})).status_code == 200
            for slot in slots:
                await slot.__aexit__(None, None, None)
            assert (await client.post("/research", json=small)).status_code == 200


async def test_background_and_files_exclude_each_other(tmp_path: Path) -> None:
    async with server(tmp_path) as client:
        refused = await client.post("/research", json={"query": QUESTION, "files": [OWLS], "background": True})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == ["body", "background"]
    assert "files" in refused.json()["errors"][0]["msg"]


async def test_a_client_that_leaves_ends_the_reading(tmp_path: Path) -> None:
    """Cancelling closes the index and the parser, and frees the slot."""
    async with build_platform(settings(tmp_path)) as platform:
        large = {"name": "a.txt", "content": base64.b64encode(b"Barn owls hunt mice in the night. " * 60_000).decode()}
        task = asyncio.create_task(ask(platform, large))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ask(platform, OWLS)).sources


def test_files_whose_names_differ_in_a_secret_alone_are_both_read() -> None:
    """Secrets are removed from file names, and each file keeps a distinct name."""
    sent = [
        UploadedFile(name=f"{name}.md", content=name.encode())
        for name in ("my-secret-1", f"my-{REDACTED}", "my-secret-2")
    ]
    source = UploadedFiles(sent, Redactor(("secret-1", "secret-2")))
    names = [f"my-{REDACTED}.md", f"my-{REDACTED} (2).md", f"my-{REDACTED} (3).md"]
    assert [(name, file.content) for name, file in source.files.items()] == [
        (name, file.content) for name, file in zip(names, sent, strict=True)
    ]
