"""Sanitise the Markdown of an answer while it is streamed."""

import re
from collections.abc import Iterator, Sequence

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.markdown.inline import InlineCleaner
from modules.llm_platform.domain.markdown.units import Unit, UnitSplitter
from modules.llm_platform.domain.markdown.unwrapping import FenceRemover, SourceListRemover

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # terminals execute some of them
_CONTROL_REPLACEMENTS = {"\x0b": " ", "\x0c": " ", "\x1f": "", "\x85": " "}
_INVALID = re.compile(r"[\x00\ud800-\udfff]")  # become U+FFFD, as CommonMark asks for NUL

_TILDES = re.compile(r"([ \t>*+\-0-9.)]*)~~~")
_DEFINITION = re.compile(
    r"""[ \t>*+\-0-9.)]*\[(?:[^\[\]\\]|\\.)+\]:[ \t]*(?:<[^<>]*>|(?=[^\s<>]*[/:.#])[^\s<>]+)(?:[ \t]+["'(].*)?[ \t]*\Z"""
)
_DELIMITER_ROW = re.compile(
    r"[ \t>*+\-0-9.)]*(?:[|:][ \t|:-]*|-[ \t]*)"
)  # makes the line before it the head of a table
_BAR_IN_CODE = re.compile(r"`[^`]*(?<!\\)\|")
_LABEL = re.compile(r"[ \t>*+\-0-9.)]*\[(?:[^\[\]\\]|\\.)+\]:[ \t]*\n")
_DESTINATION = re.compile(r"""[ \t>]*(?:<[^<>]*>|(?=[^\s<>]*[/:.#])[^\s<>]+)(?:[ \t]+["'(].*|[ \t]*)\n""")


def sanitize(text: str, sources: Sequence[Source]) -> str:
    """Sanitise a complete text; streaming it in any pieces gives the same result."""
    sanitizer = AnswerSanitizer(sources)
    return sanitizer.feed(text) + sanitizer.finish()


class AnswerSanitizer:
    """Takes untrusted Markdown in pieces and returns sanitised Markdown, sentence by sentence.

    Text, code, `[n]` where n is the `index` of a source, and links to a source's URL pass. Other markers, links, images,
    addresses, definitions and HTML are removed or neutralised, for any CommonMark or GFM renderer. Returned text is final.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._cleaner = InlineCleaner(sources)
        self._blocks = BlockTracker()
        self._units = UnitSplitter()
        self._fence = FenceRemover([source.index for source in sources])
        self._source_list = SourceListRemover(sources)
        self._label: Unit | None = None  # the previous line, if it may begin a definition that takes two lines
        self._carriage_return = ""  # a final one may be half of a line end
        self._in_indented = False  # the current line is indented code
        self._bar_in_code = False  # the previous line has a bar in code: it must not become the head of a table

    def feed(self, text: str) -> str:
        """Add the next piece, and return the sanitised text that is now complete, maybe nothing."""
        return "".join(self.units(text))

    def units(self, text: str) -> Iterator[str]:
        """Sanitise sentence by sentence or line by line; where these end does not depend on the pieces either."""
        if self._carriage_return or _CONTROL.search(text):
            text = self._normalize(self._carriage_return + text)
        self._units.add(self._fence.feed(text))
        while (unit := self._take_unit()) is not None:
            if safe := self._source_list.feed(unit):
                yield safe

    def finish(self) -> str:
        """Return the rest. An open code block is closed, so that text after the answer does not become a part of it."""
        self._units.add(self._fence.feed("\n" if self._carriage_return else "") + self._fence.finish())
        self._carriage_return = ""
        text = self._take_complete()
        is_line_open = self._units.has_pending
        if is_line_open:
            self._units.add("\n")
            text += self._take_complete().removesuffix("\n")
        if self._label is not None:
            label, self._label = self._label, None
            text += self._sanitize(label).removesuffix("\n" if is_line_open else "")
        fence = self._blocks.fence
        if fence is not None:
            text += ("\n" if is_line_open else "") + fence.prefix + fence.run
        return self._source_list.feed(text) + self._source_list.finish()

    def _take_complete(self) -> str:
        return "".join(iter(self._take_unit, None))

    def _take_unit(self) -> str | None:
        unit = self._units.next(in_fence=self._blocks.fence is not None)
        return None if unit is None else self._sanitize_or_defer(unit)

    def _sanitize_or_defer(self, unit: Unit) -> str:
        """Return the sanitised unit; a definition on two lines is removed as a whole."""
        label, self._label = self._label, None
        if label is None and unit.begins_line and "]:" in unit.text and self._may_define(unit.text):
            self._label = unit
            return ""
        if label is None:
            return self._sanitize(unit)
        return "" if _DESTINATION.fullmatch(unit.text) else self._sanitize(label) + self._sanitize(unit)

    def _may_define(self, line: str) -> bool:
        in_code = self._blocks.fence is not None or self._blocks.is_indented_code(expand_tabs(line.removesuffix("\n")))
        return not in_code and bool(_LABEL.fullmatch(line))

    def _sanitize(self, unit: Unit) -> str:
        if not unit.begins_line:
            rest = unit.text if self._in_indented else self._cleaner.clean(unit.text, begins_line=False)
            self._bar_in_code = self._bar_in_code or bool(_BAR_IN_CODE.search(rest))
            return rest
        line = unit.text.removesuffix("\n")
        line_end = unit.text[len(line) :]
        line = expand_tabs(line) if "\t" in line else line
        blocks = self._blocks
        if blocks.is_code(line) or blocks.opens_fence(line):
            nested = blocks.take(line).offset > 0
            return line + line_end if nested else unit.text
        self._in_indented = blocks.is_indented_code(line)
        if self._in_indented:
            blocks.take(line)
            return line + line_end
        if "]:" in line and _DEFINITION.match(line):
            return ""
        line = self._track_table(line)
        cleaned = expand_tabs(self._cleaner.clean(line, begins_line=True))
        self._bar_in_code = bool(_BAR_IN_CODE.search(cleaned))
        if "~~~" in cleaned and (tildes := _TILDES.match(cleaned)):
            cleaned = f"{tildes[1]}\\{cleaned[tildes.end(1) :]}"
        blocks.take(cleaned)
        return cleaned + line_end

    def _track_table(self, line: str) -> str:
        """Track tables, and escape the bars of a line that would make a table of a line with a bar in code."""
        delimiter = "-" in line and _DELIMITER_ROW.fullmatch(line)
        if delimiter and self._bar_in_code and "|" in line:
            line = line.replace("|", "\\|")
            delimiter = None
        self._cleaner.in_table = bool(delimiter) or (self._cleaner.in_table and bool(line.strip()))
        return line

    def _normalize(self, text: str) -> str:
        """Return the text without control characters and with one kind of line end."""
        self._carriage_return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        return _CONTROL.sub(
            lambda found: "\ufffd" if _INVALID.match(found[0]) else _CONTROL_REPLACEMENTS.get(found[0], ""), text
        )
