"""Answers of language models to forty questions about manuals of other people, scored by a key of facts.

    python scripts/model_answers.py FOLDER                         quotes, without a model
    python scripts/model_answers.py FOLDER --model NAME=URL ...    also models at OpenAI-compatible addresses
    python scripts/model_answers.py FOLDER --check                 whether each fact is in its page
    python scripts/model_answers.py --packages                     which packages of Debian have the manuals

NAME is sent as the model, LLM_API_KEY as the key. Other settings come from the environment. The manuals belong to others and
are not kept in this repository: scripts/debian_docs.sh fetches them.

A line of model_questions.jsonl holds a question, its manual, the page that answers it, and the facts that a right answer has:
each a figure or a name, with its spellings separated by `|`. A fact that is beside something wrong counts as right.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from modules.llm_platform.application.platform import LLMPlatform  # noqa: E402
from modules.llm_platform.container import build_platform  # noqa: E402
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse  # noqa: E402
from modules.llm_platform.domain.dtos.citation_dtos import Citation  # noqa: E402
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchRequest  # noqa: E402
from modules.llm_platform.domain.exceptions import WebSearchTimeoutError  # noqa: E402
from modules.llm_platform.domain.text.messages import get_messages  # noqa: E402
from shared.config import Settings  # noqa: E402
from shared.exceptions import AppException  # noqa: E402

QUESTIONS: Final = ROOT / "scripts" / "model_questions.jsonl"
QUOTES: Final = "quotes"
INDEX_WAIT_S: Final = 1
MODEL_TIMEOUT_S: Final = 900  # a small model on a busy CPU reads its prompt for minutes
RESEARCH_TIMEOUT_S: Final = 1500
PACKAGES: Final = ("git-doc", r"postgresql-doc-[0-9]+", "ffmpeg-doc", "debian-handbook")
FOLDERS: Final = {
    "git": "git-doc",
    "postgresql": "postgresql-doc-*/html",
    "ffmpeg": "ffmpeg/manual",
    "debian": "debian-handbook/html/en-US",
}  # as patterns below the folder
NO_MODEL: Final = {
    "LLM_PROVIDERS": (),
    "LLM_API_KEY": None,
    "LLM_BASE_URL": None,
    "LLM_MODEL": None,
    "KIMI_API_KEY": None,
    "AITUNNEL_API_KEY": None,
    "AZURE_OPENAI_API_KEY": None,
}

Result = Literal["right", "wrong", "declined", "failed"]

_MARKER = re.compile(r"\[\d+\]")
_MARKUP = re.compile(r"[*`]+|(?<=\d),(?=\d{3}\b)")  # and the commas of thousands


@dataclass(frozen=True, slots=True)
class Question:
    """`facts` are sets of spellings, of each of which a right answer has one."""

    text: str
    manual: str
    page: str
    facts: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Tally:
    """What the answers of one writer sum up to. `failed`: the model gave no answer, with quotes in its place or without."""

    asked: int = 0
    right: int = 0
    wrong: int = 0
    declined: int = 0
    failed: int = 0
    by_model: int = 0  # sentences with a citation of the author
    by_platform: int = 0  # sentences whose source only the platform named
    supported: int = 0
    # Those of a wrong answer among the supported ones; some of them say something else that is true.
    misleading: int = 0
    flagged: int = 0  # partial or unsupported
    unchecked: int = 0
    uncited: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def cited(self) -> int:
        return self.by_model + self.by_platform

    @property
    def sentences(self) -> int:
        """Statements: questions and lead-ins are not counted, as in `uncited_sentences`."""
        return self.cited + self.uncited

    def add(self, question: Question, response: ResearchResponse, seconds: float, *, failed: bool = False) -> Result:
        """Count one answer. The sentences of failed and declined ones do not count: they are quotes of the platform."""
        self.asked += 1
        self.tokens += response.metadata.tokens_used
        self.seconds += seconds
        result: Result = "failed" if failed else _result(question, response)
        if result in ("right", "wrong"):
            self._add_sentences(response, is_wrong=result == "wrong")
        setattr(self, result, getattr(self, result) + 1)
        return result

    def _add_sentences(self, response: ResearchResponse, *, is_wrong: bool) -> None:
        self.uncited += response.metadata.uncited_sentences
        sentences: dict[int, list[Citation]] = {}
        for citation in response.citations:
            sentences.setdefault(citation.start, []).append(citation)
        for citations in sentences.values():
            by_model = any(citation.cited_by == "model" for citation in citations)
            self.by_model += by_model
            self.by_platform += not by_model
            verdicts = {citation.verdict for citation in citations}
            is_supported, is_flagged = "supported" in verdicts, bool(verdicts & {"partial", "unsupported"})
            self.supported += is_supported
            self.misleading += is_supported and is_wrong
            self.flagged += is_flagged and not is_supported
            self.unchecked += not (is_supported or is_flagged)

    def line(self, writer: str) -> str:
        return (
            f"{writer}: {self.asked} questions, {self.right} right, {self.wrong} wrong, {self.declined} declined,"
            f" {self.failed} failed; {self.sentences} sentences, {self.cited} cited ({self.by_model} by the author,"
            f" {self.by_platform} by the platform), {self.supported} supported ({self.misleading} in wrong answers),"
            f" {self.flagged} flagged, {self.unchecked} unchecked, {self.uncited} uncited; {self.tokens} tokens,"
            f" {self.seconds:.0f} s"
        )


def _result(question: Question, response: ResearchResponse) -> Result:
    """An answer without a statement declines; so does one with the closest passages below."""
    metadata = response.metadata
    is_silent = not (response.citations or metadata.uncited_sentences)
    if is_silent or get_messages(metadata.language).closest in response.synthesis:
        return "declined"
    return "right" if has_facts(question.facts, response.synthesis) else "wrong"


def has_facts(facts: Iterable[Sequence[str]], text: str) -> bool:
    """Return whether the text has each fact in one of its spellings, as words or numbers of their own."""
    plain = _plain(_MARKER.sub(" ", text))
    return all(any(_has(_plain(spelling), plain) for spelling in fact) for fact in facts)


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).casefold().split())


def _has(spelling: str, text: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(spelling)}(?!\w|\.\d)", text) is not None


def read_questions(text: str) -> list[Question]:
    return [_question(json.loads(line)) for line in text.splitlines()]


def _question(row: Mapping[str, Any]) -> Question:
    facts = tuple(tuple(fact.split("|")) for fact in row["facts"])
    return Question(row["question"], row["manual"], row["page"], facts)


def missing_facts(questions: Iterable[Question], folder: Path) -> Iterator[str]:
    """Yield the questions whose page does not have the facts of a right answer."""
    for question in questions:
        page = _manual(folder, question.manual) / question.page
        text = re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8", errors="replace"))
        if not has_facts(question.facts, html.unescape(text)):
            yield f"{question.manual}/{question.page} has no {question.facts}: {question.text}"


def _manual(folder: Path, manual: str) -> Path:
    found = sorted(folder.glob(FOLDERS[manual]))
    if not found:
        raise SystemExit(f"{folder} has no {FOLDERS[manual]}: fetch the manuals with `make model-answers`")
    return found[-1]


async def ask(writer: str, model: dict[str, Any], questions: Sequence[Question], folder: Path, tally: Tally) -> None:
    """Ask one writer one question after the other; each result goes to the tally, each answer to the error stream."""
    for manual in dict.fromkeys(question.manual for question in questions):
        values = {
            "LLM_PLATFORM_DATA_DIR": folder / "index",
            "DOCUMENTS_DIR": _manual(folder, manual),
            "CACHE_TTL_S": 0,
            "SEARCH_PROVIDERS": "documents",
            "RESEARCH_TIMEOUT_S": RESEARCH_TIMEOUT_S,
            "LLM_TIMEOUT_S": MODEL_TIMEOUT_S,
        }
        async with build_platform(Settings.load(**values, **NO_MODEL | model)) as platform:
            await _index(platform, questions[0])
            for question in (question for question in questions if question.manual == manual):
                began = time.perf_counter()
                try:
                    response = await _answer(platform, question)
                except AppException as error:
                    tally.asked, tally.failed = tally.asked + 1, tally.failed + 1
                    tally.seconds += time.perf_counter() - began
                    print(f"{writer}: failed: {question.text}: {error.message}", file=sys.stderr, flush=True)
                    continue
                seconds = response.metadata.latency_ms / 1000
                is_fallback = bool(model) and not _is_of_model(response, model)
                result = tally.add(question, response, seconds, failed=is_fallback)
                print(
                    f"{writer}: {result}: {question.text}", *_shown(response), "", sep="\n", file=sys.stderr, flush=True
                )


def _shown(response: ResearchResponse) -> Iterator[str]:
    """Yield the text, then each sentence with a citation and its verdict."""
    yield response.synthesis
    for citation in response.citations:
        sentence = response.synthesis[citation.start : citation.end]
        yield f"  [{citation.source_index}] by the {citation.cited_by}, {citation.verdict} {citation.score:.2f}: {sentence}"


def _is_of_model(response: ResearchResponse, model: Mapping[str, Any]) -> bool:
    return response.metadata.synthesizer.endswith(f"/{model['LLM_MODEL']}")


async def _index(platform: LLMPlatform, question: Question) -> None:
    """Search until the folder is read."""
    while True:
        try:
            await platform.web_search.search(WebSearchRequest(query=question.text, sources=("documents",)))
        except WebSearchTimeoutError:
            await asyncio.sleep(INDEX_WAIT_S)
        else:
            return


async def _answer(platform: LLMPlatform, question: Question) -> ResearchResponse:
    request = ResearchRequest(query=question.text, sources=("documents",))
    return await platform.research.research(request)


def _writers(models: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield QUOTES, {}
    key = Settings.load().LLM_API_KEY
    for model in models:
        name, equals, url = model.partition("=")
        if not (name and equals and url):
            raise SystemExit(f"{model}: write NAME=URL, for instance local=http://127.0.0.1:8080/v1")
        yield name, {"LLM_MODEL": name, "LLM_BASE_URL": url, "LLM_API_KEY": key}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the manuals are")
    parser.add_argument("--packages", action="store_true", help="which packages of Debian have the manuals")
    parser.add_argument("--check", action="store_true", help="only look for each fact in its page")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=URL", help="a model to ask too")
    parser.add_argument("--limit", type=int, help="only the first questions; the manuals take turns")
    given = parser.parse_args()
    if given.packages:
        print(*PACKAGES, sep="\n")
        return
    if given.folder is None:
        parser.error("name the folder of the manuals, or --packages")
    questions = read_questions(QUESTIONS.read_text(encoding="utf-8"))[: given.limit]
    if given.check:
        raise SystemExit("\n".join(missing_facts(questions, given.folder)) or 0)
    for writer, model in _writers(given.model):
        tally = Tally()
        try:
            asyncio.run(ask(writer, model, questions, given.folder, tally))
        finally:  # Ctrl-C shows what was counted so far
            print(tally.line(writer), flush=True)


if __name__ == "__main__":
    main()
