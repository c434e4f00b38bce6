"""Files of a request: their names lead out of no folder, their content is base64, their number and sizes are bounded."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES, MAX_FILES_BYTES, MAX_NAME_CHARS, clean_name

TEXT = base64.b64encode(b"Barn owls hunt mice.").decode()


def request(*files: dict[str, Any]) -> ResearchRequest:
    return ResearchRequest.model_validate({"query": "What do owls hunt?", "files": files})


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("a.pdf", "a.pdf"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Users\\me\\My report.docx", "My report.docx"),
        ("/", "file"),
        ("..", "file"),
        (" \t\n", "file"),
        (".pdf", "pdf"),
        ("a\x00\x1b[31m\u202egpj.md", "a [31m gpj.md"),
        ("x" * 500 + ".md", "x" * (MAX_NAME_CHARS - 3) + ".md"),
        ("Отчёт 2026.md", "Отчёт 2026.md"),
    ],
)
def test_a_name_is_its_last_part(sent: str, name: str) -> None:
    """Without folders, control characters and signs that turn the direction of text; of bounded length."""
    assert clean_name(sent) == name


def test_two_files_have_two_names() -> None:
    """Equal names would overwrite each other, also on systems that ignore case."""
    files = request(*({"name": name, "content": TEXT} for name in ("a.md", "A.md", "x/a.md", "a (2).md"))).files
    assert [file.name for file in files] == ["a.md", "A (2).md", "a (3).md", "a (2) (2).md"]
    assert files[0].content == b"Barn owls hunt mice."


@pytest.mark.parametrize(
    ("files", "position"),
    [
        ([{"name": "a.md", "content": "not base64!"}], ("files", 0, "content")),
        ([{"name": "a.md", "content": TEXT[:-1]}], ("files", 0, "content")),
        ([{"name": "a.md", "content": TEXT + "\n"}], ("files", 0, "content")),
        ([{"name": "a.md", "content": "ünïcode"}], ("files", 0, "content")),
        ([{"name": "a.md", "content": ""}], ("files", 0, "content")),
        ([{"name": "a.md", "content": 7}], ("files", 0, "content")),
        ([{"name": "a.md", "content": [1, 2]}], ("files", 0, "content")),
        ([{"name": "", "content": TEXT}], ("files", 0, "name")),
        ([{"name": "a" * 1001, "content": TEXT}], ("files", 0, "name")),
        ([{"content": TEXT}], ("files", 0, "name")),
        ([{"name": "a.md"}], ("files", 0, "content")),
        (["a.md"], ("files", 0)),
        ([{"name": "a.md", "content": TEXT}] * (MAX_FILES + 1), ("files",)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_file_is_refused(files: list[Any], position: tuple[Any, ...]) -> None:
    """The error names the place, and has nothing of the content."""
    with pytest.raises(ValidationError) as refused:
        request(*files)
    details = refused.value.errors(include_url=False, include_context=False, include_input=False)
    assert [detail["loc"] for detail in details] == [position]
    assert "not base64!" not in str(details)


def test_the_size_is_that_of_all_files_together() -> None:
    half = base64.b64encode(b"x" * (MAX_FILES_BYTES // 2)).decode()
    halves = [{"name": "a.md", "content": half}, {"name": "b.md", "content": half}]
    assert len(request(*halves).files) == 2
    with pytest.raises(ValidationError, match="at most 10 MB all together"):
        request(*halves, {"name": "c.md", "content": TEXT})


def test_a_request_shows_no_content_of_its_files() -> None:
    """Content appears neither in the repr, which may be logged, nor in the stored request."""
    asked = request({"name": "a.md", "content": TEXT})
    assert "Barn owls" not in repr(asked)
    assert TEXT in asked.model_dump_json()  # the only place: a caller who writes the request as JSON
