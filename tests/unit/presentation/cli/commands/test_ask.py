"""The command `ask`: a question to the indexed documents, for people, for programs, for files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.presentation.cli.fakes import PlatformPart, part_wiring

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, RagAnswer, RagCitation, RagQuestion
from modules.llm_platform.domain.exceptions import VectorStoreConfigError
from modules.llm_platform.presentation.cli import main
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
    requested: RagQuestion | None
    settings: Settings | None


class Platform(PlatformPart):
    """A platform with one fixed answer. Subclasses can change it."""

    def __init__(self, outcome: RagAnswer | Exception) -> None:
        self.answers = self
        self.requested: RagQuestion | None = None
        self._outcome = outcome

    async def answer(self, question: RagQuestion, *, use_fallback: bool, cites_closest: bool) -> RagAnswer:
        assert use_fallback
        assert cites_closest
        self.requested = question
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str, outcome: RagAnswer | Exception = ANSWER, model: bool = True) -> Ended:
        platform, settings = Platform(outcome), list[Settings]()
        code = main.run(["ask", *arguments], part_wiring(platform, settings, model=model))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err, platform.requested, settings[0] if settings else None)

    return call


def test_answer_sources_and_notes_are_printed(run: Run) -> None:
    """The numbers in the text match the list. A document without title or address is shown by its id."""
    ended = run(f" {QUESTION} ")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Thirty minutes [1]. Only owners renew it [2].\n\nSources\n[1] Sessions <&>\n")
    assert "    https://docs.example.org/sessions\n[2] roles.md\n" in ended.out
    assert "Note: index: the index cannot be reached\n" in ended.out
    assert ended.out.splitlines()[-1].endswith(" s · written by kimi/k2 · 42 tokens, $0.5000")
    assert ended.requested == RagQuestion(question=QUESTION)


def test_json_is_the_answer_of_the_stage(run: Run) -> None:
    """The JSON has the fields and names of the contract, and leaves out absent values."""
    result = json.loads(run(QUESTION, "--json").out)
    assert isinstance(result.pop("latency_ms"), int)
    assert result == {
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
def test_output_file_holds_the_answer(run: Run, tmp_path: Path, name: str, there: str) -> None:
    """The suffix of the file selects its format, and nothing is printed."""
    ended = run(QUESTION, "--output", str(tmp_path / name))
    assert (ended.code, ended.out) == (0, "")
    assert there in (tmp_path / name).read_text(encoding="utf-8")


def test_options_reach_the_service(run: Run, tmp_path: Path) -> None:
    """Values of one key are alternatives; the file of the context is the contract's."""
    file = tmp_path / "hits.json"
    file.write_text(json.dumps({"hits": [{"doc_id": "d", "score": 0.9, "snippet": "Words.", "url": None}]}), "utf-8")
    ended = run(
        QUESTION,
        "--collection",
        "wiki",
        "--filter",
        "lang=en",
        "--filter",
        "lang = de",
        "--filter",
        "a=b=c",
        "--top-k",
        "3",
        "--context",
        str(file),
        "--language",
        "pt_br",
        "--offline",
    )
    assert ended.requested == RagQuestion(
        question=QUESTION,
        top_k=3,
        language="pt-BR",
        context=(ContextItem(doc_id="d", snippet="Words."),),
        filters={"lang": ("en", "de"), "a": ("b=c",)},
    )
    assert ended.settings is not None
    assert ended.settings.QDRANT_COLLECTION == "wiki"
    assert ended.settings.LLM_PLATFORM_OFFLINE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((" ",), "Invalid value for QUESTION: there is no question"),
        ((" \u200b ",), "Invalid value for QUESTION: must contain a word"),
        (("   ??? ",), "Invalid value for QUESTION: must contain a word"),
        (
            (QUESTION, "--documents", "docs"),
            "No such option: --documents. Index the folder with `llm-platform index DIR`",
        ),
        ((QUESTION, "--collection", "../etc"), "Invalid value for --collection: must be a name of at most 63 letters"),
        ((QUESTION, "--filter", "lang"), "Invalid value for --filter: must be KEY=VALUE"),
        ((QUESTION, "--filter", "=en"), "Invalid value for --filter: must be KEY=VALUE"),
        ((QUESTION, "--top-k", "0"), "Invalid value for '--top-k'"),
        ((QUESTION, "--language", "klingon"), "Invalid value for --language: must be a language tag"),
        ((QUESTION, "--output", "a.docx"), "Invalid value for --output: a.docx must end in"),
    ],
)
def test_wrong_use_ends_before_anything_is_requested(run: Run, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, the option's name and what to do."""
    ended = run(*arguments)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert ended.settings is None


@pytest.mark.parametrize("question", ["hello", "To be or not to be?", "🙂🙂🙂", "C++"])
def test_any_word_or_emoji_is_a_question(run: Run, question: str) -> None:
    """Whether the documents have it is for the search to say."""
    assert run(question).requested == RagQuestion(question=question)


def test_missing_collection_names_the_remedy(run: Run) -> None:
    """One line, exit code 1."""
    ended = run(
        QUESTION, outcome=VectorStoreConfigError("there is no collection: create it with `llm-platform index PATH`")
    )
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "llm-platform: there is no collection: create it with `llm-platform index PATH`\n"


def test_missing_model_is_noted_below_quotes(run: Run) -> None:
    """Where there are quotes; where nothing was found a model would not have helped."""
    assert "No language model is configured" in run(QUESTION, model=False).out
    nothing = RagAnswer(answer="Nothing was found.", answered=False, synthesizer="extractive")
    assert "No language model" not in run(QUESTION, model=False, outcome=nothing).out


@pytest.mark.parametrize(("readers", "warned"), [(None, True), ("direct", False)])
def test_jina_notice_for_context_addresses_without_text(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: str | None, warned: bool
) -> None:
    """The notice appears only for addresses that will be read, not for an address with given text."""
    file = tmp_path / "context.json"
    if readers:
        monkeypatch.setenv("READERS", readers)
    file.write_text('[{"url": "https://wiki.example.org/"}]')
    assert ("r.jina.ai" in run(QUESTION, "--context", str(file)).err) is warned
    file.write_text('[{"url": "https://wiki.example.org/", "snippet": "Words."}]')
    assert run(QUESTION, "--context", str(file)).err == ""
