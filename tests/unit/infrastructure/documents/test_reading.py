"""infrastructure/documents/reading.py"""

from __future__ import annotations

from pathlib import Path

import pytest

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.documents import reading
from modules.llm_platform.infrastructure.documents.folder import FoundFile, list_folder
from modules.llm_platform.infrastructure.documents.reading import read_text
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument
from modules.llm_platform.infrastructure.parsing.parser_process import Parsed


class Parser:
    """Returns its input as parsed text."""

    title: str | None = "Parsed title"

    def html(self, html: str) -> Parsed:
        return Parsed(html.replace("<p>", ""), self.title, "parsed")

    def file(self, kind: str, path: Path) -> Parsed:
        return Parsed(f"Text of {path.name}.", self.title)


def read(folder: Path, name: str, content: str | bytes, redactor: Redactor | None = None) -> Parsed:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_text(folder, list_folder(folder).files[name], Parser(), redactor or Redactor())


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.md", "# The *real* `title` #\n\nText.", "The real title"),
        ("a.md", "Intro.\n\n## [Linked](https://x.org) one\n", "Linked one"),
        ("a.md", "Underlined\n==========\nText.", "Underlined"),
        ("a.md", "---\ntitle: 'From: matter'\n---\n# Heading\n", "From: matter"),
        ("a.md", "---\ntitle: >-\n  From two\n  lines\ndate: 1\n---\n# Heading\n", "From two lines"),
        ("a.md", "---\ndate: 1\ntitle: |\n  From a block\n---\n# Heading\n", "From a block"),
        ("a.md", "---\nlayout: x\n---\n# Heading\n", "Heading"),
        ("a.md", '+++\ntitle = "From TOML"\ndraft = false\n+++\n# Heading\n', "From TOML"),
        ("a.md", "+++\ntitle = 5\n+++\n# Heading\n", "Heading"),
        ("getting-started_now.md", "Only text.", "getting started now"),
        ("---.txt", "Only text.", "document"),
        ("a.html", "<p>x", "Parsed title"),
        ("a.pdf", "x", "Parsed title"),
        ("a.txt", "x" * 6000 + "\n\n# Late\n", "a"),
    ],
)
def test_a_document_has_a_title(tmp_path: Path, name: str, content: str, title: str) -> None:
    """The title is the document's title, else its first heading, else its file name."""
    assert read(tmp_path, name, content).title == title


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("---\na: 1\n---\n\n# H\n\n*Text* with [link](x).\n", "\n# H\n\n*Text* with [link](x).\n"),
        ("---\n---\nText.", "Text."),
        ("---\ntags:\n- a\n# why\ndc:title: T\nlist: [\n  b,\n]\n---\nText.", "Text."),
        ("---\n# One\n\nFirst slide.\n---\n# Two\n", "---\n# One\n\nFirst slide.\n---\n# Two\n"),
        ("---\n# One\n---\n# Two\n", "---\n# One\n---\n# Two\n"),
        ("+++\ntags = ['a']\n[menu]\nname = 'x'\n+++\nText.", "Text."),
        ("+++\nA line of text.\n+++\nText.", "+++\nA line of text.\n+++\nText."),
        ("--- not matter\n\nText.", "--- not matter\n\nText."),
        ("Text.\n\n---\n\nMore.\n---\n", "Text.\n\n---\n\nMore.\n---\n"),
    ],
)
def test_markdown_stays_as_written(tmp_path: Path, content: str, text: str) -> None:
    """Quotes point into it: nothing but the front matter is taken away."""
    assert read(tmp_path, "a.md", content).text == text


def test_formats_go_to_their_parser(tmp_path: Path) -> None:
    """HTML and PDF are parsed, and remarks of the parser are kept."""
    assert read(tmp_path, "a.html", "<p>Page").text == "Page"
    assert read(tmp_path, "a.htm", "<p>Page").note == "parsed"
    assert read(tmp_path, "b.pdf", b"%PDF").text == "Text of b.pdf."


def test_a_secret_in_a_document_is_not_quoted(tmp_path: Path) -> None:
    """A configured key in a document is removed before the document is searched."""
    document = read(tmp_path, "a.md", "# Key sk-1234567890\n\nUse sk-1234567890.", Redactor(["sk-1234567890"]))
    assert "sk-1234567890" not in document.text + document.title


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [("a.md", " \n\n", "no text"), ("a.txt", b"\1\0\0\2" * 9, "binary"), ("a.md", "", "no text")],
)
def test_unreadable_files_are_reported(tmp_path: Path, name: str, content: str | bytes, word: str) -> None:
    """Empty and binary files."""
    with pytest.raises(UnreadableDocument, match=word):
        read(tmp_path, name, content)


def test_vanished_file_is_reported(tmp_path: Path) -> None:
    """Between looking and reading a file may vanish, or be forbidden to us."""
    with pytest.raises(UnreadableDocument, match="cannot be opened"):
        read_text(tmp_path, FoundFile("gone.md", (1, 1, 1, 1)), Parser(), Redactor())


def test_a_huge_file_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of a huge file is searched, and the answer says so. A huge PDF is left out."""
    monkeypatch.setattr(reading, "DOCUMENT_TEXT_BYTES", 1_000_000)
    monkeypatch.setattr(reading, "DOCUMENT_FILE_BYTES", 1_000_000)
    document = read(tmp_path, "a.txt", "äb " * 300_000)
    assert len(document.text.encode()) == 1_000_000
    assert document.note == "only its first 1 MB were read"
    with pytest.raises(UnreadableDocument, match="larger than 1 MB"):
        read(tmp_path, "a.pdf", b"x" * 1_000_001)


def test_an_unprintable_name_is_shown_safely(tmp_path: Path) -> None:
    """A file name may hold anything but a slash, a terminal's commands too."""
    assert read(tmp_path, "a\x1b[31m.txt", "Text.").title == "a\ufffd[31m"
