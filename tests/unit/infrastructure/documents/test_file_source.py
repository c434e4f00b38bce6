"""infrastructure/documents/file_source.py and json_lines.py"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.infrastructure.parsing.pdf_samples import pdf

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, FoundDocument, LeftOut
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.documents import json_lines
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource, FolderReading
from modules.llm_platform.infrastructure.documents.folder import list_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "sub dir").mkdir(parents=True)
    (folder / "heat.md").write_text("---\ntitle: Heating\n---\nThe heat pump draws four kilowatts.\n")
    (folder / "sub dir" / "wasser.txt").write_text("Der Tank ist nicht so groß wie das Haus.\n")
    (folder / "page.html").write_text("<title>Page</title><body><h1>Roof</h1><p>The roof is solar.</p></body>")
    (folder / "paper.pdf").write_bytes(pdf("The paper is thin.", title="Paper"))
    (folder / "program.py").write_text("pass")
    return folder


def walked(
    *paths: Path, **options: Any
) -> tuple[list[FoundDocument], list[LeftOut], dict[str, DocumentText | LeftOut]]:
    """Return the found documents, the skipped files, and the texts by id."""
    walk = FileDocumentSource(**options).walk(paths)
    try:
        all_of_it = list(walk)
        found = [entry for entry in all_of_it if isinstance(entry, FoundDocument)]
        left = [entry for entry in all_of_it if isinstance(entry, LeftOut)]
        assert [document.position for document in found] == sorted(document.position for document in found)
        assert all(document.position <= walk.total_bytes for document in found)
        return found, left, {document.doc_id: document.read() for document in found}
    finally:
        walk.close()
        walk.close()


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(value if isinstance(value, str) else json.dumps(value) + "\n" for value in values))
    return path


def text(read: DocumentText | LeftOut) -> DocumentText:
    assert isinstance(read, DocumentText), read
    return read


class TestOrigins:
    """Documents of different folders are distinguished by their origin."""

    def test_a_folder_is_the_same_by_any_of_its_names(self, folder: Path, tmp_path: Path) -> None:
        """Also through a link, or by one of its files; no path can be read out of it."""
        (tmp_path / "link").symlink_to(folder)
        origins = {
            document.origin for path in (folder, tmp_path / "link", folder / "heat.md") for document in walked(path)[0]
        }
        (origin,) = origins
        assert origin is not None
        assert re.fullmatch(r"[0-9a-f]{16}", origin)

    def test_two_folders_are_two(self, folder: Path) -> None:
        """Also where one lies in the other, since ids are paths below it."""
        source = FileDocumentSource()
        walk = source.walk([folder, folder / "sub dir"])
        try:
            assert len(walk.origins) == 2
            assert {entry.origin for entry in walk if isinstance(entry, FoundDocument)} == set(walk.origins)
        finally:
            walk.close()

    def test_only_paths_are_qualified(self, folder: Path) -> None:
        """A line has its own id and replaces the line of another folder with the same id.

        A file of lines has no origin above it.
        """
        file = lines(folder / "a.jsonl", {"doc_id": "a", "text": "x"})
        (line,) = walked(file)[0]
        (text,) = walked(folder / "heat.md")[0]
        assert line.qualified is None
        assert line.origin != text.origin
        assert text.qualified is not None
        assert text.qualified().doc_id == f"notes-{(text.origin or '')[:6]}/heat.md"
        assert text.qualified().digest != text.digest
        assert FileDocumentSource().walk([file, folder / "heat.md"]).origins == {line.origin}


class TestKnown:
    """Files whose digest was noted when they were as they are now."""

    def test_they_are_not_opened(self, folder: Path) -> None:
        """Their digest is the one that was noted; another stamp is another file."""
        listing = list_folder(folder)
        stamp = listing.files["heat.md"].stamp
        for known_as, is_it in ((stamp, True), ((*stamp[:3], stamp[3] + 1), False)):
            walk = FileDocumentSource().walk([folder], FolderReading({"heat.md": (known_as, "noted")}))
            try:
                digests = {entry.doc_id: entry.digest for entry in walk if isinstance(entry, FoundDocument)}
            finally:
                walk.close()
            assert (digests.pop("heat.md") == "noted") is is_it
            assert "noted" not in digests.values()


class TestFiles:
    def test_each_kind_is_read(self, folder: Path) -> None:
        """Known by its path below the folder, in a fixed order; other files are passed over."""
        found, left, read = walked(folder)
        assert [document.doc_id for document in found] == ["heat.md", "page.html", "paper.pdf", "sub dir/wasser.txt"]
        assert left == []
        assert [text(document).title for document in read.values()] == ["Heating", "Page", "Paper", "wasser"]
        assert text(read["heat.md"]).text.strip() == "The heat pump draws four kilowatts."
        assert text(read["page.html"]).text.startswith("# Roof")
        assert text(read["sub dir/wasser.txt"]).url == "doc:sub%20dir/wasser.txt"

    def test_files_have_filters(self, folder: Path) -> None:
        """The folder's name and the kind of document; the id is added to every document."""
        _, _, read = walked(folder)
        assert text(read["page.html"]).fields == {
            "source": ("notes",),
            "doc_type": ("html",),
        }
        assert text(read["page.html"]).source == "notes"

    def test_addresses_below_a_site(self, folder: Path) -> None:
        """If the folder is published on a site, documents have its addresses.

        The digest depends on the address, which each passage contains.
        """
        ours, _, _ = walked(folder)
        theirs, _, read = walked(folder, base_url="https://wiki.example.org/")
        assert text(read["heat.md"]).url == "https://wiki.example.org/heat.md"
        assert not {document.digest for document in ours} & {document.digest for document in theirs}

    def test_the_digest_is_that_of_the_content(self, folder: Path) -> None:
        """Another time of writing changes nothing, another letter does."""
        before = {document.doc_id: document.digest for document in walked(folder)[0]}
        os.utime(folder / "heat.md", (0, 0))
        (folder / "page.html").write_text("<p>Something else.")
        after = {document.doc_id: document.digest for document in walked(folder)[0]}
        assert [doc_id for doc_id in before if before[doc_id] != after[doc_id]] == ["page.html"]

    def test_a_file_by_itself(self, folder: Path) -> None:
        """Is known by its name, as in its folder."""
        found, _, read = walked(folder / "heat.md")
        assert [document.doc_id for document in found] == ["heat.md"]
        assert text(read["heat.md"]).source == "notes"

    def test_no_secret_and_no_half_letters(self, folder: Path) -> None:
        """Keys are taken out of text, title and path; a name that is no UTF-8 gets a replacement."""
        (folder / "sk-secret-1.md").write_text("# sk-secret-1\n\nThe key is sk-secret-1.")
        (Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.md"))).write_text("Readable.")
        _, _, read = walked(folder, redactor=Redactor(["sk-secret-1"]))
        assert "sk-secret" not in repr(read)
        assert "bad?.md" in read


class TestWhatCannotBeRead:
    def test_bad_files_are_named(self, folder: Path) -> None:
        """Each file is reported with its reason and id, so that it does not count as removed."""
        (folder / "binary.md").write_bytes(b"\0\1\2" * 50)
        (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
        (folder / "out.md").symlink_to("/etc/hostname")
        _, left, read = walked(folder)
        bad = {doc_id: left_out for doc_id, left_out in read.items() if isinstance(left_out, LeftOut)}
        assert bad.keys() == {"binary.md", "broken.pdf"}
        assert all(left_out.hides == doc_id and left_out.reason for doc_id, left_out in bad.items())
        assert [(left_out.where, left_out.hides) for left_out in left] == [(str(folder / "out.md"), "out.md")]

    def test_an_empty_file(self, folder: Path) -> None:
        """An empty file is a document without words, and its earlier passages can be removed."""
        (folder / "empty.txt").write_text(" \n")
        _, _, read = walked(folder)
        empty = read["empty.txt"]
        assert isinstance(empty, DocumentText)
        assert empty.text == ""

    def test_a_file_that_goes_meanwhile(self, folder: Path) -> None:
        """Is left out in words."""
        walk = FileDocumentSource().walk([folder])
        (folder / "heat.md").unlink()
        left = [entry for entry in walk if isinstance(entry, LeftOut)]
        assert [(left_out.hides, left_out.reason) for left_out in left] == [
            ("heat.md", "it cannot be opened (No such file or directory)")
        ]

    @pytest.mark.parametrize(("name", "hides"), [("nowhere", ""), ("program.py", None)])
    def test_a_missing_path(self, folder: Path, name: str, hides: str | None) -> None:
        """The former contents of a missing path are unknown."""
        found, left, _ = walked(folder / name)
        assert (found, [left_out.hides for left_out in left]) == ([], [hides])

    def test_other_than_regular_files_are_reported(self, folder: Path) -> None:
        """A pipe would keep us waiting for ever."""
        os.mkfifo(folder / "pipe.md")
        assert walked(folder / "pipe.md")[0] == []

    def test_a_stopped_walk_reads_no_page(self, folder: Path) -> None:
        """After `stop` what needs the parser fails at once."""
        walk = FileDocumentSource().walk([folder])
        found = {entry.doc_id: entry for entry in walk if isinstance(entry, FoundDocument)}
        walk.stop()
        assert isinstance(found["paper.pdf"].read(), LeftOut)
        walk.close()


class TestJsonLines:
    def test_each_line_is_a_document(self, tmp_path: Path) -> None:
        """Each line has its own id and fields. Blank lines and a byte order mark are ignored."""
        file = tmp_path / "x.jsonl"
        file.write_bytes(
            b'\xef\xbb\xbf{"doc_id": "a", "title": "A", "text": "one", "tags": ["x", "y"]}\n\n'
            b'{"doc_id": "b", "text": "two", "url": "https://example.org/b"}'
        )
        found, left, read = walked(file)
        assert [(document.doc_id, document.where, document.position) for document in found] == [
            ("a", f"{file}:1", 68),
            ("b", f"{file}:3", file.stat().st_size),
        ]
        assert left == []
        assert text(read["a"]).fields["tags"] == ("x", "y")
        assert text(read["b"]).url == "https://example.org/b"

    def test_bad_lines_are_named_and_passed_over(self, tmp_path: Path) -> None:
        """By their number; a record whose id is readable is not taken for gone."""
        file = lines(
            tmp_path / "x.ndjson", "{broken\n", {"doc_id": "a", "text": "one"}, "[]\n", {"doc_id": "b"}, "\xff\n"
        )
        found, left, read = walked(file)
        assert [left_out.where for left_out in left] == [f"{file}:1", f"{file}:3", f"{file}:5"]
        assert [document.doc_id for document in found] == ["a", "b"]
        assert isinstance(read["b"], LeftOut)

    def test_a_line_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is passed over without being held, and the next one is read."""
        monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 100)
        file = lines(tmp_path / "x.jsonl", {"text": "x" * 1000}, {"doc_id": "a", "text": "one"}, {"text": "x" * 90})
        found, left, _ = walked(file)
        assert [left_out.where for left_out in left] == [f"{file}:1", f"{file}:3"]
        assert [(document.doc_id, document.where) for document in found] == [("a", f"{file}:2")]

    def test_secrets_are_taken_out(self, tmp_path: Path) -> None:
        """Also where JSON spells them in escapes."""
        file = tmp_path / "x.jsonl"
        file.write_text('{"doc_id": "a", "text": "sk-secret-1 and sk-\\u0073ecret-1", "note": "sk-secret-1"}\n')
        _, _, read = walked(file, redactor=Redactor(["sk-secret-1"]))
        assert text(read["a"]).text == "[redacted] and [redacted]"
        assert text(read["a"]).fields["note"] == ("[redacted]",)

    def test_a_file_that_cannot_be_opened_hides_anything(self, tmp_path: Path) -> None:
        """The contents of an unreadable file are unknown, so none of its documents counts as removed."""
        file = lines(tmp_path / "x.jsonl", {"text": "x"})
        walk = FileDocumentSource().walk([file])
        file.unlink()
        assert [left_out.hides for left_out in _left(list(walk))] == [""]

    def test_among_other_files(self, folder: Path) -> None:
        """A folder may hold both."""
        lines(folder / "more.jsonl", {"doc_id": "a", "text": "one"})
        assert [document.doc_id for document in walked(folder)[0]] == [
            "heat.md",
            "a",
            "page.html",
            "paper.pdf",
            "sub dir/wasser.txt",
        ]


def _left(walked: Sequence[FoundDocument | LeftOut]) -> list[LeftOut]:
    return [entry for entry in walked if isinstance(entry, LeftOut)]
