"""The command `index`: for people, for programs, and what becomes of bad files."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest
import typer
from tests.unit.presentation.cli.fakes import no_worker

from modules.llm_platform.domain.dtos.indexing_dtos import IndexProblem, IndexProgress, IndexReport
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.index_command import IndexOptions, index, run_index
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import Settings

REPORT = IndexReport(
    collection="documents", embedder="hash/64", added=2, changed=1, unchanged=4, failed=1, removed=3, passages=9,
    problems=(IndexProblem(where="notes/\x1b[2Jbad.md", reason="it is broken"),), problem_count=1,
)  # fmt: skip
STEPS = (
    IndexProgress(documents=1, passages=2, done_bytes=10, total_bytes=40),
    IndexProgress(documents=8, passages=9, done_bytes=40, total_bytes=40),
)


class Ended(NamedTuple):
    code: object
    out: str
    err: str
    settings: Settings | None
    asked: tuple[Sequence[Path], bool] | None


class Platform:
    """A platform that indexes nothing, and tells that it did."""

    def __init__(self, outcome: IndexReport | BaseException) -> None:
        self.indexing = self
        self.asked: tuple[Sequence[Path], bool] | None = None
        self._outcome = outcome

    async def index(
        self, paths: Sequence[Path], *, prune: bool = False
    ) -> AsyncGenerator[IndexProgress | IndexReport, None]:
        self.asked = paths, prune
        for step in STEPS:
            yield step
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        yield self._outcome

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wiring(platform: Any, given: list[Settings] | None = None) -> Wiring:
    def build(settings: Settings) -> Any:
        if given is not None:
            given.append(settings)
        return platform

    return Wiring(build, lambda settings: (), lambda settings: False, lambda settings: None, no_worker)


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(*arguments: str, outcome: IndexReport | BaseException = REPORT) -> Ended:
        platform, given = Platform(outcome), list[Settings]()
        app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command(cls=options.Command)(index)
        code: object = 0
        try:
            app(args=list(arguments) or [str(tmp_path)], obj=wiring(platform, given))
        except SystemExit as leaving:
            code = leaving.code
        said = capsys.readouterr()
        return Ended(code, said.out, said.err, given[0] if given else None, platform.asked)

    return call


def test_people_are_told_what_was_done(run: Run) -> None:
    """Counts that are not zero on standard output, bad files on standard error, without what could steer a terminal."""
    ended = run()
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "7 documents in the collection documents",
        "2 new, 1 changed, 4 unchanged, 1 left out, 3 removed",
        "9 passages written, by hash/64",
    ]
    assert "\x1b" not in ended.err
    assert ended.err.rstrip().endswith("bad.md: it is broken")


def test_programs_get_json(run: Run, tmp_path: Path) -> None:
    """And nothing else."""
    told = json.loads(run("--json", str(tmp_path)).out)
    assert (told["added"], told["unchanged"], told["problems"][0]["reason"]) == (2, 4, "it is broken")


def test_what_is_asked_for(run: Run, tmp_path: Path) -> None:
    """Paths, collection, pruning, staying on this machine."""
    other = tmp_path / "x.jsonl"
    other.write_text("")
    ended = run(str(tmp_path), str(other), "--collection", "mine", "--prune", "--offline")
    assert ended.asked == ((tmp_path, other), True)
    assert ended.settings is not None
    assert (ended.settings.QDRANT_COLLECTION, ended.settings.LLM_PLATFORM_OFFLINE) == ("mine", True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["nowhere"], "nowhere"), (["."], "--collection"), (["--prune"], "PATH"), ([""], "empty"), (["x\0y"], "not there")],
)
def test_wrong_use(run: Run, arguments: list[str], says: str) -> None:
    """A path that is not there, a name that is none, no path at all: exit code 2 before anything is done."""
    more = ["--collection", "a/b"] if says == "--collection" else []
    ended = run(*arguments, *more)
    assert (ended.code, ended.asked) == (2, None)
    assert says in ended.err


def test_nothing_that_could_be_indexed_is_a_failure(run: Run) -> None:
    """Where there was something, the reasons have been told."""
    ended = run(outcome=IndexReport(collection="documents", embedder="none", failed=2))
    assert ended.code == 1
    assert "the lines above say why" in ended.err


def test_an_index_of_keywords_that_nobody_asked_for_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where wordllama has no package, one line says so; with EMBEDDER=none it is what was asked for."""
    outcome = IndexReport(collection="documents", embedder="none", added=1)
    monkeypatch.setattr("modules.llm_platform.domain.wheels.platform.machine", lambda: "riscv64")
    assert "indexed for words alone" in run(".", outcome=outcome).err
    monkeypatch.setenv("EMBEDDER", "none")
    assert "indexed for words alone" not in run(".", outcome=outcome).err


def test_nothing_to_index_is_a_failure(run: Run) -> None:
    """Nobody means an empty folder."""
    ended = run(outcome=IndexReport(collection="documents", embedder="none"))
    assert (ended.code, "no document was found" in ended.err) == (1, True)


def test_a_failure_is_one_line(run: Run) -> None:
    """With the remedy."""
    ended = run(outcome=VectorStoreConfigError("another process is writing: wait"))
    assert (ended.code, ended.err.splitlines()[-1]) == (1, "llm-platform: another process is writing: wait")


def test_ctrl_c_says_what_is_kept(run: Run) -> None:
    """Exit code 130."""
    ended = run(outcome=KeyboardInterrupt())
    assert (ended.code, "what was indexed is kept" in ended.err) == (130, True)


def test_many_problems_are_not_all_told(run: Run) -> None:
    """The rest is a number; --json has them."""
    problems = tuple(IndexProblem(where=f"f{n}.md", reason="it is broken") for n in range(30))
    ended = run(outcome=REPORT.model_copy(update={"problems": problems, "problem_count": 300}))
    assert ended.err.splitlines()[-1] == "and 280 more"
    assert "f19.md" in ended.err
    assert "f20.md" not in ended.err


def test_a_bar_for_a_person_who_watches(tmp_path: Path) -> None:
    """On standard error, and gone at the end."""
    out, err = io.StringIO(), Terminal()
    run_index(Console(out, err), wiring(Platform(REPORT)), IndexOptions([tmp_path]), as_json=False)
    assert "8 documents, 9 passages written" in err.getvalue()
    assert "100%" in err.getvalue()
    assert "%" not in out.getvalue()


def test_what_other_folders_lost_is_told(run: Run) -> None:
    """On standard error, with the remedy; nothing is said where nothing was lost."""
    assert "folder" not in run().err
    ended = run(outcome=REPORT.model_copy(update={"displaced": 2, "removed_elsewhere": 1}))
    assert ended.code == 0
    assert "replaced documents of another folder with the same path below it: 2." in ended.err
    assert "common parent" in ended.err
    assert "removed documents of folders that were not named: 1." in ended.err
    assert "--collection" in ended.err
