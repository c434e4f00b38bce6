"""A running research on a terminal: its steps on standard error, its answer on standard output while it is written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, assert_never

from modules.llm_platform.application.research import events
from modules.llm_platform.domain.concurrency.task_group import cancel_and_wait
from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.render.terminal import display_url, shorten
from shared.logging import printable

if TYPE_CHECKING:
    from rich.live import Live

    from modules.llm_platform.application.platform import LLMPlatform

FOLDER_PROGRESS_INTERVAL_S: Final = 2.0
PROGRESS_TITLE_CHARS: Final = 80  # A longer title or address of a page is cut.
PAGE_ORIGINS: Final = {"read": "", "stored": " (from the store)"}  # Keyed by the status of a page that was read.


def split_finished(text: str) -> tuple[str, str]:
    """Return the finished Markdown blocks, and the block that is still being written. A code fence is one block."""
    blocks, finished, position = BlockTracker(), (0, 0), 0
    for line in re.findall(r"(?<![^\n])[^\n]*\n", text):
        if blocks.take(expand_tabs(line[:-1])).kind == "blank":
            finished = position, position + len(line)
        position += len(line)
    return text[: finished[0]].removesuffix("\n"), text[finished[1] :]


class LiveAnswer:
    """Prints tokens block by block: a finished block stays, the unfinished one is redrawn below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._unfinished = ""
        self._live: Live | None = None
        self._has_printed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def feed(self, text: str) -> None:
        written = printable(text)
        self._unfinished += written
        if "\n" in written:
            finished, self._unfinished = split_finished(self._unfinished)
            self._print(finished)
        if self._unfinished.strip():
            from rich.live import Live

            from modules.llm_platform.presentation.cli.terminal_markdown import TerminalMarkdown

            if self._live is None:
                self._live = Live(console=self._console.rich, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(TerminalMarkdown(self._unfinished), refresh=True)

    def finish(self) -> None:
        """Print the last block for good."""
        self._print(self._unfinished)
        self._unfinished = ""

    def _print(self, block: str) -> None:
        if not block.strip():
            return
        self._stop()
        if self._has_printed:
            self._console.print_lines([Line()])
        self._console.print_markdown(block)
        self._has_printed = True

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class Progress:
    """Prints the events of a research run once. Tokens go to `answer`. If that is None, they are not shown."""

    def __init__(self, console: Console, answer: LiveAnswer | None) -> None:
        self._console = console
        self._answer = answer
        self._printed_questions: set[str] = set()
        self._is_drawing = False  # While the answer is drawn, a step would be printed into its text.

    def show(self, event: events.ResearchEvent) -> None:
        """Print the event if it has a text. Events while the answer is written are left out."""
        if isinstance(event, events.Token):
            if self._answer:
                self._answer.feed(event.text)
                self._is_drawing = True
            return
        if isinstance(event, events.Reset | events.Verified) and self._answer:
            self._answer.finish()
            self._is_drawing = False
        if isinstance(event, events.Planned):
            # The event has the whole plan, so questions of an earlier plan are left out.
            new = [question for question in event.questions if question not in self._printed_questions]
            self._printed_questions.update(new)
            text = "searching for: " + " · ".join(new) if new else None
        else:
            text = _step_text(event)
        if text and not self._is_drawing:
            self._console.print_progress(text)


def _step_text(event: events.ResearchEvent) -> str | None:
    match event:
        case events.Started():
            return "searching …"
        case events.Searched():
            return f"{format_count(event.count, 'result')} from {event.provider}" + (
                " (cached)" if event.cached else ""
            )
        case events.Ranked():
            return _describe_ranked(event)
        case events.Read():
            return _read_text(event)
        case events.Summarized():
            return f"summarized {shorten(display_url(event.url), PROGRESS_TITLE_CHARS)}"
        case events.ModelProgressed() | events.RoundStarted():
            return event.describe()
        case events.SourcesNumbered():
            return f"writing from {format_count(len(event.sources), 'source')} …" if event.sources else None
        case events.Verified():
            return f"the model verifies {format_count(event.pending, 'citation')} …" if event.pending else None
        case events.Reset():
            return f"the model failed ({event.reason}): discard the text above, the answer begins again"
        case events.Planned() | events.Token() | events.Done() | events.Failed():
            return None  # The callers show these.
        case _:
            assert_never(event)


def _describe_ranked(event: events.Ranked) -> str | None:
    """Return the number of ranked results and the best one, or None if results have no scores."""
    scored = [result for result in event.kept if result.score is not None]
    if not scored:
        return None
    best = max(scored, key=lambda result: result.score or 0.0)
    defaulted = f" ({event.defaulted} without a score of the model)" if event.defaulted else ""
    title = shorten(best.title, PROGRESS_TITLE_CHARS)
    return f"{format_count(len(scored), 'result')} ranked{defaulted}, best {best.score:.1f}: {title}"


def _read_text(event: events.Read) -> str:
    address = shorten(display_url(event.url), PROGRESS_TITLE_CHARS)
    if event.status in PAGE_ORIGINS:
        return f"read {address}: {format_count(event.chars, 'character')}{PAGE_ORIGINS[event.status]}"
    return f"could not read {address}: {event.status.replace('_', ' ')}"


@asynccontextmanager
async def report_folder_progress(
    console: Console, platform: LLMPlatform, interval_s: float = FOLDER_PROGRESS_INTERVAL_S
) -> AsyncIterator[None]:
    """Print every `interval_s` seconds of the block how far the reading of the documents is, if any are being read."""
    if not console.stderr_is_terminal:
        yield
        return
    reporting = asyncio.create_task(_report_folder_progress(console, platform, interval_s))
    try:
        yield
    finally:
        await cancel_and_wait(reporting)


async def _report_folder_progress(console: Console, platform: LLMPlatform, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        if progress := platform.reading:
            share = f" ({progress.done_bytes / progress.total_bytes:.0%})" if progress.total_bytes else ""
            console.print_progress(f"reading the documents: {progress.documents:,} so far{share} …")
