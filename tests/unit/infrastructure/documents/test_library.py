"""infrastructure/documents/library.py and results.py"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modules.llm_platform.domain.exceptions import WebSearchConfigError
from modules.llm_platform.domain.passages import split_passages
from modules.llm_platform.infrastructure.documents import library as library_module
from modules.llm_platform.infrastructure.documents.errors import UnreadableDocument
from modules.llm_platform.infrastructure.documents.folder import Listing
from modules.llm_platform.infrastructure.documents.index import Hit
from modules.llm_platform.infrastructure.documents.library import DocumentLibrary
from modules.llm_platform.infrastructure.documents.parser_process import Parsed
from modules.llm_platform.infrastructure.documents.reading import Document
from modules.llm_platform.infrastructure.documents.results import by_document


class Parser:
    """Counts what it reads; `bad` in a page makes it unreadable, `stop` stops the library in the midst of it."""

    def __init__(self) -> None:
        self.read = 0
        self.stopped = False
        self.library: DocumentLibrary | None = None

    @contextmanager
    def session(self) -> Iterator[Parser]:
        yield self

    def html(self, html: str) -> Parsed:
        self.read += 1
        if html == "stop" and self.library:
            self.library.stop()
        if html in ("bad", "stop"):
            raise UnreadableDocument("it is bad")
        return Parsed(html, None, "a remark" if "remark" in html else None)

    def file(self, kind: str, path: Path) -> Parsed:
        raise UnreadableDocument("no PDF today")

    def stop(self) -> None:
        self.stopped = True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def parser() -> Parser:
    return Parser()


@pytest.fixture
def library(tmp_path: Path, parser: Parser) -> DocumentLibrary:
    library = DocumentLibrary(tmp_path, parser=parser.session, clock=Clock())
    parser.library = library
    return library


def paths(library: DocumentLibrary, query: str = "word") -> list[str]:
    return [result.document.path for result in library.search(query, "en", 10, 1).results]


def later(library: DocumentLibrary) -> None:
    clock = library._clock
    assert isinstance(clock, Clock)
    clock.now += 2 * library_module.LOOK_AGAIN_SECONDS


def test_changes_are_seen(library: DocumentLibrary, tmp_path: Path) -> None:
    """Added, changed and removed files show in the next search after a moment."""
    (tmp_path / "a.md").write_text("word")
    assert paths(library) == ["a.md"]
    (tmp_path / "b.md").write_text("word")
    later(library)
    assert sorted(paths(library)) == ["a.md", "b.md"]
    (tmp_path / "a.md").write_text("another")
    (tmp_path / "b.md").unlink()
    later(library)
    assert paths(library) == []
    assert paths(library, "another") == ["a.md"]


def test_what_did_not_change_is_not_read_again(library: DocumentLibrary, tmp_path: Path, parser: Parser) -> None:
    """Readable or not, a file is read once for each of its contents."""
    (tmp_path / "a.html").write_text("word")
    (tmp_path / "b.html").write_text("bad")
    for _ in range(3):
        paths(library)
        later(library)
    assert parser.read == 2


@pytest.mark.parametrize(("took_s", "looks_of_five"), [(0.0, 5), (library_module.FREELY_SECONDS / 2, 5), (0.1, 1)])
def test_only_a_large_folder_is_not_looked_at_on_every_search(
    library: DocumentLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took_s: float, looks_of_five: int
) -> None:
    """A small one shows every change at once; in a large one looking takes a share of the time, not all of it."""
    looks = []

    def look(folder: Path) -> Listing:
        looks.append(folder)
        assert isinstance(library._clock, Clock)
        library._clock.now += took_s
        return real(folder)

    real = library_module.list_folder
    monkeypatch.setattr(library_module, "list_folder", look)
    for _ in range(5):
        paths(library)
    assert len(looks) == looks_of_five
    later(library)
    paths(library)
    assert len(looks) == looks_of_five + 1


def test_words_about_bad_files_come_and_go(library: DocumentLibrary, tmp_path: Path) -> None:
    """Each unreadable file has its word until it is readable or gone."""
    (tmp_path / "a.html").write_text("bad")
    (tmp_path / "b.pdf").write_bytes(b"x")
    (tmp_path / "c.html").write_text("word with a remark")
    (tmp_path / "d.md").symlink_to(tmp_path / "gone.md")
    found = library.search("word", "en", 10, 1)
    assert dict(found.words) == {
        "a.html": "it is bad", "b.pdf": "no PDF today", "c.html": "a remark", "d.md": "it is a link that leads nowhere",
    }  # fmt: skip
    assert found.documents == 1
    for name in ("b.pdf", "c.html", "d.md"):
        (tmp_path / name).unlink()
    (tmp_path / "a.html").write_text("good word")
    later(library)
    assert dict(library.search("word", "en", 10, 1).words) == {}


def test_stopping_ends_reading(library: DocumentLibrary, tmp_path: Path, parser: Parser) -> None:
    """What was not read because of it is not taken for unreadable."""
    for name in ("a.html", "b.html", "c.html"):
        (tmp_path / name).write_text("stop" if name == "a.html" else "word")
    library.refresh()
    assert parser.stopped
    assert parser.read == 1
    assert library.documents == 0
    assert "a.html" not in library._stamps


def test_more_text_than_fits_is_left_out(
    library: DocumentLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded, and forgetting a document makes room."""
    monkeypatch.setattr(library_module, "MAX_TEXT_CHARS", 10)
    (tmp_path / "a.md").write_text("word " * 10)
    (tmp_path / "b.md").write_text("word")
    found = library.search("word", "en", 10, 1)
    assert found.documents == 1
    assert "more text" in found.words["b.md"]


def test_a_missing_folder_names_the_setting(tmp_path: Path) -> None:
    """An operator's mistake, told without a path of the server."""
    library = DocumentLibrary(tmp_path / "nowhere")
    with pytest.raises(WebSearchConfigError, match="DOCUMENTS_DIR") as raised:
        library.search("word", "en", 10, 1)
    assert str(tmp_path) not in raised.value.message


def test_pages_follow_each_other(library: DocumentLibrary, tmp_path: Path) -> None:
    """No document stands on two pages, and the last page knows that it is the last."""
    for number in range(7):
        (tmp_path / f"{number}.md").write_text("word " * (number + 1) + "other " * 30)
    pages = [library.search("word", "en", 3, page) for page in (1, 2, 3, 4)]
    shown = [result.document.path for page in pages for result in page.results]
    assert sorted(shown) == [f"{number}.md" for number in range(7)]
    assert [page.more for page in pages] == [True, True, False, False]


def test_neighbours_that_answer_too_are_shown_together() -> None:
    """One contiguous stretch for each document: its best passage and up to two beside it that are nearly as good."""
    text = "\n\n".join(f"## H{number}\n\n" + f"Word {number} here. " * 30 for number in range(6))
    document = Document("a.md", "A", text, tuple(split_passages(text)))
    other = Document("b.md", "B", text, document.passages)
    assert len(document.passages) == 6
    scores = [(document, 3, 8.0), (document, 2, 7.0), (other, 0, 6.5), (document, 4, 6.0), (document, 1, 5.0), (other, 1, 1.0)]
    hits = [Hit(*score) for score in scores]
    first, second = by_document(hits)
    assert first.text == text[document.passages[2].start : document.passages[4].end]
    assert second.text == text[: document.passages[0].end]
    assert 1 > first.score > second.score > 0
