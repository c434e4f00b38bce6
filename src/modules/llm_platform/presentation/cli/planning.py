"""The plan of a report before it begins: printed for `--plan-only`, gone over by the person at a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from modules.llm_platform.application.research.model_output.lists import read_line
from modules.llm_platform.application.research.plan import sub_questions
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.report_dtos import MAX_OTHER_THAN, PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import (
    MAX_PLAN_QUESTIONS,
    Question,
    ResearchRequest,
    ResearchResponse,
)
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.egress_log import EgressLog, open_egress_log
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import FALLBACK_LANGUAGE
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import INTERRUPTED, CommandError, run
from modules.llm_platform.presentation.cli.options import in_our_words, wrong
from modules.llm_platform.presentation.cli.output import Delivery, read_given
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import Settings
from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform
    from modules.llm_platform.application.services.research_service import ResearchService


Result = TypeVar("Result")

GIVEN = "given"  # who made the plan of `--plan`
DECOMPOSITION = "decomposition"  # who made the plan where no model may be asked


@dataclass(frozen=True, slots=True)
class ReviewedPlan:
    """The sub-questions that a person wants, what was sent out to think of them, and what that cost."""

    questions: tuple[str, ...]
    sent: tuple[Sent, ...]
    spent: Spending = NOTHING_SPENT

    def left(self, request: ResearchRequest) -> dict[str, Any]:
        """What is left of the limits: while planning nobody but models is asked."""
        calls, dollars = request.max_llm_calls, request.max_cost_usd
        return {
            "max_llm_calls": None if calls is None else max(0, calls - _requests(self.sent)),
            "max_cost_usd": None if dollars is None else max(0.0, dollars - (self.spent.cost_usd or 0.0)),
        }

    def added_to(self, response: ResearchResponse) -> ResearchResponse:
        """The answer, whose ledger and account know of the planning too."""
        sums: dict[tuple[str, str, str | None], Sent] = {}
        for each in (*response.metadata.sent_to, *self.sent):
            key = (each.host, each.kind, each.via)
            held = sums.get(key)
            more = {"requests": held.requests + each.requests, "bytes": held.bytes + each.bytes} if held else {}
            sums[key] = each.model_copy(update=more)
        meta, spent = response.metadata, self.spent
        unknown = meta.cost_usd is None or spent.cost_usd is None
        account = {
            "sent_to": tuple(sorted(sums.values(), key=lambda each: (each.host, each.kind, each.via or ""))),
            "llm_calls": meta.llm_calls + spent.calls,
            "tokens_used": meta.tokens_used + spent.tokens,
            "cost_usd": None if unknown else (meta.cost_usd or 0.0) + (spent.cost_usd or 0.0),
        }
        return response.model_copy(update={"metadata": meta.model_copy(update=account)})


def is_reviewed(
    console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, delivery: Delivery
) -> bool:
    """Whether a person is there to look at the plan of a report, none was given, and there is anything to look into with
    it: where nothing can be searched or read, a report can only come out of the store, with the plan that it has there.
    """
    wanted = request.plan is None and delivery.ask and not delivery.as_json
    return wanted and console.answers and bool(request.urls or wiring.search_order(settings))


def review_plan(console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest) -> ReviewedPlan:
    """The sub-questions that the person wants. The platform is closed while they think: nothing is held open for that."""

    with open_egress_log() as ledger:
        planning = _Planning(console, wiring, settings, request, ledger)
        shown = planning.accepted_before() or planning.made().questions
        questions = PlanEditor(console, shown, planning.made).run()
    return ReviewedPlan(questions, ledger.sent(), planning.spent)


async def keep(platform: LLMPlatform, request: ResearchRequest) -> None:
    """Have the platform remember the plan that the person accepted, before anything is spent on it."""
    await platform.research.accept_plan(_plan_request(request), request.plan or ())


def show(console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, *, as_json: bool) -> None:
    """Print the plan, so that it can be kept as a file for `--plan`."""
    plan = _given(request) if request.plan else _Planning(console, wiring, settings, request, EgressLog()).made()
    if as_json:
        from modules.llm_platform.presentation.cli.render_json import plan_json

        console.verbatim(plan_json(plan))
    else:
        console.lines(Line(question) for question in plan.questions)


@dataclass(slots=True)
class _Planning:
    """The platform's plans for one request, and what they cost so far; what went otherwise is told on standard error."""

    console: Console
    wiring: Wiring
    settings: Settings
    request: ResearchRequest
    ledger: EgressLog
    spent: Spending = NOTHING_SPENT

    def accepted_before(self) -> tuple[str, ...]:
        """What the person accepted when the same was asked before, a report that was killed meanwhile included."""
        if self.request.fresh:
            return ()
        plan = run(self._asked(lambda research: research.accepted_plan(_plan_request(self.request))))
        if plan is None:
            return ()
        when = plan.accepted_at.astimezone().strftime("%Y-%m-%d %H:%M")
        self.console.warn(f"This is the plan that you accepted on {when}; n makes a new one.")
        return plan.questions

    def made(self, other_than: tuple[str, ...] = ()) -> ResearchPlan:
        """A plan by the platform. No model is asked once the calls or the dollars of the request are used up."""
        from modules.llm_platform.presentation.cli.render_terminal import notes

        self.console.step("planning …")
        asked = _plan_request(self.request, other_than)
        if self._is_used_up:
            return run(_taken_apart(asked))
        plan = run(self._asked(lambda research: research.plan(asked)))
        self.spent += plan.spent
        for note in notes(None, plan.degraded):
            self.console.warn(note)
        return plan

    @property
    def _is_used_up(self) -> bool:
        calls, dollars = self.request.max_llm_calls, self.request.max_cost_usd
        no_calls = calls is not None and _requests(self.ledger.sent()) >= calls
        return no_calls or (dollars is not None and (self.spent.cost_usd or 0.0) >= dollars)

    async def _asked(self, work: Callable[[ResearchService], Awaitable[Result]]) -> Result:
        async with self.wiring.build_platform(self.settings) as platform:
            return await work(platform.research)


async def _taken_apart(asked: PlanRequest) -> ResearchPlan:
    """What the platform would answer without a model."""
    language = _language(asked)
    plan = await sub_questions(asked.query, language, None, other_than=asked.other_than, tell=_nobody_listens)
    return ResearchPlan(query=asked.query, language=language, questions=plan.questions, planner=DECOMPOSITION)


def _plan_request(request: ResearchRequest, other_than: tuple[str, ...] = ()) -> PlanRequest:
    return PlanRequest(query=request.query, language=request.language, other_than=other_than)


def _given(request: ResearchRequest) -> ResearchPlan:
    """The plan of `--plan`, as the report would take it."""
    return ResearchPlan(query=request.query, language=_language(request), questions=request.plan or (), planner=GIVEN)


def _language(asked: PlanRequest | ResearchRequest) -> str:
    return asked.language or detect(asked.query) or FALLBACK_LANGUAGE


def _requests(sent: tuple[Sent, ...]) -> int:
    return sum(each.requests for each in sent)


def _nobody_listens(question: str) -> None:
    """A plan for a person is shown whole."""


# A person goes over the plan of a report before it begins: a numbered menu in plain text, for any terminal.


Action = Literal["accept", "edit", "remove", "add", "move", "again", "quit"]
Plans = Callable[[tuple[str, ...]], ResearchPlan]  # a plan other than these sub-questions

MENU = "Enter: go on · e 2: edit · d 2: remove · a: add · m 3 1: move 3 to 1 · n: new plan · q: quit"
PROMPT = "plan>"
CALLED_OFF = "the report was called off"
WORDS: Mapping[str, Action] = {
    "": "accept", "ok": "accept", "y": "accept", "yes": "accept", "go": "accept", "accept": "accept",
    "e": "edit", "edit": "edit", "change": "edit",
    "d": "remove", "r": "remove", "remove": "remove", "delete": "remove", "del": "remove",
    "a": "add", "add": "add", "+": "add",
    "m": "move", "move": "move",
    "n": "again", "new": "again", "again": "again",
    "q": "quit", "quit": "quit", "exit": "quit",
}  # fmt: skip

_QUESTION: TypeAdapter[str] = TypeAdapter(Question)


class _MisunderstoodError(Exception):
    """What was typed changes nothing; the message says why."""


class PlanEditor:
    """Shows the sub-questions, carries out what is typed, and gives what is left when it is accepted."""

    def __init__(self, console: Console, questions: Iterable[str], plans: Plans) -> None:
        self.questions = list(questions)
        self._console = console
        self._plans = plans
        self._unwanted: list[str] = []

    def run(self) -> tuple[str, ...]:
        """The sub-questions that the person wants; CommandError when there shall be no report."""
        self._show()
        while True:
            typed = self._ask(PROMPT)
            word, _, rest = typed.partition(" ")
            try:
                action = self._action(word)
                if action == "accept":
                    return self._accepted()
                self._carry_out(action, rest.strip())
            except _MisunderstoodError as said:
                self._console.warn(f"  {said}")
            else:
                self._show()

    def _ask(self, prompt: str) -> str:
        """What was typed. At the end of input, too, nobody has agreed to pay for a report."""
        typed = self._console.ask(prompt)
        if typed is None:
            raise CommandError(CALLED_OFF, INTERRUPTED)
        return typed

    def _action(self, word: str) -> Action:
        if word.lower() not in WORDS:
            raise _MisunderstoodError(MENU)
        return WORDS[word.lower()]

    def _accepted(self) -> tuple[str, ...]:
        if not self.questions:
            raise _MisunderstoodError("no sub-question is left: add one with a, or quit with q")
        return tuple(self.questions)

    def _carry_out(self, action: Action, rest: str) -> None:
        match action:
            case "edit":
                self._edit(rest)
            case "remove":
                del self.questions[self._place(rest)]
            case "add":
                self._add(rest)
            case "move":
                self._move(rest)
            case "again":
                self._again()
            case _:
                raise CommandError(CALLED_OFF, INTERRUPTED)

    def _edit(self, rest: str) -> None:
        number, _, words = rest.partition(" ")
        place = self._place(number)
        if typed := words.strip() or self._ask(f"{place + 1}, in other words (Enter leaves it):"):
            self.questions[place] = self._checked(typed, but=place)

    def _add(self, rest: str) -> None:
        if len(self.questions) >= MAX_PLAN_QUESTIONS:
            raise _MisunderstoodError(f"a plan has at most {MAX_PLAN_QUESTIONS} sub-questions: remove one first")
        if typed := rest or self._ask("another sub-question (Enter for none):"):
            self.questions.append(self._checked(typed))

    def _move(self, rest: str) -> None:
        numbers = rest.replace(",", " ").split()
        if len(numbers) != 2:
            raise _MisunderstoodError("say which one, and where to: m 3 1")
        place, target = (self._place(number) for number in numbers)
        self.questions.insert(target, self.questions.pop(place))

    def _again(self) -> None:
        """Another plan, which takes the place of this one; this one stays where none comes."""
        unwanted = list(dict.fromkeys([*self._unwanted, *self.questions]))[-MAX_OTHER_THAN:]
        try:
            plan = self._plans(tuple(unwanted))
        except AppException as error:
            raise _MisunderstoodError(error.message) from error
        if not plan.questions:
            raise _MisunderstoodError("nobody could think of another plan")
        self.questions, self._unwanted = list(plan.questions), unwanted

    def _place(self, number: str) -> int:
        """The index of the sub-question with this number."""
        value = int(number) if number.isdecimal() and len(number) <= 2 else 0
        if not 1 <= value <= len(self.questions):
            raise _MisunderstoodError(
                f"say which one, from 1 to {len(self.questions)}" if self.questions else "there is none"
            )
        return value - 1

    def _checked(self, typed: str, but: int | None = None) -> str:
        """A sub-question that may be asked, and is not asked yet."""
        try:
            question = _QUESTION.validate_python(typed)
        except ValidationError as error:
            detail = error.errors(include_input=False)[0]
            raise _MisunderstoodError(f"a sub-question {in_our_words(detail['type'], detail['msg'])}") from error
        others = {each.casefold() for place, each in enumerate(self.questions) if place != but}
        if question.casefold() in others:
            raise _MisunderstoodError("that one is there already")
        return question

    def _show(self) -> None:
        numbered = [Line(f"  {number}. {question}") for number, question in enumerate(self.questions, 1)]
        self._console.aside([Line("The report will answer:"), *(numbered or [Line("  (nothing yet)")]), Line(MENU)])


# The file of `--plan`: a sub-question on each line, or JSON as `--plan-only --json` and POST /research/plan give it.


OPTION = "--plan"
MAX_FILE_KB = 64  # ten sub-questions of 500 characters are far below it
COMMENT = "#"

_NUMBER = re.compile(r"\s*(?:[-*•–]|\(?\d{1,2}[.):])\s+")


def read_plan(path: Path) -> tuple[str, ...]:
    """The sub-questions; wrong use when the file cannot be read as a plan."""
    text = _text(path).strip()
    questions = _of_json(text) if text.startswith(("[", "{")) else _of_lines(text)
    if not questions:
        wrong(OPTION, f"{path} holds no sub-question: write one on each line")
    return questions


def _text(path: Path) -> str:
    content = read_given(OPTION, path, most_kb=MAX_FILE_KB, what="a plan")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        wrong(OPTION, f"{path} must be text in UTF-8")


def _of_json(text: str) -> tuple[str, ...]:
    """A list of strings, or an object whose `questions` are one. A guess at broken JSON could lose a sub-question."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        wrong(OPTION, "begins like JSON and is none: a list of strings is wanted, or plain lines")
    questions = value.get("questions") if isinstance(value, dict) else value
    if not isinstance(questions, list) or not all(isinstance(each, str) for each in questions):
        wrong(OPTION, 'must be a list of strings, or an object with such a list as "questions"')
    return tuple(each.strip() for each in questions if each.strip())


def _of_lines(text: str) -> tuple[str, ...]:
    """Each line but blank ones and comments, without its number, bullet, or a word such as "Question:"."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(COMMENT)]
    return tuple(found for line in lines if (found := (read_line(line) or _NUMBER.sub("", line, count=1)).strip()))
