"""The steps of a running research, on standard error, for a person who watches."""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING, Self

from modules.llm_platform.application.research.events import (
    Planned,
    Ranked,
    Read,
    ResearchEvent,
    Reset,
    Searched,
    SourcesNumbered,
    Started,
    Summarized,
    Token,
)
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.render_terminal import plural, readable, shortened
from shared.logging import printable

if TYPE_CHECKING:
    from rich.live import Live


# The answer of a running research on the terminal as it is written; `progress.py` tells its steps.


_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n")


def split_finished(text: str) -> tuple[str, str]:
    """The Markdown blocks that will not change any more, and the one still being written; a code fence is one block."""
    for blank in reversed(list(_BLANK.finditer(text))):
        if len(_FENCE.findall(text, 0, blank.start())) % 2 == 0:
            return text[: blank.start()], text[blank.end() :]
    return "", text


class LiveAnswer:
    """Prints tokens block by block: a finished block stays, the one being written is drawn anew below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._unfinished = ""
        self._live: Live | None = None
        self._blocks = 0  # printed for good

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def feed(self, text: str) -> None:
        """The next piece of the answer."""
        finished, self._unfinished = split_finished(self._unfinished + printable(text))
        self._print(finished)
        if self._unfinished.strip():
            self._draw()

    def finish(self) -> None:
        """The answer is complete: what was drawn becomes text that stays."""
        self._print(self._unfinished)
        self._unfinished = ""

    def _print(self, block: str) -> None:
        if not block.strip():
            return
        self._stop()
        if self._blocks:
            self._console.lines([Line()])
        self._console.markdown(block)
        self._blocks += 1

    def _draw(self) -> None:
        from rich.live import Live

        from modules.llm_platform.presentation.cli.rich_markdown import rendered

        if self._live is None:
            self._live = Live(console=self._console.rich, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(rendered(self._unfinished), refresh=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


LONGEST_TITLE = 80  # characters of a page's title or address
GIVES_TEXT = {"read": "", "stored": " (from the store)"}  # the statuses of a page that was opened


class Progress:
    """Tells each event once. `answer` is where tokens go, None when nobody watches them."""

    def __init__(self, console: Console, answer: LiveAnswer | None) -> None:
        self._console = console
        self._answer = answer
        self._asked: set[str] = set()
        self._drawing = False  # the answer: a line in between would end up amid its text

    def show(self, event: ResearchEvent) -> None:
        """What happened, for who watches; events that say nothing to a person are passed over, and so is what happens
        beside the answer while it is being written.
        """
        if isinstance(event, Token):
            if self._answer:
                self._answer.feed(event.text)
                self._drawing = True
            return
        if isinstance(event, Reset) and self._answer:
            self._answer.finish()
            self._drawing = False
        text = self._new_questions(event) if isinstance(event, Planned) else _step(event)
        if text and not self._drawing:
            self._console.step(text)

    def _new_questions(self, event: Planned) -> str | None:
        """A plan is told again, whole, whenever a question joins it: only that one is news."""
        new = [question for question in event.questions if question not in self._asked]
        self._asked.update(new)
        return "asking: " + " · ".join(new) if new else None


def _step(event: ResearchEvent) -> str | None:
    match event:
        case Started():
            return "searching …"
        case Searched():
            return f"{event.count} results from {event.provider}" + (" (cached)" if event.cached else "")
        case Ranked():
            return _ranked(event)
        case Read():
            return _read(event)
        case Summarized():
            return f"summarised {shortened(readable(event.url), LONGEST_TITLE)}"
        case SourcesNumbered():
            return f"writing from {len(event.sources)} sources …" if event.sources else None
        case Reset():
            return f"the writer gave up ({event.reason}); what it wrote is void, the next one begins"
        case _:
            return None


def _ranked(event: Ranked) -> str | None:
    """Of a report alone: elsewhere nobody gives marks."""
    scores = [kept.score for kept in event.kept if kept.score is not None]
    if not scores:
        return None
    best = max(event.kept, key=lambda kept: kept.score or 0.0)
    without = f" ({event.defaulted} without a mark of the model's)" if event.defaulted else ""
    return f"{plural(len(scores), 'result')} ranked{without}, best {best.score:.1f}: {shortened(best.title, LONGEST_TITLE)}"


def _read(event: Read) -> str:
    address = shortened(readable(event.url), LONGEST_TITLE)
    if event.status in GIVES_TEXT:
        return f"read {address}: {plural(event.chars, 'character')}{GIVES_TEXT[event.status]}"
    return f"could not read {address}: {event.status.replace('_', ' ')}"
