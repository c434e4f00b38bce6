"""The answer of a running research on the terminal as it is written; `progress.py` tells its steps."""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING, Self

from modules.llm_platform.presentation.cli.console import Console, Line
from shared.logging import printable

if TYPE_CHECKING:
    from rich.live import Live

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
