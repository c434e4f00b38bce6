"""The plan of a report before it begins: read from a file, printed, or reviewed by the user at the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT
from modules.llm_platform.domain.dtos.report_dtos import MAX_OTHER_THAN, PlanRequest, ResearchPlan
from modules.llm_platform.domain.dtos.request_dtos import MAX_PLAN_QUESTIONS, Question, ResearchRequest
from modules.llm_platform.domain.privacy.egress_log import EgressLog, open_egress_log
from modules.llm_platform.domain.text.language import choose_language
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import INTERRUPTED, CommandError, run_async
from modules.llm_platform.presentation.cli.options import reject, write_option_message
from modules.llm_platform.presentation.cli.output import OutputOptions, read_option_file
from modules.llm_platform.presentation.cli.render.json import write_model_json
from modules.llm_platform.presentation.cli.render.terminal import describe_degradations, estimate_line
from modules.llm_platform.presentation.cli.setup import Wiring, run_with_platform
from shared.config import Settings
from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

DECOMPOSITION = "decomposition"  # The planner of a plan without a model.
MAX_FILE_KB = 64  # Ten of the longest sub-questions take less than half.

_NUMBERING = re.compile(r"\A\s*(?:[-*•–]|\(?\d{1,2}[.):])\s+")


def print_plan(
    console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest, *, as_json: bool
) -> None:
    """Print the plan for `--plan-only`, in a format that `--plan` reads."""
    if request.plan:
        language = choose_language(request.query, request.language)
        plan = ResearchPlan(query=request.query, language=language, questions=request.plan, planner="given")
    else:
        plan = PlanReview(console, wiring, settings, request).make_plan()
    if as_json:
        console.print_verbatim(write_model_json(plan))
    else:
        console.print_lines(Line(question) for question in plan.questions)


class PlanReview:
    """Makes the plan of one report, and lets the user edit it. The platform is closed while the user types."""

    def __init__(self, console: Console, wiring: Wiring, settings: Settings, request: ResearchRequest) -> None:
        self._console = console
        self._wiring = wiring
        self._settings = settings
        self._request = request
        self._egress_log = EgressLog()
        self._spent = NOTHING_SPENT
        self._made: ResearchPlan | None = None  # The last plan, with its estimate.

    def is_needed(self, output_options: OutputOptions) -> bool:
        """Return whether the report needs a plan and the user can review it.

        Without a search provider and without pages, a report can only come from the store, with its stored plan.
        """
        request = self._request
        if request.depth != "report" or request.plan is not None or not self._console.is_interactive:
            return False
        has_input = bool(request.urls or self._wiring.search_order(self._settings))
        return has_input and output_options.prompts_enabled and not output_options.as_json

    def run(self) -> tuple[str, ...]:
        """Return the sub-questions that the user accepts. Raises CommandError if the user quits."""
        with open_egress_log() as self._egress_log:
            questions = self._load_stored_plan() or self.make_plan().questions
            return PlanEditor(self._console, questions, self.make_plan, self._estimate_line).run()

    def make_plan(self, other_than: tuple[str, ...] = ()) -> ResearchPlan:
        self._console.print_progress("planning …")
        plan_request = _plan_request(self._request, other_than)
        if 0 in self.get_remaining_limits().values():
            return run_async(_decompose(plan_request))
        plan = run_with_platform(self._wiring, self._settings, lambda platform: platform.research.plan(plan_request))
        self._made = plan
        self._spent += plan.spent
        for note in describe_degradations(plan.degraded):
            self._console.warn(note)
        return plan

    def get_remaining_limits(self) -> dict[str, Any]:
        """Return the limits of the request, less the requests and dollars of planning. It sends requests only to models."""
        calls, dollars = self._request.max_llm_calls, self._request.max_cost_usd
        requests_sent = sum(entry.requests for entry in self._egress_log.sent())
        return {
            "max_llm_calls": None if calls is None else max(0, calls - requests_sent),
            "max_cost_usd": None if dollars is None else max(0.0, dollars - (self._spent.cost_usd or 0.0)),
        }

    def add_planning_cost(self, response: ResearchResponse) -> ResearchResponse:
        """Return the answer, with the egress and the cost of planning added to its metadata."""
        from modules.llm_platform.application.research.response import add_spending

        metadata = add_spending(response.metadata, self._spent, self._egress_log.sent())
        return response.model_copy(update={"metadata": metadata})

    def _estimate_line(self, questions: int) -> str:
        """Return what a report with this many sub-questions takes at most, or an empty string without an estimate.

        A plan that was stored earlier has none.
        """
        if self._made is None or self._made.estimate is None:
            return ""
        return estimate_line(self._made.estimate, questions - len(self._made.questions), self._request)

    def _load_stored_plan(self) -> tuple[str, ...]:
        """Return the plan that the user accepted earlier for the same question, such as before the process was killed."""
        if self._request.fresh:
            return ()
        plan_request = _plan_request(self._request)
        plan = run_with_platform(
            self._wiring, self._settings, lambda platform: platform.research.accepted_plan(plan_request)
        )
        if plan is None:
            return ()
        when = plan.accepted_at.astimezone().strftime("%Y-%m-%d %H:%M")
        self._console.warn(f"This is the plan that you accepted on {when}; n makes a new one.")
        return plan.questions


async def store_accepted_plan(platform: LLMPlatform, request: ResearchRequest) -> None:
    """Store the plan that the user accepted, before anything is spent on it."""
    await platform.research.accept_plan(_plan_request(request), request.plan or ())


def _plan_request(request: ResearchRequest, other_than: tuple[str, ...] = ()) -> PlanRequest:
    return PlanRequest(
        query=request.query,
        language=request.language,
        other_than=other_than,
        context=request.context,
        model=request.model,
        sources=request.sources,
        urls=request.urls,
        rounds=request.rounds,
    )


async def _decompose(request: PlanRequest) -> ResearchPlan:
    from modules.llm_platform.application.research.report.planner import SubQuestionTask, plan_sub_questions
    from modules.llm_platform.application.research.report.run import ReportOptions

    language = choose_language(request.query, request.language)
    task = SubQuestionTask(request.query, language, ReportOptions().sub_questions, request.other_than)
    plan = await plan_sub_questions(task, None, emit=lambda _: None)
    return ResearchPlan(query=request.query, language=language, questions=plan.questions, planner=DECOMPOSITION)


Action = Literal["accept", "edit", "remove", "add", "move", "new", "quit"]

MENU = "Enter: accept · e 2: edit · d 2: remove · a: add · m 3 1: move 3 to 1 · n: new plan · q: quit"
PROMPT = "plan>"
CANCELLED = "the report was cancelled"
ACTIONS: Mapping[str, Action] = {
    "": "accept",
    "ok": "accept",
    "y": "accept",
    "yes": "accept",
    "go": "accept",
    "accept": "accept",
    "e": "edit",
    "edit": "edit",
    "change": "edit",
    "d": "remove",
    "r": "remove",
    "remove": "remove",
    "delete": "remove",
    "del": "remove",
    "a": "add",
    "add": "add",
    "+": "add",
    "m": "move",
    "move": "move",
    "n": "new",
    "new": "new",
    "again": "new",
    "q": "quit",
    "quit": "quit",
    "exit": "quit",
}

_QUESTION: TypeAdapter[str] = TypeAdapter(Question)


class _InputError(Exception):
    """The typed command changes nothing. The message says why."""


class PlanEditor:
    """A numbered menu in plain text, for any terminal. It shows the sub-questions and applies the typed commands.

    - `make_plan` returns a plan without the given sub-questions.
    - `estimate_line` returns what a report over so many sub-questions takes at most, or an empty text.
    """

    def __init__(
        self,
        console: Console,
        questions: Iterable[str],
        make_plan: Callable[[tuple[str, ...]], ResearchPlan],
        estimate_line: Callable[[int], str],
    ) -> None:
        self.questions = list(questions)
        self._console = console
        self._make_plan = make_plan
        self._estimate_line = estimate_line
        self._rejected: list[str] = []

    def run(self) -> tuple[str, ...]:
        """Return the accepted sub-questions, at least one. Raises CommandError if the user quits or closes the input."""
        self._show()
        while True:
            word, _, rest = self._prompt_user(PROMPT).partition(" ")
            try:
                action = ACTIONS.get(word.lower())
                if action == "accept":
                    if not self.questions:
                        raise _InputError("the plan is empty: add a sub-question with a, or quit with q")
                    return tuple(self.questions)
                self._apply(action, rest.strip())
            except _InputError as error:
                self._console.warn(f"  {error}")
            else:
                self._show()

    def _prompt_user(self, text: str) -> str:
        """Return the typed line. Raises CommandError at the end of input, which is not consent to a report that costs money."""
        typed = self._console.prompt(text)
        if typed is None:
            raise CommandError(CANCELLED, INTERRUPTED)
        return typed

    def _apply(self, action: Action | None, rest: str) -> None:
        match action:
            case "edit":
                self._edit(rest)
            case "remove":
                del self.questions[self._index(rest)]
            case "add":
                self._add(rest)
            case "move":
                self._move(rest)
            case "new":
                self._replace_plan()
            case "quit":
                raise CommandError(CANCELLED, INTERRUPTED)
            case _:
                raise _InputError(MENU)

    def _edit(self, rest: str) -> None:
        number, _, text = rest.partition(" ")
        index = self._index(number)
        if typed := text.strip() or self._prompt_user(f"new text of {index + 1} (Enter keeps it):"):
            self.questions[index] = self._validate(typed, replaced=index)

    def _add(self, rest: str) -> None:
        if len(self.questions) >= MAX_PLAN_QUESTIONS:
            raise _InputError(f"a plan has at most {MAX_PLAN_QUESTIONS} sub-questions: remove one first")
        if typed := rest or self._prompt_user("another sub-question (Enter for none):"):
            self.questions.append(self._validate(typed))

    def _move(self, rest: str) -> None:
        numbers = rest.replace(",", " ").split()
        if len(numbers) != 2:
            raise _InputError("type two numbers, from and to: m 3 1")
        index, target = (self._index(number) for number in numbers)
        self.questions.insert(target, self.questions.pop(index))

    def _replace_plan(self) -> None:
        """Replace the plan by another one. If there is no other, the current plan stays."""
        rejected = list(dict.fromkeys([*self._rejected, *self.questions]))[-MAX_OTHER_THAN:]
        try:
            plan = self._make_plan(tuple(rejected))
        except AppException as error:
            raise _InputError(error.message) from error
        if not plan.questions:
            raise _InputError("no other plan was found: edit this one")
        self.questions, self._rejected = list(plan.questions), rejected

    def _index(self, number: str) -> int:
        value = int(number) if number.isdecimal() and len(number) <= 2 else 0
        if not 1 <= value <= len(self.questions):
            count = len(self.questions)
            raise _InputError(f"type a number from 1 to {count}" if count else "the plan is empty")
        return value - 1

    def _validate(self, typed: str, replaced: int | None = None) -> str:
        """Return a sub-question that a request accepts and that is not in the plan yet."""
        try:
            question = _QUESTION.validate_python(typed)
        except ValidationError as error:
            detail = error.errors(include_input=False)[0]
            message = write_option_message(detail["type"], detail["msg"])
            raise _InputError(f"a sub-question {message}") from error
        others = {question.casefold() for index, question in enumerate(self.questions) if index != replaced}
        if question.casefold() in others:
            raise _InputError("the plan already has that sub-question")
        return question

    def _show(self) -> None:
        numbered = [Line(f"  {number}. {question}") for number, question in enumerate(self.questions, 1)]
        estimate = self._estimate_line(len(self.questions)) if self.questions else ""
        self._console.print_notes(
            [
                Line("The report will answer:"),
                *(numbered or [Line("  (no sub-question)")]),
                *([Line(estimate)] if estimate else []),
                Line(MENU),
            ]
        )


def read_plan(path: Path) -> tuple[str, ...]:
    """Return the sub-questions of the `--plan` file: one on each line, or the JSON of `--plan-only --json`.

    Raises WrongUseError for any other file.
    """
    text = read_option_file("--plan", path, max_kb=MAX_FILE_KB, content="a plan").strip()
    questions = _parse_json(text) if text.startswith(("[", "{")) else _parse_lines(text)
    if not questions:
        reject("--plan", f"{path} has no sub-question: write one on each line")
    return questions


def _parse_json(text: str) -> tuple[str, ...]:
    """Return the strings of a list, or of an object with such a list. Broken JSON is refused: a repair could lose some."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        reject("--plan", "begins like JSON but is not valid JSON: write a list of strings, or plain lines")
    questions = value.get("questions") if isinstance(value, dict) else value
    if not isinstance(questions, list) or not all(isinstance(question, str) for question in questions):
        reject("--plan", 'must be a list of strings, or an object with such a list as "questions"')
    return tuple(question.strip() for question in questions if question.strip())


def _parse_lines(text: str) -> tuple[str, ...]:
    """Return the lines without number, bullet or label such as "Question:". Blank lines and comments are skipped."""
    from modules.llm_platform.application.research.model_output.lists import read_line

    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    questions = ((read_line(line) or _NUMBERING.sub("", line, count=1)).strip() for line in lines)
    return tuple(question for question in questions if question)
