"""The files that a command writes its answer to."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.options import WrongUseError
from modules.llm_platform.presentation.cli.output import OutputOptions


@pytest.mark.parametrize("other", ["answer.json", "folder/../answer.json", "link.json"])
def test_the_sources_do_not_replace_the_answer(tmp_path: Path, other: str) -> None:
    """One file under two names is refused before the answer costs anything; two files are fine."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "answer.json")
    console = Console(io.StringIO(), io.StringIO(), io.StringIO())
    with pytest.raises(WrongUseError, match="is also the file of --output"):
        OutputOptions(file=tmp_path / "answer.json", csl=tmp_path / other, prompts_enabled=False).check(console)
    OutputOptions(file=tmp_path / "answer.json", csl=tmp_path / "b.json", prompts_enabled=False).check(console)
