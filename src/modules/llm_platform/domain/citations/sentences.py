"""Split an answer into sentences, with their offsets and the sources that each cites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.markdown.blocks import BlockTracker, Line, expand_tabs
from modules.llm_platform.domain.markdown.markers import CODE_SPAN, LINE, LINK_TARGET, render_markers
from modules.llm_platform.domain.text.sentences import Span, sentence_spans

_MARKUP_BEFORE = re.compile(r"[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+|>[ \t]*)*(?:\[[ xX]\][ \t]+)?")
_DELIMITERS = re.compile(r"[ |:]*-[ |:-]*\Z")
_SUBJECT = re.compile(r"(?:\A|[.!?…][\"'”’)*_]*[ ]|\n\n)[ ]*((?:\[\d{1,9}\])+)(?=[ ]+[^\W\d_A-Z])")
_TAIL = re.compile(r"(?:[ \t,;]*\[\d{1,9}\])+(?=[\s.,;:!?…)\"'”’»*_|。，、；：？！）」』]*\Z)")
_MARKS = re.compile(r"[ ]?\[\d{1,9}\]")
_BEFORE_MARK = " \t,;"
_EMPHASIS_SIGNS = frozenset("`*_~")
_EMPHASIS = re.compile(r"(`[^`]*`)|\*+|(?<!\w)_+|_+(?!\w)|~~")  # not in code: `_name`


Marker = tuple[int, int, int]  # start, end, number


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence, list item or table row. `end` is before the markers at its end; `claim` is its text without markup."""

    start: int
    end: int
    claim: str
    cited: tuple[int, ...]


def answer_sentences(answer: str, language: str) -> list[AnswerSentence]:
    """The sentences in order, without headings, code and lines without a word."""
    masked, markers = _mask(answer)
    spans = _in_table_rows(masked, sentence_spans(masked, language))
    return list(_sentences(answer, masked, spans, markers))


def _mask(answer: str) -> tuple[str, list[Marker]]:
    """The text with everything but prose blanked, at the same offsets, and its markers.

    Empty lines separate the blocks, in the place of list markers and blanked lines.
    """
    blocks, at = BlockTracker(), 0
    lines: list[tuple[str, list[Marker], str]] = []  # each with its end
    paragraph: list[int] = []  # the lines that an underline would make a heading
    for found in LINE.finditer(answer):
        line = found[0].removesuffix("\n")
        read = blocks.take(expand_tabs(line))
        if read.kind == "text" and not (is_delimiter := _DELIMITERS.match(line)):
            paragraph = [] if read.starts_container else paragraph
            paragraph.append(len(lines))
            lines.append((*_mask_line(line, at, read), found[0][len(line) :]))
        else:
            titles = paragraph if read.kind == "rule" and line.lstrip(" >")[:1] in ("=", "-") else []
            for number in titles or (paragraph[-1:] if read.kind == "text" and is_delimiter else []):
                lines[number] = ("\n" * len(lines[number][0]), [], "\n")
            paragraph = []
            lines.append(("\n" * len(line), [], found[0][len(line) :]))
        at = found.end()
    return "".join(text + end for text, _, end in lines), [marker for _, marks, _ in lines for marker in marks]


def _mask_line(line: str, at: int, read: Line) -> tuple[str, list[Marker]]:
    before = _MARKUP_BEFORE.match(line).end()  # type: ignore[union-attr]  # matches nothing too
    is_row = line[before : before + 1] == "|"
    before += is_row
    text = line[before:]
    if "`" in text:
        text = CODE_SPAN.sub(_mask_code, text)
    markers = []
    if "[" in text:
        if "](" in text:
            text = LINK_TARGET.sub(lambda target: "x" * len(target[0]), text)
        markers = [(at + before + start, at + before + end, number) for start, end, number in render_markers(text)]
        text = _SUBJECT.sub(lambda subject: subject[0].replace(subject[1], "X" * len(subject[1])), text)
        text = _MARKS.sub(lambda mark: " " * len(mark[0]), text)
    new_block = is_row or read.starts_container or not before
    lead = "\n" * before if new_block and before else " " * before
    return lead + text, markers


def _mask_code(code: re.Match[str]) -> str:
    """Code as one word of the same length, without sentence ends and markers."""
    return "X" * len(code[0])


def _in_table_rows(masked: str, spans: list[Span]) -> list[Span]:
    """The spans, those of one table row joined."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and "\n" not in masked[joined[-1][0] : end] and "|" in masked[joined[-1][0] : end]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _sentences(answer: str, masked: str, spans: list[Span], markers: list[Marker]) -> Iterator[AnswerSentence]:
    place = 0
    for number, (first, last) in enumerate(spans):
        start, end = first, last
        until = spans[number + 1][0] if number + 1 < len(spans) else len(masked)
        block_end = masked.find("\n\n", last, until)
        until = block_end if block_end >= 0 else until
        cited: dict[int, None] = {}
        while place < len(markers) and markers[place][0] < until:
            marker_start, marker_end, source = markers[place]
            start, end = min(start, marker_start), max(end, marker_end)
            cited[source] = None
            place += 1
        yield _sentence(answer, start, end, tuple(cited))


def _sentence(answer: str, start: int, end: int, cited: tuple[int, ...]) -> AnswerSentence:
    text = answer[start:end]
    if cited:
        tail = _TAIL.search(text, len(text.partition("[")[0].rstrip(_BEFORE_MARK)))  # faster than from the beginning
        text = text[: tail.start()] if tail else text
    text = text.rstrip()
    claim = _MARKS.sub("", text) if cited else text
    if "](" in claim:
        claim = LINK_TARGET.sub("", claim).replace("[", "")
    if not _EMPHASIS_SIGNS.isdisjoint(claim):
        claim = _EMPHASIS.sub(_code_only, claim)
    return AnswerSentence(start, start + len(text), " ".join(claim.split()), cited)


def _code_only(found: re.Match[str]) -> str:
    return found[1] or ""
