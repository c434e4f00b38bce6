"""Markdown on a terminal: Rich's renderer with the line breaks of `wrapping`, and without cut table cells."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderResult
from rich.containers import Lines
from rich.markdown import Heading, Markdown, MarkdownContext, MarkdownElement, Paragraph, TableDataElement
from rich.text import Text

from modules.llm_platform.presentation.cli.wrapping import find_line_starts


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


class TerminalMarkdown(Markdown):
    """Markdown whose links are shown as text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Paragraph,
        "heading_open": _Heading,
        "th_open": _Cell,
        "td_open": _Cell,
    }

    def __init__(self, markup: str) -> None:
        super().__init__(markup, hyperlinks=False)
