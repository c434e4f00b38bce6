"""A person goes over the plan of a report before it begins: a numbered menu in plain text, for any terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from modules.llm_platform.domain.dtos.report_dtos import MAX_OTHER_THAN, ResearchPlan
from modules.llm_platform.domain.dtos.research_dtos import MAX_PLAN_QUESTIONS, Question
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import INTERRUPTED, CommandError
from modules.llm_platform.presentation.cli.options import in_our_words
from shared.exceptions import AppException

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
            raise _MisunderstoodError(f"say which one, from 1 to {len(self.questions)}" if self.questions else "there is none")
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
