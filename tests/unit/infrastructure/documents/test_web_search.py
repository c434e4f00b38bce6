"""infrastructure/documents/web_search.py: what holds whichever way a folder is searched."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.fakes.vector_store import MemoryVectorStore
from tests.support.folder_ways import Way, searching
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform.application.rag import retrieval
from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.domain.dtos.retrieval_dtos import Collection, EmbeddedPassage, IndexedDocument, Passage
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest, WebSearchResponse
from modules.llm_platform.domain.exceptions import PageTimeoutError, WebSearchConfigError, WebSearchTimeoutError
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval import whole_table
from modules.llm_platform.domain.retrieval.embeddable import NoneEmbedder
from modules.llm_platform.infrastructure.documents import folder_index, web_search
from modules.llm_platform.infrastructure.documents.folder import Listing
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.web_search import DEGRADED_FILES_NAMED, DocumentWebSearch
from modules.llm_platform.testing.waiting import START_TIMEOUT_S

Make = Callable[..., DocumentWebSearch]
BY_WORDS = NoneEmbedder.name  # says of each answer that it was found by words


@pytest.fixture
async def make(folder: Path, tmp_path: Path, way: Way) -> AsyncIterator[Make]:
    made: list[DocumentWebSearch] = []

    def make(**options: object) -> DocumentWebSearch:
        made.append(searching(way, folder, tmp_path / f"index{len(made)}", **options))
        return made[-1]

    yield make
    for adapter in made:
        await adapter.aclose()


async def search(adapter: DocumentWebSearch, query: str = "gateway", **fields: object) -> WebSearchResponse:
    """Return the answer without the note about keyword search, which has its own test."""
    answer = await adapter.search(WebSearchRequest(query=query, **fields))  # type: ignore[arg-type]
    told = tuple(degradation for degradation in answer.degraded if degradation.component != BY_WORDS)
    return answer.model_copy(update={"degraded": told})


async def test_each_format_is_searched(folder: Path, make: Make) -> None:
    """Markdown, text, HTML and PDF are searched. The snippet is a part of the text, and the title is the document's."""
    (folder / "a.md").write_text("---\nx: 1\n---\n# Markdown page\n\nThe gateway *restarts* here.\n")
    (folder / "b.txt").write_text("A text about the gateway.")
    (folder / "c.html").write_text("<title>Web page</title><p>The gateway in HTML.</p><p hidden>gateway secret</p>")
    (folder / "d.pdf").write_bytes(pdf("The gateway in a PDF.", title="Paper"))
    answer = await search(make())
    assert {item.title: item.snippet for item in answer.results} == {
        "Markdown page": "# Markdown page\n\nThe gateway *restarts* here.",
        "b": "A text about the gateway.",
        "Web page": "The gateway in HTML.",
        "Paper": "The gateway in a PDF.",
    }
    assert answer.total_matches == 4
    assert answer.degraded == ()
    assert {item.source for item in answer.results} == {"documents"}
    assert all(item.published_date is None and 0 <= (item.score or 0) <= 1 for item in answer.results)


async def test_a_whole_document_is_marked_as_whole(folder: Path, make: Make) -> None:
    """Comparing rows requires all rows."""
    rows = "".join(f"gateway {number},{number % 7},open\n" for number in range(400))
    (folder / "long.csv").write_text(f"name,failures,state\n{rows}")
    (folder / "short.csv").write_text("name,failures,state\ngateway a,1,open\ngateway b,2,closed\n")
    (folder / "plain.txt").write_text("A text about the gateway.")
    answer = await search(make())
    assert {item.title: item.is_whole for item in answer.results} == {"long": False, "short": True, "plain": True}


FILLER = (
    "The kitchen of this house is closed on Mondays, and in August the cook is away for two weeks of holidays. " * 20
)


async def test_a_short_document_comes_whole_beside_its_best_passage(folder: Path, make: Make) -> None:
    """The sentence that answers may have no word of the query. A long document would take too long to read."""
    text = f"The gateway restarts at night.\n\n{FILLER}\n\n{FILLER}\n\nThe warranty lasts three years."
    (folder / "short.txt").write_text(text)
    (folder / "long.txt").write_text("\n\n".join(["The gateway restarts at noon.", *[FILLER] * 5]))
    found = {item.title: item for item in (await search(make())).results}
    assert found["short"].document_text == text
    assert "warranty" not in found["short"].snippet
    assert found["long"].document_text is None


async def test_only_the_first_results_come_whole(folder: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_search, "MAX_WHOLE", 2)
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"The gateway restarts at {number}.")
    found = (await search(make())).results
    assert [item.document_text is not None for item in found] == [True, True, False, False]


async def test_a_whole_document_has_no_secret_and_is_not_in_the_json(folder: Path, make: Make) -> None:
    (folder / "short.txt").write_text(f"The gateway restarts at night.\n\n{FILLER}\n\nIts key is hunter2-secret.")
    (item,) = (await search(make(redactor=Redactor(["hunter2-secret"])))).results
    assert "Its key is" in (item.document_text or "")
    assert "hunter2" not in (item.document_text or "")
    assert not {"document_text", "document_pages"}.intersection(item.model_dump())


async def test_a_question_about_the_rows_of_a_table_gets_all_of_them(folder: Path, make: Make) -> None:
    """The passages that are nearest need not have the row with the most. Of the prose around a table only these are shown."""
    rows = [(f"gateway {number}", str(number % 97), "open") for number in range(200)]
    table = "".join(f"{','.join(row)}\n" for row in rows)
    (folder / "table.csv").write_text(f"name,failures,state\n{table}")
    (folder / "longer.csv").write_text(f"name,failures,state\n{table * 26}")
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    prose = (
        "A text about the gateways that this house has had, and about those that failed in the year before it was built. "
        * 2
    )
    far = (
        "The kitchen of this house is closed on Mondays, and in August the cook is away for two weeks of holidays at sea. "
        * 30
    )
    (folder / "text.md").write_text(
        f"# Gateways\n\n{prose}\n\n| name | failures | state |\n|---|---|---|\n{lines}\n{far}"
    )
    adapter = make()
    answer = await search(adapter, "Which gateway has the most failures?")
    assert {item.title: item.is_whole for item in answer.results} == {"table": True, "longer": False, "Gateways": True}
    for item in answer.results:
        assert all(f"| {' | '.join(row)} |" in item.snippet for row in rows) is item.is_whole
        assert "cook" not in item.snippet
    answer = await search(adapter, "Is a gateway open?")
    assert not any(item.is_whole for item in answer.results)


async def test_a_table_that_is_read_in_part_is_not_whole(
    folder: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows beyond the limit are missing, even if the earlier rows alone would fit without the repeated column names."""
    rows = "".join(f"gateway {number},{number},open\n" for number in range(400))
    (folder / "table.csv").write_text(f"name,failures,state\n{rows}")
    monkeypatch.setattr(whole_table, "MAX_READ_CHARS", 5000)
    answer = await search(make(), "Which gateway has the most failures?")
    assert [item.is_whole for item in answer.results] == [False]


@pytest.mark.parametrize(
    ("base_url", "prefix"),
    [
        (None, "doc:"),
        ("https://wiki.example.org", "https://wiki.example.org/"),
        ("https://x.org/d/", "https://x.org/d/"),
    ],
)
async def test_an_address_is_the_path_below_the_folder(
    folder: Path, make: Make, base_url: str | None, prefix: str
) -> None:
    """The address is escaped, so that a file name cannot end a link, and does not contain the server's path."""
    names = ["a b/ü (1).md", "a b/x#y?z%.md", 'q"<>.md', "new\nline.md", "]( http:evil.md"]
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("gateway")
    (folder / os.fsdecode(b"\xff.md")).write_text("gateway")
    answer = await search(make(base_url=base_url))
    urls = [item.url for item in answer.results]
    assert all(url.startswith(prefix) and str(folder) not in url for url in urls)
    assert all(url.isascii() and not set(url) & set(' \n"<>()[]#?') for url in urls)
    assert {unquote(url.removeprefix(prefix)) for url in urls} >= set(names)
    assert f"{prefix}%FF.md" in urls


async def test_unsupported_options_are_reported(folder: Path, make: Make) -> None:
    """Dates, engines, sites and other source kinds are ignored, and the answer says so. A language is not a filter."""
    (folder / "a.md").write_text("gateway")
    answer = await search(
        make(),
        freshness="oneDay",
        engines=("google",),
        domains=("x.org",),
        sources=("documents", "news", "academic"),
        language="de",
    )
    assert len(answer.results) == 1
    reasons = " ".join(entry.reason for entry in answer.degraded)
    assert len(answer.degraded) == 5
    for word in ("freshness", "engines", "domains", "news", "academic"):
        assert word in reasons
    assert (await search(make(), time_range="week")).degraded[0].component == "documents"
    assert (await search(make(), freshness="noLimit", sources=("web",))).degraded == ()


async def test_unreadable_files_are_named_and_the_list_is_bounded(folder: Path, make: Make) -> None:
    """The first unreadable files are listed with their reasons. Control characters of names are removed."""
    (folder / "good.md").write_text("gateway")
    (folder / "a\x1b.txt").write_bytes(b"\0\0\0")
    answer = await search(make())
    assert [(entry.component, entry.reason) for entry in answer.degraded] == [
        ("documents/a\ufffd.txt", "it is a binary file, not text")
    ]
    for number in range(DEGRADED_FILES_NAMED + 4):
        (folder / f"b{number}.md").write_text("")
    answer = await search(make())
    assert len(answer.results) == 1
    assert len(answer.degraded) == DEGRADED_FILES_NAMED + 1
    assert answer.degraded[-1].reason == "and 5 more files"


async def test_documents_are_listed_with_what_is_not_read(folder: Path, make: Make) -> None:
    """Documents are listed in the order of their addresses up to the limit, and unsupported files are counted."""
    (folder / "b.md").write_text("# Bats\n\ngateway")
    (folder / "a.md").write_text("# Owls\n\ngateway")
    (folder / "c\x1b.txt").write_bytes(b"\0\0\0")
    (folder / "d.odt").write_bytes(b"x")
    adapter = make()
    listed = await adapter.list_documents(10)
    assert [(document.title, document.url) for document in listed.documents] == [
        ("Owls", "doc:a.md"),
        ("Bats", "doc:b.md"),
    ]
    assert (listed.total, listed.reading, listed.unread[:6]) == (2, None, "1 file")
    assert [(problem.path, problem.is_partly_read) for problem in listed.problems] == [("c\ufffd.txt", False)]
    assert (listed.not_read, listed.partly_read) == (1, 0)
    fewer = await adapter.list_documents(1)
    assert (len(fewer.documents), fewer.total) == (1, 2)
    (folder / "b.md").write_text("# Other bats\n\ngateway")
    assert [document.title for document in (await adapter.list_documents(10)).documents] == ["Owls", "Other bats"]
    (folder / "a.md").unlink()
    assert [document.url for document in (await adapter.list_documents(10)).documents] == ["doc:b.md"]


async def test_a_collection_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no folder; one that is too large to be counted has no total."""
    store = MemoryVectorStore()
    await store.prepare(Collection(name="documents", embedder="words", dimension=0))
    for name, url in (("c.md", None), ("a.md", "https://example.org/a"), ("b.md", "javascript:alert(1)")):
        document = IndexedDocument(doc_id=name, sha256="0", passages=1, title=name.upper(), url=url)
        passage = Passage(id=name, doc_id=name, title=name, text="gateway")
        await store.replace("documents", document, [EmbeddedPassage(passage, ())])
    adapter = DocumentWebSearch(RetrievalService(NoneEmbedder(), store, "documents", top_k=5))
    listed = await adapter.list_documents(10)
    assert [(document.title, document.url) for document in listed.documents] == [
        ("A.MD", "https://example.org/a"),
        ("B.MD", "doc:b.md"),
        ("C.MD", "doc:c.md"),
    ]
    fewer = await adapter.list_documents(2)
    assert (listed.total, fewer.total, len(fewer.documents)) == (3, 3, 2)
    monkeypatch.setattr(retrieval, "MAX_LISTED_FROM", 2)
    assert (await adapter.list_documents(10)).total is None


async def test_a_secret_stands_in_no_answer(folder: Path, make: Make) -> None:
    """Secrets are removed from texts and file names."""
    (folder / "sk-12345678.md").write_text("# sk-12345678\n\ngateway sk-12345678")
    (folder / "x sk-12345678.txt").write_bytes(b"\0\0\0")
    answer = await search(make(redactor=Redactor(["sk-12345678"])))
    assert len(answer.results) == 1
    assert "sk-12345678" not in answer.model_dump_json()
    assert "sk-12345678" not in (await make(redactor=Redactor(["sk-12345678"])).list_documents(10)).model_dump_json()


async def test_a_folder_with_nothing_readable_is_an_error(folder: Path, make: Make) -> None:
    """That is likely a mistake, and an empty answer would hide it."""
    (folder / "a.xls").write_bytes(b"x")
    with pytest.raises(WebSearchConfigError, match="contains nothing that can be read"):
        await search(make())


async def test_pages(folder: Path, make: Make) -> None:
    """The second page continues where the first one ended."""
    for number in range(5):
        (folder / f"{number}.md").write_text("gateway " * (number + 1) + "words " * 20)
    adapter = make()
    first, second, third = [await search(adapter, count=2, page=page) for page in (1, 2, 3)]
    assert len({item.url for page in (first, second, third) for item in page.results}) == 5
    assert (first.total_matches, third.total_matches) == (None, 5)


async def test_the_question_is_read_in_its_language(folder: Path, make: Make) -> None:
    """Function words of the question's own language find nothing, whatever the requested language."""
    (folder / "a.md").write_text("was ist das für ein Text")
    assert (await search(make(), "Was ist das für ein Gateway?", language="en")).results == ()
    (folder / "b.md").write_text("异步编程")
    assert (await search(make(), "什么是异步编程？")).results[0].url == "doc:b.md"


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Folders are looked at once this is set."""
    may, look = threading.Event(), folder_index.list_folder

    def list_folder(*given: Any, **options: Any) -> Listing:
        assert may.wait(30)
        return look(*given, **options)

    monkeypatch.setattr(folder_index, "list_folder", list_folder)
    yield may
    may.set()


async def test_a_folder_that_takes_long_is_read_in_the_background(
    folder: Path, tmp_path: Path, blocked: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search ends at its deadline while reading continues in the background.

    Other searches are served, and a later search uses the result.
    """
    (folder / "a.md").write_text("gateway")
    index = searching("by words", folder, tmp_path / "kept").folder
    assert index
    adapter = DocumentWebSearch(index, timeout=0.1)
    with pytest.raises(WebSearchTimeoutError, match="still being read"):
        await search(adapter)
    with pytest.raises(PageTimeoutError) as caught:
        await DocumentPageReader(adapter).read("doc:a.md")
    assert caught.value.retryable
    assert await adapter.ping() == "0 documents so far, still reading"
    monkeypatch.setattr(web_search, "LISTING_S", 0.1)
    assert (await adapter.list_documents(10)).reading == 0
    blocked.set()
    await index.refresh()
    assert len((await search(DocumentWebSearch(index))).results) == 1
    await adapter.aclose()


async def test_health(folder: Path, tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Health reports the number of documents, or the fault of the setting."""
    monkeypatch.setattr(web_search, "PING_S", START_TIMEOUT_S)  # a busy machine may look at the folder for seconds
    (folder / "a.md").write_text("gateway")
    adapter = make()
    await search(adapter)
    assert await adapter.ping() == "1 document"
    missing = searching("by words", tmp_path / "nowhere", tmp_path / "kept")
    with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR"):
        await missing.ping()
    await missing.aclose()


async def test_a_single_file_is_searched(folder: Path, tmp_path: Path, way: Way) -> None:
    """Only this file is searched, under its name, and again after a change."""
    for name in ("a.md", "b.md"):
        (folder / name).write_text("The gateway restarts.")
    adapter = searching(way, folder / "a.md", tmp_path / "kept")
    assert [item.url for item in (await search(adapter)).results] == ["doc:a.md"]
    assert "restarts" in (await DocumentPageReader(adapter).read("doc:a.md")).text
    (folder / "a.md").write_text("The gateway sleeps for once.")
    assert "sleeps" in (await search(adapter)).results[0].snippet
    await adapter.aclose()


async def test_unsupported_types_are_reported(folder: Path, make: Make) -> None:
    """The message has their number and types."""
    (folder / "a.md").write_text("gateway")
    (folder / "b.xls").write_bytes(b"x")
    answer = await search(make())
    assert [degradation.reason for degradation in answer.degraded] == ["1 file of a type that is not read: 1 .xls"]
