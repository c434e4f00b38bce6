"""Which questions are asked, and where their outcomes lie."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from arena.questions import MORE_QUESTIONS, read_questions
from arena.run import load_web, main
from arena.server import Ports
from arena.web import MAX_MANUAL_PAGES
from tests.support.cases import for_each

PORTS = Ports(8790, 8791, 8792)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of outcomes, and more manuals than the web takes. One is a page of the keys of both files."""
    manuals = tmp_path / "docs" / "git-doc"
    manuals.mkdir(parents=True)
    for name in ("git-daemon", *range(MAX_MANUAL_PAGES)):
        (manuals / f"{name}.html").write_text(f"<title>{name}</title>", encoding="utf-8")
    monkeypatch.setenv("ARENA_DOCS", str(tmp_path / "docs"))
    monkeypatch.setenv("ARENA_HOME", str(tmp_path))
    monkeypatch.setenv("ARENA_PORT", str(PORTS.pages))
    for name in ("ARENA_PAGES", "ARENA_MODEL", "ARENA_MODEL_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@for_each(("options", "answered"), [((), False), (("--more",), True)])
def test_the_further_questions_have_outcomes_of_their_own(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    answered: bool,
) -> None:
    """They are asked over the web of the sixty, which their pages do not change, and are not in the table of the sixty."""
    asked = read_questions(MORE_QUESTIONS)[0]
    outcome = {
        "player": "ours-quotes", "id": asked.id, "question": asked.text, "web": load_web(read_questions(), PORTS).digest,
        "answer": "-n", "error": "", "seconds": 1.0, "wall_s": 1.0, "calls": 0, "prompt_tokens": 0,
        "completion_tokens": 0, "cached_tokens": 0, "strangers": [], "load": 1.0,
    }  # fmt: skip
    folder = home / "runs" / "no-model-more" / "ours-quotes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{asked.id}.json").write_text(json.dumps(outcome), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["run", "--table", *options])
    main()
    assert ("1 of 1" in capsys.readouterr().out) == answered


def test_the_page_of_the_documentation_is_kept_for_the_sixty(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of the further questions would replace the table of the sixty."""
    page = home / "page.md"
    page.write_text("kept", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["run", "--table", "--more", "--page", str(page)])
    with pytest.raises(SystemExit):
        main()
    assert page.read_text(encoding="utf-8") == "kept"


def test_the_check_reads_both_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have questions about manuals that are not there."""
    monkeypatch.setattr(sys, "argv", ["run", "--check"])
    with pytest.raises(SystemExit) as told:
        main()
    missing = {line.split(":")[0] for line in str(told.value).splitlines()}
    assert {"single-01", "more-single-01"} <= missing
