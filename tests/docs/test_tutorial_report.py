"""The report tutorial's commands run and print the shown output, and the server accepts its requests."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from tests.docs.pages import files_in, sessions_in, shell, shows, text_of

from modules.llm_platform.domain.dtos.report_dtos import PlanRequest
from modules.llm_platform.presentation.cli.commands.plan import MENU, PROMPT
from modules.llm_platform.presentation.rest.research_routes import ResearchApiRequest

PAGE = "docs/tutorial-report.md"
MODELS = {"/research/plan": PlanRequest, "/research": ResearchApiRequest}


def blocks(step: int) -> list[str]:
    """Return the commands of one step."""
    text = text_of(PAGE).partition(f"\n## {step}. ")[2].partition("\n## ")[0]
    return re.findall(r"```bash\n(.*?)```", text, re.S)


@pytest.fixture(scope="module")
def first_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial")
    for block in (*blocks(1), *blocks(2)):
        shell(block, folder)
    return folder


@pytest.fixture
def notes(first_steps: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder after the first two steps."""
    return shutil.copytree(first_steps, tmp_path, dirs_exist_ok=True)


def test_the_report_is_the_one_that_is_shown(notes: Path) -> None:
    """Step 3 writes the shown report from the notes and the plan of the earlier steps."""
    (command, shown), _ = sessions_in(PAGE)
    printed = shell(command, notes)
    assert shows(shown, printed), printed


def test_the_report_is_kept(notes: Path) -> None:
    """Step 4 leaves a page and a list of sources."""
    shell(blocks(4)[0], notes)
    assert "<h2>Where is rain water kept?</h2>" in (notes / "report.html").read_text(encoding="utf-8")
    items = json.loads((notes / "sources.json").read_text(encoding="utf-8"))
    assert {item["URL"] for item in items} == {"doc:greenhouse.md", "doc:solar.md", "doc:water.md"}


def test_the_store_is_looked_at(notes: Path) -> None:
    """Step 6 lists, counts and exports the reports of the earlier steps."""
    shell(blocks(6)[0], notes)
    assert (notes / "reports.zip").stat().st_size > 0


def test_the_program_runs(notes: Path) -> None:
    """Step 8 prints the output shown below it."""
    (notes / "report.py").write_text(files_in(PAGE)["report.py"], encoding="utf-8")
    _, (command, shown) = sessions_in(PAGE)
    printed = shell(command.replace("python ", f"{sys.executable} "), notes)
    assert shows(shown, printed), printed


def test_the_server_takes_the_requests() -> None:
    """The routes accept the questions that curl sends in step 7."""
    commands = [shlex.split(line) for line in blocks(7)[1].splitlines()]
    sent = {next(word for word in words if "localhost" in word): words[words.index("-d") + 1] for words in commands}
    assert set(sent) == {f"localhost:8000{path}" for path in MODELS}
    for path, model in MODELS.items():
        assert model.model_validate_json(sent[f"localhost:8000{path}"]).query


def test_the_menu_is_the_one_that_is_shown() -> None:
    """The terminal shows the same menu as the page."""
    assert f"{MENU}\n{PROMPT}\n```" in text_of(PAGE)
