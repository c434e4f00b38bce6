"""The command `ask`: a question to the indexed documents, for people, for programs, for files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import pytest
import typer
from tests.unit.presentation.cli.fakes import no_worker

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagAnswer, RagCitation, RagQuestion
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.ask_command import ask
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import Settings

ANSWER = RagAnswer(
    answer="Thirty minutes [1]. Only owners renew it [2].",
    citations=(
        RagCitation(doc_id="sessions", title="Sessions <&>", url="https://docs.example.org/sessions"),
        RagCitation(doc_id="roles.md"),
    ),
    synthesizer="kimi/k2",
    spent=Spending(calls=1, prompt_tokens=40, completion_tokens=2, cost_usd=0.5),
    degraded=(Degraded(component="index", reason="vector_store: the index cannot be reached"),),
)
QUESTION = "How long does it stay valid?"


class Ended(NamedTuple):
    code: object
    out: str
    err: str
    asked: RagQuestion | None
    settings: Settings | None


class Platform:
    """A platform that answers one thing, where somebody may step in."""

    def __init__(self, outcome: RagAnswer | Exception) -> None:
        self.answers = self
        self.asked: RagQuestion | None = None
        self._outcome = outcome

    async def answer(self, question: RagQuestion, *, stand_in: bool) -> RagAnswer:
        assert stand_in
        self.asked = question
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def carry_out(*arguments: str, outcome: RagAnswer | Exception = ANSWER, model: bool = True) -> Ended:
        platform, given = Platform(outcome), []

        def build(settings: Settings) -> Any:
            given.append(settings)
            return platform

        app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command(cls=options.Command)(ask)
        wiring = Wiring(build, lambda settings: (), lambda settings: model, lambda settings: None, no_worker)
        code: object = 0
        try:
            app(args=list(arguments), obj=wiring)
        except SystemExit as leaving:
            code = leaving.code
        said = capsys.readouterr()
        return Ended(code, said.out, said.err, platform.asked, given[0] if given else None)

    return carry_out


def test_people_see_answer_documents_and_notes(run: Run) -> None:
    """The numbers of the text are those of the list; a document without title or address is shown by its id."""
    ended = run(f" {QUESTION} ")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Thirty minutes [1]. Only owners renew it [2].\n\nSources\n[1] Sessions <&>\n")
    assert "    https://docs.example.org/sessions\n[2] roles.md\n" in ended.out
    assert "Note: index: the index cannot be reached\n" in ended.out
    assert ended.out.splitlines()[-1].endswith(" s · written by kimi/k2 · 42 tokens, $0.5000")
    assert ended.asked == RagQuestion(question=QUESTION)


def test_json_is_the_answer_of_the_stage_and_nothing_else(run: Run) -> None:
    """The fields of the contract under the contract's names, what is not there left out."""
    told = json.loads(run(QUESTION, "--json").out)
    assert isinstance(told.pop("latency_ms"), int)
    assert told == {
        "answer": ANSWER.answer,
        "citations": [
            {"doc_id": "sessions", "title": "Sessions <&>", "url": "https://docs.example.org/sessions"},
            {"doc_id": "roles.md"},
        ],
        "answered": True,
        "degraded": [{"component": "index", "reason": "vector_store: the index cannot be reached", "until": None}],
        "synthesizer": "kimi/k2",
        "tokens_used": 42,
        "cost_usd": 0.5,
    }


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("a.md", "- [1] [Sessions \\<\\&\\>](<https://docs.example.org/sessions>)"),
        ("a.html", '<a href="#source-1">[1]</a>'),
        ("a.json", '"answered": true'),
    ],
)
def test_files_hold_the_answer(run: Run, tmp_path: Path, name: str, there: str) -> None:
    """The format is that of the name; the screen stays empty."""
    ended = run(QUESTION, "--output", str(tmp_path / name))
    assert (ended.code, ended.out) == (0, "")
    assert there in (tmp_path / name).read_text(encoding="utf-8")


def test_options_say_what_is_asked_and_of_which_collection(run: Run, tmp_path: Path) -> None:
    """Values of one key are alternatives; the file of the context is the contract's."""
    file = tmp_path / "hits.json"
    file.write_text(json.dumps({"hits": [{"doc_id": "d", "score": 0.9, "snippet": "Words.", "url": None}]}), "utf-8")
    ended = run(
        QUESTION, "--collection", "wiki", "--filter", "lang=en", "--filter", "lang = de", "--filter", "a=b=c",
        "--top-k", "3", "--context", str(file), "--language", "pt_br", "--offline",
    )  # fmt: skip
    assert ended.asked == RagQuestion(
        question=QUESTION, top_k=3, language="pt-BR", context=(ContextItem(doc_id="d", snippet="Words."),),
        filters={"lang": ("en", "de"), "a": ("b=c",)},
    )  # fmt: skip
    assert ended.settings is not None
    assert ended.settings.QDRANT_COLLECTION == "wiki"
    assert ended.settings.LLM_PLATFORM_OFFLINE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((" \u200b ",), "Invalid value for QUESTION: there is no question"),
        ((QUESTION, "--collection", "../etc"), "Invalid value for --collection: must be a name of letters"),
        ((QUESTION, "--filter", "lang"), "Invalid value for --filter: must be key=value"),
        ((QUESTION, "--filter", "=en"), "Invalid value for --filter: must be key=value"),
        ((QUESTION, "--top-k", "0"), "Invalid value for '--top-k'"),
        ((QUESTION, "--language", "klingon"), "Invalid value for --language: must be a language tag"),
        ((QUESTION, "--output", "a.docx"), "Invalid value for --output: a.docx must end in"),
    ],
)
def test_wrong_use_is_told_before_anything_is_asked(run: Run, arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, the option's name and what to do."""
    ended = run(*arguments)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert ended.settings is None


def test_without_an_index_the_remedy_is_told(run: Run) -> None:
    """One line, exit code 1."""
    ended = run(
        QUESTION, outcome=VectorStoreConfigError("there is no collection: make it with `llm-platform index PATH`")
    )
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "llm-platform: there is no collection: make it with `llm-platform index PATH`\n"


def test_without_a_model_people_learn_why_they_read_quotes(run: Run) -> None:
    """Where there are quotes; where nothing was found a model would not have helped."""
    assert "No language model is configured" in run(QUESTION, model=False).out
    nothing = RagAnswer(answer="Nothing was found.", answered=False, synthesizer="extractive")
    assert "language model" not in run(QUESTION, model=False, outcome=nothing).out


@pytest.mark.parametrize(("readers", "warned"), [(None, True), ("direct", False)])
def test_addresses_that_go_to_jina_unasked_are_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: str | None, warned: bool
) -> None:
    """Only addresses that will be read: one beside words is not."""
    file = tmp_path / "context.json"
    if readers:
        monkeypatch.setenv("READERS", readers)
    file.write_text('[{"url": "https://wiki.example.org/"}]')
    assert ("r.jina.ai" in run(QUESTION, "--context", str(file)).err) is warned
    file.write_text('[{"url": "https://wiki.example.org/", "snippet": "Words."}]')
    assert run(QUESTION, "--context", str(file)).err == ""
