"""What a writer made of the sources, turned into what may be shown, while it is being written."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.markdown.inline import InlineCleaner
from modules.llm_platform.domain.markdown.units import Unit, UnitSplitter
from modules.llm_platform.domain.markdown.unwrapping import FenceRemover, SourceListRemover

_UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # terminals obey some of them
_REPLACED = {"\x0b": " ", "\x0c": " ", "\x1f": "", "\x85": " "}
_HALF = re.compile(r"[\x00\ud800-\udfff]")  # cannot be sent, CommonMark shows the first as U+FFFD too

_TILDES = re.compile(r"([ \t>*+\-0-9.)]*)~~~")
_DEFINITION = re.compile(
    r"""[ \t>*+\-0-9.)]*\[(?:[^\[\]\\]|\\.)+\]:[ \t]*(?:<[^<>]*>|[^\s<>]*[/:.#][^\s<>]*)(?:[ \t]+["'(].*)?[ \t]*\Z"""
)
_LABEL = re.compile(r"[ \t>*+\-0-9.)]*\[(?:[^\[\]\\]|\\.)+\]:[ \t]*\n")
_DESTINATION = re.compile(r"""[ \t>]*(?:<[^<>]*>|[^\s<>]*[/:.#][^\s<>]*)(?:[ \t]+["'(].*)?[ \t]*\n""")


def sanitize(text: str, sources: Sequence[Source]) -> str:
    """The whole text at once; pieces in any cut give the same."""
    sanitizer = AnswerSanitizer(sources)
    return sanitizer.feed(text) + sanitizer.finish()


class AnswerSanitizer:
    """Takes Markdown that nobody vouches for in pieces, gives what may be shown, sentence by sentence.

    Shown are: text, code as it was written, `[n]` where n is a source's `index`, links whose target is a source's
    address. Gone or made harmless are other markers, links, images, addresses, definitions and HTML, for any CommonMark
    or GFM renderer. What it has given never changes.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._cleaner = InlineCleaner(sources)
        self._blocks = BlockTracker()
        self._units = UnitSplitter()
        self._fence = FenceRemover([source.index for source in sources])
        self._list = SourceListRemover(sources)
        self._label: Unit | None = None  # the line before, if a definition may have its address on the next one
        self._return = ""  # a carriage return that may be half of a line end
        self._in_indented = False  # the line that is being shown is indented code

    def feed(self, text: str) -> str:
        """Take the next piece; what is now finished and safe, maybe nothing."""
        if self._return or _UNREADABLE.search(text):
            text = self._readable(self._return + text)
        self._units.add(self._fence.feed(text))
        return self._list.feed(self._release())

    def finish(self) -> str:
        """The rest. Code that was left open is closed, so that what follows the answer is not drawn into it."""
        self._units.add(self._fence.feed("\n" if self._return else "") + self._fence.finish())
        self._return = ""
        text = self._release()
        line_open = self._units.waits
        if line_open:
            self._units.add("\n")
            text += self._release().removesuffix("\n")
        if self._label is not None:
            label, self._label = self._label, None
            text += self._show(label).removesuffix("\n" if line_open else "")
        fence = self._blocks.fence
        if fence is not None:
            text += ("\n" if line_open else "") + fence.prefix + fence.run
        return self._list.feed(text) + self._list.finish()

    def _release(self) -> str:
        parts = []
        while (unit := self._units.next(in_fence=self._blocks.fence is not None)) is not None:
            parts.append(self._show_in_order(unit))
        return "".join(parts)

    def _show_in_order(self, unit: Unit) -> str:
        """What is shown of a unit; a definition that takes two lines goes whole."""
        label, self._label = self._label, None
        if label is None and unit.begins_line and "]:" in unit.text and self._may_define(unit.text):
            self._label = unit
            return ""
        if label is None:
            return self._show(unit)
        return "" if _DESTINATION.fullmatch(unit.text) else self._show(label) + self._show(unit)

    def _may_define(self, line: str) -> bool:
        in_code = self._blocks.fence is not None or self._blocks.is_indented_code(expand_tabs(line.removesuffix("\n")))
        return not in_code and bool(_LABEL.fullmatch(line))

    def _show(self, unit: Unit) -> str:
        if not unit.begins_line:
            return unit.text if self._in_indented else self._cleaner.clean(unit.text, begins_line=False)
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
        cleaned = expand_tabs(self._cleaner.clean(line, begins_line=True))
        if "~~~" in cleaned and (tildes := _TILDES.match(cleaned)):
            cleaned = f"{tildes[1]}\\{cleaned[tildes.end(1) :]}"
        blocks.take(cleaned)
        return cleaned + line_end

    def _readable(self, text: str) -> str:
        """Without control characters and with one kind of line end."""
        self._return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        return _UNREADABLE.sub(lambda found: "\ufffd" if _HALF.match(found[0]) else _REPLACED.get(found[0], ""), text)
