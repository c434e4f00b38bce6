"""Markdown on a terminal: rich's, with our own line breaks, and with no cell of a table cut short."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderResult
from rich.containers import Lines
from rich.markdown import Heading, Markdown, MarkdownContext, MarkdownElement, Paragraph, TableDataElement
from rich.text import Text

from modules.llm_platform.presentation.cli.wrapping import line_starts

# Markdown on a terminal: rich's, with our own line breaks, and with no cell of a table cut short.


def rendered(markdown: str) -> Markdown:
    """What rich shows of it; links are text."""
    return _Markdown(markdown, hyperlinks=False)


class _WholeWords(Text):
    """rich takes a run of Chinese or Japanese for one word, and cuts names and numbers within it where the line ends."""

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
            pieces = line.divide(line_starts(line.plain, width, fold=True))
            for piece in pieces:
                piece.rstrip_end(width)
            pieces.justify(console, width, justify=justify or self.justify or "default", overflow="fold")
            lines.extend(pieces)
        return lines


class _Paragraph(Paragraph):
    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = _WholeWords(justify="left")


class _Heading(Heading):
    def on_enter(self, context: MarkdownContext) -> None:
        super().on_enter(context)
        self.text = _WholeWords()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = self.LEVEL_ALIGN.get(self.tag, "left")
        yield self.text


class _Cell(TableDataElement):
    def __init__(self, justify: JustifyMethod) -> None:
        super().__init__(justify)
        self.content: Text = _WholeWords("", justify=justify, overflow="fold")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Paragraph,
        "heading_open": _Heading,
        "th_open": _Cell,
        "td_open": _Cell,
    }
