"""Markdown on a terminal: Rich's renderer with the line breaks of `wrapping`, and without cut table cells."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderResult
from rich.containers import Lines
from rich.markdown import Heading, Markdown, MarkdownContext, MarkdownElement, Paragraph, TableDataElement, TableElement
from rich.table import Table
from rich.text import Text

from modules.llm_platform.presentation.cli.wrapping import find_line_starts, measure_columns, measure_longest_word

COLUMN_GAP: Final = 2  # The columns that Rich puts between two cells, and before the first and after the last one.


class _WrappedText(Text):
    """Text that wraps between words. Rich treats a run of Chinese or Japanese as one word, and cuts names and numbers in it."""

    def wrap(
        self,
        console: Console,
        width: int,
        *,
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        tab_size: int = 8,
        no_wrap: bool | None = None,
    ) -> Lines:
        lines = Lines()
        for line in self.split(allow_blank=True):
            line.expand_tabs(tab_size)
            pieces = line.divide(find_line_starts(line.plain, width, fold=True))
            for piece in pieces:
                piece.rstrip_end(width)
            pieces.justify(console, width, justify=justify or self.justify or "default", overflow="fold")
            lines.extend(pieces)
        return lines


class _Paragraph(Paragraph):
    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = _WrappedText(justify="left")


class _Heading(Heading):
    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = _WrappedText()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = self.LEVEL_ALIGN.get(self.tag, "left")
        yield self.text


class _Cell(TableDataElement):
    def __init__(self, justify: JustifyMethod) -> None:
        super().__init__(justify)
        self.content: Text = _WrappedText("", justify=justify, overflow="fold")


class _Table(TableElement):
    """A table without cut words, or its rows as lines `name: value` where the longest words do not fit side by side."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        widths = _divide_width([names, *rows], options.max_width)
        if rows and not widths:
            for row in rows:
                yield Text()
                yield from _list_fields(names, row)
            return
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column, width in zip(table.columns, widths, strict=False):
                    column.width = width
            yield table


def _divide_width(rows: Iterable[Iterable[Text]], width: int) -> list[int]:
    """Return the widths of the columns in which no word is cut, or no width if they take more than `width` together.

    Rich shortens the widest columns only, and cuts their words while others have room.
    """
    columns = list(zip(*rows, strict=False))
    least = [max(measure_longest_word(cell.plain) for cell in column) for column in columns]
    wanted = [max(measure_columns(cell.plain) for cell in column) for column in columns]
    room = width - COLUMN_GAP * len(columns) - sum(least)
    if room < 0:
        return []
    missing = sum(wanted) - sum(least)
    share = min(1.0, room / missing) if missing else 0.0
    return [first + int((best - first) * share) for first, best in zip(least, wanted, strict=True)]


def _list_fields(names: Iterable[Text], row: Iterable[Text]) -> Iterator[Text]:
    """Yield a line for each value of the row. A column without a name has only its value, if there is one."""
    for name, value in zip(names, row, strict=False):
        if not (name.plain or value.plain):
            continue
        line = _WrappedText()
        if name.plain:
            line.append_text(name).append(": ")
            line.stylize("markdown.table.header", 0, len(name.plain) + 1)
        yield line.append_text(value)


class TerminalMarkdown(Markdown):
    """Markdown whose links are shown as text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Paragraph,
        "heading_open": _Heading,
        "table_open": _Table,
        "th_open": _Cell,
        "td_open": _Cell,
    }

    def __init__(self, markup: str) -> None:
        super().__init__(markup, hyperlinks=False)
