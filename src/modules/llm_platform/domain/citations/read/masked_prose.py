"""Replace everything in an answer except its prose by spaces and line ends, so that sentences can be split by their offsets."""

import re

from modules.llm_platform.domain.citations.read.markup import DELIMITERS, MARKUP_BEFORE, SPACED_MARKER
from modules.llm_platform.domain.markdown.blocks import BlockTracker, Line, expand_tabs
from modules.llm_platform.domain.markdown.markers import LINE, LINK_TARGET, mask_code_spans, render_markers

_SUBJECT = re.compile(r"(?:\A|[.!?…][\"'”’)*_]*[ ]|\n\n)[ ]*((?:\[\d{1,9}\])+)(?=[ ]+[^\W\d_A-Z])")

Marker = tuple[int, int, int]  # start, end, number


def mask_all_but_prose(answer: str, blocks: BlockTracker) -> tuple[str, list[Marker]]:
    """Return the text with everything but prose replaced by line ends and spaces, and the markers of the text.

    Offsets do not change. Headings, code and list markers become line ends, which separate the blocks of prose.
    """
    at = 0
    lines: list[tuple[str, list[Marker], str]] = []  # the text, the markers and the end of each line
    paragraph: list[int] = []  # the lines that an underline below would turn into a heading
    for found in LINE.finditer(answer):
        line = found[0].removesuffix("\n")
        read = blocks.take(expand_tabs(line))
        if read.kind == "text" and not (is_delimiter := DELIMITERS.match(line)):
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
    before = MARKUP_BEFORE.match(line).end()  # type: ignore[union-attr]  # it matches an empty text
    is_row = line[before : before + 1] == "|"
    before += is_row
    text = line[before:]
    text = mask_code_spans(text, "X")  # a word of the same length, without sentence ends and markers
    markers = []
    if "[" in text:
        if "](" in text:
            text = LINK_TARGET.sub(lambda target: "x" * len(target[0]), text)
        markers = [(at + before + start, at + before + end, number) for start, end, number in render_markers(text)]
        text = _SUBJECT.sub(lambda subject: subject[0].replace(subject[1], "X" * len(subject[1])), text)
        text = SPACED_MARKER.sub(lambda mark: " " * len(mark[0]), text)
    new_block = is_row or read.starts_container or not before
    lead = "\n" * before if new_block and before else " " * before
    return lead + text, markers
