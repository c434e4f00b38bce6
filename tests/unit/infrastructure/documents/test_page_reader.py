"""infrastructure/documents/page_reader.py, and the addresses of documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.folder_ways import Way, reading, searching
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest
from modules.llm_platform.domain.exceptions import PageConfigError, PageError, PageRequestError
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.urls.canonical_url import is_openable
from modules.llm_platform.infrastructure.documents.addresses import DocumentAddresses
from modules.llm_platform.infrastructure.documents.page_reader import DocumentPageReader
from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

SITE = "https://docs.example.org/handbook"
NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)

Make = Callable[..., DocumentPageReader]


@pytest.fixture
async def make(folder: Path, tmp_path: Path, way: Way) -> AsyncIterator[Make]:
    made: list[DocumentWebSearch] = []

    def make(**options: object) -> DocumentPageReader:
        made.append(searching(way, folder, tmp_path / f"index{len(made)}", **options))
        return reading(made[-1], now=lambda: NOW)

    yield make
    for adapter in made:
        await adapter.aclose()


async def test_the_whole_document_is_the_page(folder: Path, make: Make) -> None:
    """Not the passage that a search shows: all of its text, with its title, kind, time and hash."""
    text = "\n\n".join(f"## Part {n}\n\nThe gateway has a part {n}." for n in range(200))
    (folder / "deep").mkdir()
    (folder / "deep" / "a b.md").write_text(f"---\ntitle: The gateway\n---\n{text}\n")
    page = await make().read("doc:deep/a%20b.md")
    assert page.text.strip() == text
    assert page.title == "The gateway"
    assert page.url == "doc:deep/a%20b.md"
    assert page.reader == "documents"
    assert page.media_type == "text/markdown"
    assert page.read_at == NOW
    assert page.sha256 == sha256(page.text.encode()).hexdigest()
    assert page.warning is None


async def test_each_format_is_a_page(folder: Path, make: Make) -> None:
    """Each format has its media type. HTML is read without invisible text."""
    (folder / "a.txt").write_text("A text about the gateway.")
    (folder / "b.HTML").write_text("<title>Web page</title><p>The gateway in HTML.</p><p hidden>gateway secret</p>")
    (folder / "c.pdf").write_bytes(pdf("The gateway in a PDF.", title="Paper"))
    reader = make()
    pages = [await reader.read(f"doc:{name}") for name in ("a.txt", "b.HTML", "c.pdf")]
    assert [page.media_type for page in pages] == ["text/plain", "text/html", "application/pdf"]
    assert [page.text for page in pages] == [
        "A text about the gateway.",
        "The gateway in HTML.",
        "The gateway in a PDF.",
    ]


@pytest.mark.parametrize("base_url", [None, SITE, SITE + "/"])
async def test_what_the_search_finds_can_be_read(folder: Path, tmp_path: Path, way: Way, base_url: str | None) -> None:
    """The address of a result leads to the text that its snippet was cut from, whatever the file is called."""
    for name in ("plain.md", "with blank.md", "#1?.md", "100%.md", "имя.md"):
        (folder / name).write_text(f"# A gateway\n\nThe gateway of {name} restarts.\n")
    adapter = searching(way, folder, tmp_path / "index", base_url=base_url)
    found = await adapter.search(WebSearchRequest(query="gateway restarts"))
    assert len(found.results) == 5
    reader = reading(adapter)
    for item in found.results:
        page = await reader.read(item.url)
        assert page.url == item.url
        assert item.snippet in page.text
    await adapter.aclose()


async def test_a_section_of_a_document_is_read_as_the_document(folder: Path, make: Make) -> None:
    """`#` and `?` end the path, and the `doc:` address refers to the same document."""
    (folder / "a.md").write_text("Text.")
    reader = make(base_url=SITE)
    urls = (f"{SITE}/a.md#part", f"{SITE}/a.md?plain=1#part", "doc:a.md")
    assert {(await reader.read(url)).url for url in urls} == {f"{SITE}/a.md"}


async def test_a_changed_document_is_read_anew(folder: Path, make: Make) -> None:
    """And one that was removed is gone."""
    (folder / "a.md").write_text("Old words.")
    reader = make()
    assert (await reader.read("doc:a.md")).text == "Old words."
    (folder / "a.md").write_text("New words of another length.")
    assert (await reader.read("doc:a.md")).text == "New words of another length."
    (folder / "a.md").unlink()
    with pytest.raises(PageError, match="no such document"):
        await reader.read("doc:a.md")


OUTSIDE = (
    "../secret.md",
    "/etc/passwd",
    "a/../../secret.md",
    "..%2Fsecret.md",
    "%2e%2e/secret.md",
    "..\\secret.md",
    "%2Fetc%2Fpasswd",
    "a.md%00",
    "sub/%2E%2E/%2e%2e/secret.md",
)


async def test_no_path_leaves_the_folder(folder: Path, make: Make) -> None:
    """However it is written, even where such a file is there; the message says nothing of it."""
    (folder.parent / "secret.md").write_text("The gateway's secret.")
    (folder / "a.md").write_text("Text.")
    for prefix, options in (("doc:", {}), (f"{SITE}/", {"base_url": SITE})):
        reader = make(**options)
        for path in OUTSIDE:
            with pytest.raises(PageRequestError) as caught:
                await reader.read(prefix + path)
            assert path not in caught.value.message


@pytest.mark.parametrize("name", [".hidden.md", "script.py", "link.md", "folder", ""])
async def test_only_what_is_searched_is_read(folder: Path, make: Make, name: str) -> None:
    """Hidden files, other formats, links that leave the folder and folders are no documents."""
    (folder.parent / "secret.md").write_text("The gateway's secret.")
    (folder / ".hidden.md").write_text("Hidden.")
    (folder / "script.py").write_text("print()")
    (folder / "folder").mkdir()
    (folder / "link.md").symlink_to(folder.parent / "secret.md")
    with pytest.raises(PageError):
        await make().read(f"doc:{name}")


async def test_other_addresses_are_refused(folder: Path, make: Make) -> None:
    """A web page is never a document, even if its address begins like the folder's."""
    reader = make(base_url=SITE)
    for url in ("https://example.org/a.md", SITE + "-other/a.md", "file:///etc/passwd", "a.md"):
        assert not reader.serves(url)
        with pytest.raises(PageRequestError):
            await reader.read(url)


async def test_a_document_that_cannot_be_read_says_why(folder: Path, make: Make) -> None:
    """In the words that the search has for it."""
    (folder / "a.md").write_bytes(b"\x00\x00\x02\xff\x00" * 100)
    with pytest.raises(PageError, match="it is a binary file"):
        await make().read("doc:a.md")


async def test_a_document_with_a_note_is_read_with_a_warning(folder: Path, make: Make) -> None:
    """The note about a guess becomes a warning."""
    (folder / "a.txt").write_bytes("Grüße aus dem Rechenzentrum".encode("cp1252"))
    page = await make().read("doc:a.txt")
    assert page.warning is not None
    assert "not UTF-8" in page.warning


async def test_a_secret_stands_in_no_page(folder: Path, make: Make) -> None:
    """A configured key that a document holds is not given out."""
    (folder / "a.md").write_text("The key is sk-0123456789abcdef.")
    page = await make(redactor=Redactor(["sk-0123456789abcdef"])).read("doc:a.md")
    assert "sk-0123456789abcdef" not in page.text


async def test_without_a_folder_the_setting_is_named(folder: Path, make: Make) -> None:
    """Not a missing page: no address would do."""
    folder.rmdir()
    with pytest.raises(PageConfigError, match="DOCUMENTS_DIR"):
        await make().read("doc:a.md")


PATHS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30)


@given(PATHS, st.sampled_from([None, SITE]))
def test_an_address_names_its_path(path: str, base_url: str | None) -> None:
    """From path to address and back, for every name that a file may have; the address may be shown."""
    addresses = DocumentAddresses(base_url)
    assert addresses.find_path(addresses.of(path)) == path
    assert is_openable(addresses.of(path))
    assert addresses.find_path("doc:" + quote(path)) == path
