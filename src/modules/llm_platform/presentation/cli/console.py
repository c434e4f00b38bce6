"""The only file that prints. Nothing reaches a terminal before it is rid of what could steer it."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from modules.llm_platform.presentation.cli.wrapping import wrapped
from shared.logging import printable

if TYPE_CHECKING:
    import rich.console

Style = Literal["", "bold", "dim", "green", "yellow", "red"]

DEFAULT_COLUMNS = 80  # of a terminal that does not tell
MAX_QUESTION_BYTES = 65_536  # of standard input; a question has 500 characters


class Line(NamedTuple):
    """A line for people; the style is shown on a terminal only."""

    text: str = ""
    style: Style = ""


class Console:
    """Standard output for the answer, standard error for everything about it."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, source: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.source = source or sys.stdin
        for stream in (self.out, self.err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a character that the encoding lacks is no reason to die
        self._rich: rich.console.Console | None = None
        self.failed: Callable[[str], object] | None = None  # who takes the line of `fail`; None: standard error

    @property
    def on_terminal(self) -> bool:
        """Whether a person watches standard output."""
        return self.out.isatty()

    @property
    def watched(self) -> bool:
        """Whether a person watches standard error, where progress goes."""
        return self.err.isatty()

    @property
    def rich(self) -> rich.console.Console:
        """rich, for a terminal alone: importing it takes as long as a search may."""
        if self._rich is None:
            from rich.console import Console as RichConsole

            self._rich = RichConsole(file=self.out, highlight=False, markup=False, emoji=False)
        return self._rich

    def lines(self, lines: Iterable[Line]) -> None:
        """Lines for people, coloured on a terminal."""
        if not self.on_terminal:
            print(*(printable(line.text) for line in lines), sep="\n", file=self.out)
            return
        from rich.text import Text

        for line in lines:
            # Broken between words; a longer one is left to the terminal, which gives it back whole when it is copied.
            text = wrapped(printable(line.text), self.rich.width)
            self.rich.print(Text(text, style=line.style), soft_wrap=True)

    def markdown(self, text: str) -> None:
        """Markdown: rendered on a terminal, as it is in a pipe."""
        if self.on_terminal:
            from modules.llm_platform.presentation.cli.rich_markdown import rendered

            self.rich.print(rendered(printable(text)))
        else:
            print(printable(text).rstrip("\n"), file=self.out)

    def verbatim(self, text: str) -> None:
        """Text for programs, which has been made safe where it was made."""
        print(text, file=self.out)

    def warn(self, text: str) -> None:
        """One line beside the answer."""
        self._print_beside(_one_line(text))

    def fail(self, text: str) -> None:
        """The one line that says why there is no answer."""
        if self.failed is not None:
            self.failed(text)
        else:
            self.warn(f"llm-platform: {text}")

    def aside(self, lines: Iterable[Line]) -> None:
        """Lines for the person who is asked something: the answer is not among them."""
        for line in lines:
            self._print_beside(printable(line.text))

    def to_copy(self, command: str) -> None:
        """A command to run, on a line of its own that nothing breaks: a line end within quotes would change it."""
        print(printable(command), file=self.err, flush=True)

    def step(self, text: str) -> None:
        """What happens right now: for a person who watches, not for a log."""
        if self.watched:
            self._print_beside(_one_line(text))

    def beside(self, text: str) -> str:
        """The text as standard error takes it: in lines that break between words, where it is a terminal."""
        return wrapped(text, self._columns) if self.watched else text

    def _print_beside(self, text: str) -> None:
        print(self.beside(text), file=self.err, flush=True)

    @property
    def _columns(self) -> int:
        """Of the terminal behind standard error: standard output may go elsewhere."""
        columns = shutil.get_terminal_size((0, 0)).columns
        with suppress(OSError):
            columns = columns or os.get_terminal_size(self.err.fileno()).columns
        return columns or DEFAULT_COLUMNS

    def question(self, prompt: str, *, ask: bool) -> str | None:
        """The question: asked for on a terminal where that is wanted, else all of standard input; None: none came."""
        if not self.source.isatty():
            return _read(self.source).strip() or None
        if not ask:
            return None
        print(prompt, end=" ", file=self.err, flush=True)
        return self.source.readline().strip() or None

    @property
    def answers(self) -> bool:
        """Whether a person is there who sees a question and can answer it."""
        return self.source.isatty() and self.watched

    def ask(self, prompt: str) -> str | None:
        """One line from the person, None when there are no more."""
        print(prompt, end=" ", file=self.err, flush=True)
        typed = self.source.readline()
        return printable(typed).strip() if typed else None

    def agrees(self, prompt: str) -> bool:
        """A person's yes or no; where nobody can be asked, yes."""
        if not self.answers:
            return True
        print(f"{prompt} [y/N]", end=" ", file=self.err, flush=True)
        return self.source.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def quiet_when_nobody_reads(self) -> Iterator[None]:
        """`| head` closes our output when it has enough: that ends the command, and is no failure."""
        try:
            yield
            self.out.flush()
        except BrokenPipeError:
            self.drop_output()

    def drop_output(self) -> None:
        """Standard output takes no more: what is left in its buffer must not be an error of its own at exit."""
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), self.out.fileno())


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _read(source: TextIO) -> str:
    buffer = getattr(source, "buffer", None)
    if buffer is None:
        return source.read(MAX_QUESTION_BYTES)
    return str(buffer.read(MAX_QUESTION_BYTES).decode("utf-8", "replace"))
