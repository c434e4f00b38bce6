"""`research --file`: the files go with the question; what cannot be sent is refused before anything runs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import typer
from tests.unit.presentation.cli.fakes import FakePlatform, wiring

from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES_BYTES, UploadedFile
from modules.llm_platform.presentation.cli.commands.research import read_files
from modules.llm_platform.presentation.cli.main import run


def test_files_and_model_reach_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each under its name, without its folder."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    (tmp_path / "a.md").write_text("A file")
    (tmp_path / "b.md").write_text("Another")
    platform = FakePlatform()
    paths = [str(tmp_path / name) for name in ("a.md", "b.md")]
    arguments = ["research", "What is it?", "--file", paths[0], "--file", paths[1], "--model", "fake/fake-1", "--json"]
    assert run(arguments, wiring(platform, model=True)) == 0
    [asked] = platform.research.requests
    assert asked.files == (UploadedFile(name="a.md", content=b"A file"), UploadedFile(name="b.md", content=b"Another"))
    assert asked.model == "fake/fake-1"
    assert "sources" not in asked.model_fields_set


def test_a_file_that_cannot_be_sent_is_wrong_use(tmp_path: Path) -> None:
    """The message names the path."""
    (tmp_path / "empty.md").touch()
    with (tmp_path / "large.md").open("wb") as large:
        large.truncate(MAX_FILES_BYTES + 1)
    for name, said in (("empty.md", "is empty"), ("large.md", "is larger than 10 MB"), ("gone.md", "cannot be read")):
        with pytest.raises(typer.BadParameter) as refused:
            read_files([tmp_path / name])
        assert said in refused.value.message
        assert name in refused.value.message
