"""The command `documents` lists what is searched and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.presentation.cli.fakes import PlatformPart, part_wiring

from modules.llm_platform.domain.dtos.document_dtos import DocumentList, DocumentProblem, ListedDocument
from modules.llm_platform.presentation.cli import main
from modules.llm_platform.presentation.cli.commands import documents
from shared.config import Settings

LISTED = DocumentList(
    total=3,
    documents=(
        ListedDocument(title="Price list", url="doc:prices.csv"),
        ListedDocument(title="Setting up\x1b[2J a printer", url="doc:printer.md"),
    ),
    not_read=3,
    partly_read=1,
    problems=(
        DocumentProblem(path="letter.pdf", reason="it is encrypted"),
        DocumentProblem(path="orders.jsonl:12", reason="its last values are left out", is_partly_read=True),
    ),
    unread="1 file of a type that is not read: 1 .odt",
)
READING = DocumentList(total=None, reading=4)


class Platform(PlatformPart):
    """A platform that answers with these lists, one after the other."""

    reading = None

    def __init__(self, *lists: DocumentList) -> None:
        self._lists = list(lists)
        self.limits: list[int] = []

    async def list_documents(self, limit: int) -> DocumentList:
        self.limits.append(limit)
        return self._lists.pop(0)


def run(platform: Platform, *arguments: str) -> tuple[int, list[Settings]]:
    settings = list[Settings]()
    return main.run(["documents", *arguments], part_wiring(platform, settings)), settings


def test_documents_and_problems_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing in a title steers the terminal."""
    platform = Platform(LISTED)
    code, (settings,) = run(platform, "--documents", str(tmp_path), "--limit", "2")
    assert (code, platform.limits, settings.DOCUMENTS_DIR) == (0, [2], tmp_path)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert out.splitlines() == [
        "3 documents",
        "  doc:prices.csv  Price list",
        "  doc:printer.md  Setting up a printer",
        "  … and 1 more: --limit lists up to 1,000",
        "",
        "Not read: 3",
        "  letter.pdf: it is encrypted",
        "  … and 2 more: --limit lists up to 1,000",
        "",
        "Read in part: 1",
        "  orders.jsonl:12: its last values are left out",
        "",
        "1 file of a type that is not read: 1 .odt.",
    ]


def test_addresses_are_printed_as_the_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has them percent-encoded."""
    listed = DocumentList(total=1, documents=(ListedDocument(title="Menu", url="doc:caf%C3%A9%20menu.md"),))
    run(Platform(listed))
    assert capsys.readouterr().out.splitlines()[1] == "  doc:café menu.md  Menu"
    run(Platform(listed), "--json")
    assert json.loads(capsys.readouterr().out)["documents"][0]["url"] == "doc:caf%C3%A9%20menu.md"


def test_a_folder_that_is_being_read_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "POLL_S", 0.0)
    platform = Platform(READING, READING, LISTED)
    assert run(platform, "--json")[0] == 0
    assert json.loads(capsys.readouterr().out)["total"] == 3
    assert len(platform.limits) == 3


def test_without_documents_the_command_says_how_to_name_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Platform(DocumentList()))[0] == 0
    assert "llm-platform documents --documents DIR" in capsys.readouterr().out


def test_a_collection_that_was_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    run(Platform(LISTED.model_copy(update={"total": None})))
    assert capsys.readouterr().out.splitlines()[0] == "More than 2 documents"
