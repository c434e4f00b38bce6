"""The terminal and the pipes of a command. Only this file prints, and it removes terminal control sequences first."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from modules.llm_platform.domain.untrusted.untrusted_text import one_line
from modules.llm_platform.presentation.cli.terminal_input import wait_for_input
from modules.llm_platform.presentation.cli.wrapping import wrap
from shared.logging import printable

if TYPE_CHECKING:
    import rich.console

Style = Literal["", "bold", "dim", "green", "yellow", "red"]

DEFAULT_COLUMNS = 80  # assumed for a terminal that does not report its width
MAX_CHAR_BYTES = 4  # of a character in UTF-8


class Line(NamedTuple):
    """A line of output. Its style and its link are shown on a terminal only."""

    text: str = ""
    style: Style = ""
    url: str | None = None


class Console:
    """Prints the answer to standard output and everything else to standard error."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None, source: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.source = source or sys.stdin
        for stream in (self.out, self.err):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a character that the encoding lacks must not end the command
        self._rich: rich.console.Console | None = None
        self.error_handler: Callable[[str], object] | None = None  # takes the text of `print_error` instead of stderr

    @property
    def stdout_is_terminal(self) -> bool:
        return self.out.isatty()

    @property
    def stderr_is_terminal(self) -> bool:
        """True if progress is printed."""
        return self.err.isatty()

    @property
    def is_interactive(self) -> bool:
        """True if a person can read a prompt and answer it."""
        return self.source.isatty() and self.stderr_is_terminal

    @property
    def rich(self) -> rich.console.Console:
        """Rich's console, imported for a terminal only: the import takes as long as a search may."""
        if self._rich is None:
            from rich.console import Console as RichConsole

            self._rich = RichConsole(file=self.out, highlight=False, markup=False, emoji=False)
        return self._rich

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print lines to standard output, in colour on a terminal."""
        if not self.stdout_is_terminal:
            print(*(printable(line.text) for line in lines), sep="\n", file=self.out)
            return
        from rich.style import Style as RichStyle
        from rich.text import Text

        for line in lines:
            style = RichStyle.parse(line.style) + RichStyle(link=printable(line.url) if line.url else None)
            # A word longer than the line is left to the terminal, which copies it without a line break.
            text = wrap(printable(line.text), self.rich.width)
            self.rich.print(Text(text, style=style), soft_wrap=True)

    def print_markdown(self, text: str) -> None:
        """Print Markdown to standard output: rendered on a terminal, as source in a pipe."""
        if self.stdout_is_terminal:
            from modules.llm_platform.presentation.cli.terminal_markdown import TerminalMarkdown

            self.rich.print(TerminalMarkdown(printable(text)))
        else:
            print(printable(text).rstrip("\n"), file=self.out)

    def print_verbatim(self, text: str) -> None:
        """Print text that is already free of control sequences, such as JSON."""
        print(text, file=self.out)

    def warn(self, text: str) -> None:
        self._print_to_stderr(one_line(printable(text)))

    def print_error(self, text: str) -> None:
        if self.error_handler is not None:
            self.error_handler(text)
        else:
            self.warn(f"llm-platform: {text}")

    def print_notes(self, lines: Iterable[Line]) -> None:
        """Print lines to standard error, such as the text above a prompt."""
        for line in lines:
            self._print_to_stderr(printable(line.text))

    def print_command(self, command: str) -> None:
        """Print a shell command to standard error without wrapping: a line break within quotes would change it."""
        print(printable(command), file=self.err, flush=True)

    def print_progress(self, text: str) -> None:
        """Print one line to standard error if that is a terminal."""
        if self.stderr_is_terminal:
            self._print_to_stderr(one_line(printable(text)))

    def wrap_for_stderr(self, text: str) -> str:
        """Return the text, wrapped between words if standard error is a terminal."""
        return wrap(text, self._stderr_columns) if self.stderr_is_terminal else text

    def _print_to_stderr(self, text: str) -> None:
        print(self.wrap_for_stderr(text), file=self.err, flush=True)

    @property
    def _stderr_columns(self) -> int:
        columns = shutil.get_terminal_size((0, 0)).columns  # standard output, which may be a pipe, decides
        with suppress(OSError):
            columns = columns or os.get_terminal_size(self.err.fileno()).columns
        return columns or DEFAULT_COLUMNS

    def read_question(self, prompt: str, *, prompts_enabled: bool) -> str | None:
        """Return the question from standard input, or None if there is none.

        A terminal is asked for a line, if prompts are enabled. Of any other input, at least one character more is read than a
        message may have, so that a longer one is refused and not cut.
        """
        # Imported here, as only a command that asks needs it.
        from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS

        if self.source.isatty():
            return (self.prompt(prompt) or None) if prompts_enabled else None
        buffer = getattr(self.source, "buffer", None)
        if buffer is None:
            return self.source.read(MAX_MESSAGE_CHARS + 1).strip() or None
        return str(buffer.read(MAX_CHAR_BYTES * (MAX_MESSAGE_CHARS + 1)).decode("utf-8", "replace")).strip() or None

    def prompt(self, text: str) -> str | None:
        print(text, end=" ", file=self.err, flush=True)
        wait_for_input(self.source)
        line = self.source.readline()
        return printable(line).strip() if line else None

    def confirm(self, question: str) -> bool:
        """Return whether the user answers yes, or True if nobody can be asked (see `is_interactive`)."""
        return not self.is_interactive or (self.prompt(f"{question} [y/N]") or "").lower() in ("y", "yes")

    @contextmanager
    def ignore_broken_pipe(self) -> Iterator[None]:
        """End the block quietly when the reader of standard output closes it, as `| head` does."""
        try:
            yield
            self.out.flush()
        except BrokenPipeError:
            self.discard_output()

    def discard_output(self) -> None:
        """Send what is buffered for standard output to the null device, so that flushing it at exit raises nothing."""
        with open(os.devnull, "w") as null:  # noqa: PTH123
            os.dup2(null.fileno(), self.out.fileno())
