"""The command `index`: for people, for programs, and what becomes of bad files."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.presentation.cli.fakes import PlatformPart, part_wiring, terminal_console

from modules.llm_platform.domain.dtos.indexing_dtos import IndexProblem, IndexProgress, IndexReport
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.presentation.cli import main
from shared.config import Settings

REPORT = IndexReport(
    collection="documents",
    embedder="hash/64",
    added=2,
    changed=1,
    unchanged=4,
    failed=1,
    removed=3,
    passages=9,
    problems=(IndexProblem(where="notes/\x1b[2Jbad.md", reason="it is broken"),),
    problem_count=1,
)
STEPS = (
    IndexProgress(documents=1, passages=2, done_bytes=10, total_bytes=40),
    IndexProgress(documents=8, passages=9, done_bytes=40, total_bytes=40),
)


class Ended(NamedTuple):
    code: object
    out: str
    err: str
    settings: Settings | None
    requested: tuple[Sequence[Path], bool] | None


class Platform(PlatformPart):
    """A platform that indexes nothing and records the calls."""

    def __init__(self, outcome: IndexReport | BaseException) -> None:
        self.indexing = self
        self.requested: tuple[Sequence[Path], bool, bool] | None = None
        self._outcome = outcome

    async def index(
        self, paths: Sequence[Path], *, prune: bool = False, replaces_collection: bool = False
    ) -> AsyncGenerator[IndexProgress | IndexReport, None]:
        self.requested = paths, prune, replaces_collection
        for step in STEPS:
            yield step
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        yield self._outcome


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(*arguments: str, outcome: IndexReport | BaseException = REPORT) -> Ended:
        platform, settings = Platform(outcome), list[Settings]()
        code = main.run(["index", *(arguments or [str(tmp_path)])], part_wiring(platform, settings))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err, settings[0] if settings else None, platform.requested)

    return call


def test_counts_are_printed(run: Run) -> None:
    """Counts that are not zero on standard output, bad files on standard error, without what could steer a terminal."""
    ended = run()
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "7 documents under these paths in the collection documents",
        "2 new, 1 changed, 4 unchanged, 1 left out, 3 removed",
        "9 passages written, by hash/64",
    ]
    assert "\x1b" not in ended.err
    assert ended.err.rstrip().endswith("bad.md: it is broken")


def test_json_is_the_report(run: Run, tmp_path: Path) -> None:
    """And nothing else."""
    result = json.loads(run("--json", str(tmp_path)).out)
    assert (result["added"], result["unchanged"], result["problems"][0]["reason"]) == (2, 4, "it is broken")


def test_options_reach_the_service(run: Run, tmp_path: Path) -> None:
    """Paths, collection, pruning, staying on this machine."""
    other = tmp_path / "x.jsonl"
    other.write_text("")
    ended = run(str(tmp_path), str(other), "--collection", "mine", "--prune", "--offline")
    assert ended.requested == ([tmp_path, other], True, False)
    assert run(str(tmp_path), "--only").requested == ([tmp_path], False, True)
    assert ended.settings is not None
    assert (ended.settings.QDRANT_COLLECTION, ended.settings.LLM_PLATFORM_OFFLINE) == ("mine", True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], "nowhere"),
        (["."], "--collection"),
        (["--prune"], "PATH"),
        ([""], "empty"),
        (["x\0y"], "does not exist"),
    ],
)
def test_wrong_use_ends_before_indexing(run: Run, arguments: list[str], expected: str) -> None:
    """A missing path, an invalid name or no path at all ends with exit code 2 before indexing."""
    more = ["--collection", "a/b"] if expected == "--collection" else []
    ended = run(*arguments, *more)
    assert (ended.code, ended.requested) == (2, None)
    assert expected in ended.err


def test_only_failed_documents_are_a_failure(run: Run) -> None:
    """Where there was something, the reasons have been told."""
    ended = run(outcome=IndexReport(collection="documents", embedder="none", failed=2))
    assert ended.code == 1
    assert "the lines above say why" in ended.err


def test_unrequested_keyword_index_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """If wordllama has no package, one line reports the keyword index. With EMBEDDER=none there is no message."""
    outcome = IndexReport(collection="documents", embedder="none", added=1)
    monkeypatch.setattr("modules.llm_platform.domain.package.platform.machine", lambda: "riscv64")
    assert "indexed for keyword search only" in run(".", outcome=outcome).err
    monkeypatch.setenv("EMBEDDER", "none")
    assert "indexed for keyword search only" not in run(".", outcome=outcome).err


def test_no_documents_are_a_failure(run: Run) -> None:
    """Nobody means an empty folder."""
    ended = run(outcome=IndexReport(collection="documents", embedder="none"))
    assert (ended.code, "no document was found" in ended.err) == (1, True)


def test_failure_is_one_line(run: Run) -> None:
    """With the remedy."""
    ended = run(outcome=VectorStoreConfigError("another process is writing: wait"))
    assert (ended.code, ended.err.splitlines()[-1]) == (1, "llm-platform: another process is writing: wait")


def test_ctrl_c_says_that_the_index_is_stored(run: Run) -> None:
    """Exit code 130."""
    ended = run(outcome=KeyboardInterrupt())
    assert (ended.code, "what was indexed is stored" in ended.err) == (130, True)


def test_listed_problems_are_limited(run: Run) -> None:
    """The rest is a number; --json has them."""
    problems = tuple(IndexProblem(where=f"f{n}.md", reason="it is broken") for n in range(30))
    ended = run(outcome=REPORT.model_copy(update={"problems": problems, "problem_count": 300}))
    assert ended.err.splitlines()[-1] == "and 280 more"
    assert "f19.md" in ended.err
    assert "f20.md" not in ended.err


def test_progress_bar_on_a_terminal(tmp_path: Path) -> None:
    """On standard error, and gone at the end."""
    console, out, err = terminal_console()
    main.run(["index", str(tmp_path)], part_wiring(Platform(REPORT)), console)
    assert "8 documents, 9 passages written" in err.getvalue()
    assert "100%" in err.getvalue()
    assert "%" not in out.getvalue()


def test_replaced_documents_of_other_folders_are_reported(run: Run) -> None:
    """The loss is reported on standard error with the remedy. Without a loss there is no message."""
    assert "folder" not in run().err
    ended = run(outcome=REPORT.model_copy(update={"displaced": 2, "removed_elsewhere": 1}))
    assert ended.code == 0
    assert "replaced documents of another folder with the same doc_id: 2." in ended.err
    assert "removed documents of folders that were not named: 1." in ended.err
    assert "--collection" in ended.err
