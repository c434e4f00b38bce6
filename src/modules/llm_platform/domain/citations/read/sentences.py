"""Split an answer into sentences, with their offsets and the sources that each cites.

`read_answer` replaces everything but prose with spaces, splits the rest into sentences, and assigns the markers to them. A marker
cites the sentence that it is in or directly after. A marker below a paragraph, a list or the whole answer (on a line of its
own, or as `Sources: [1]`) belongs to all of it; see `TrailingMarkers`. The checker then reads each sentence as a `Claim`.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from modules.llm_platform.domain.citations.read.markup import SPACED_MARKER, strip_links_and_emphasis, strip_tail
from modules.llm_platform.domain.citations.read.masked_prose import Marker, mask_all_but_prose
from modules.llm_platform.domain.citations.read.table_cells import TableCell, TableReader
from modules.llm_platform.domain.markdown.blocks import BlockTracker
from modules.llm_platform.domain.markdown.unwrapping import SOURCE_LIST_NAMES
from modules.llm_platform.domain.text.sentences import STOPS, WIDE_STOPS, Span, split_sentences

MAX_TRAILED_SENTENCES = 200  # a trailing marker may cite at most this many sentences above it

_BRACKETS = re.compile(r"\([^().!?\n]{1,200}\)(?= {3,}[.!?])")  # without a sentence end
_ITEM = re.compile(r"[ \t>]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_LABEL = re.compile(rf"(\*\*|__)(?=\S)[^*_\n]*[^*_\s{STOPS}{WIDE_STOPS}]\1")
_NO_STATEMENT = re.compile(
    rf"[\W_]*(?:(?:{SOURCE_LIST_NAMES})[\W_]*(?:(?:and|und|et|y|e|и|та|和|及)[\W_]*)?|(?:doc:|https?://)[^\s()<>]*(?:[\s()<>][\W_]*)?)?",
    re.I,
)  # white space, the name of a list of sources, or the address of one

_BETWEEN_CLAUSES = " \t,;:()\u2013\u2014"
MIN_CLAUSE_WORDS = 4  # a clause of fewer words is not a statement of its own


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence that has markers in its middle. `cited` are the sources of the markers after it."""

    text: str
    cited: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence, list item or table row.

    - `start` and `end` delimit it in the answer, without the markers at its end.
    - `claim` is its text without markup and markers, and `written` its text as it appears in the answer.
    - `cited` are the cited sources. `cited_by_platform` are the ones whose markers the platform added.
    - `cells` are the cells of a table row, without the first one, which is the header of the row.
    - `clauses` are its parts if it has markers in its middle.
    """

    start: int
    end: int
    claim: str
    cited: tuple[int, ...]
    cited_by_platform: frozenset[int] = frozenset()
    cells: tuple[TableCell, ...] = ()
    written: str = ""
    clauses: tuple[Clause, ...] = ()

    def list_clauses(self, number: int) -> tuple[Clause, ...]:
        """Return the clauses that cite this source."""
        return tuple(clause for clause in self.clauses if number in clause.cited)

    def list_cells(self, number: int) -> tuple[TableCell, ...]:
        """Return the cells that cite this source. If no cell does, the source belongs to the row, so return all cells."""
        return tuple(cell for cell in self.cells if number in cell.cited) or self.cells

    @property
    def cited_by_author(self) -> tuple[int, ...]:
        return tuple(number for number in self.cited if number not in self.cited_by_platform)


@dataclass(frozen=True, slots=True)
class TrailingMarkers:
    """Markers that follow several sentences, and may cite any of them.

    - `sentences` are the positions of these sentences.
    - `numbers` are the cited sources.
    - `is_on_own_line` is True if the markers are on a line of their own, and False if they end the last sentence of a paragraph.
    """

    sentences: range
    numbers: tuple[int, ...]
    is_on_own_line: bool


@dataclass(slots=True)
class AnswerText:
    """The sentences of an answer.

    - `sentences` are in the order of the answer.
    - `trailing` are the markers that belong to more than one sentence.
    - `labels` are the positions of sentences that name a list: bold, without a full stop, above a list item.
    """

    sentences: list[AnswerSentence] = field(default_factory=list)
    trailing: list[TrailingMarkers] = field(default_factory=list)
    labels: set[int] = field(default_factory=set)


def read_answer(
    answer: str, language: str, added: Collection[int] = (), blocks: BlockTracker | None = None
) -> AnswerText:
    """Return the sentences of an answer with their markers, without headings, code, and lines without a word.

    - `added` are the offsets of the markers that the platform added.
    - `blocks` is the state of the Markdown before the text. It is changed to the state after the text.
    """
    masked, markers = mask_all_but_prose(answer, blocks or BlockTracker())
    # Without this, the splitter would see the beginning of a sentence in a bracket before a removed marker.
    joined = _BRACKETS.sub(lambda found: "x" * len(found[0]), masked) if "(" in masked else masked
    spans = _join_table_rows(masked, split_sentences(joined, language))
    text = _MarkerAssigner(answer, masked, markers, added).read(spans)
    if "|" in answer:
        table = TableReader(answer)
        text.sentences = [
            replace(sentence, cells=cells) if (cells := table.read_cells(sentence.start)) else sentence
            for sentence in text.sentences
        ]
    return text


def _join_table_rows(masked: str, spans: list[Span]) -> list[Span]:
    """Join the spans that belong to one table row."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and "\n" not in masked[joined[-1][0] : end] and "|" in masked[joined[-1][0] : end]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


class _MarkerAssigner:
    """Assigns the markers of a text to its sentences."""

    def __init__(self, answer: str, masked: str, markers: Sequence[Marker], added: Collection[int]) -> None:
        self._answer, self._masked, self._markers, self._added = answer, masked, markers, added
        self._text = AnswerText()
        self._firsts: list[int] = []  # the first sentence of each block
        self._group_first = 0  # the first sentence of the last block, or of the list that it belongs to
        self._in_list = False

    def read(self, spans: Sequence[Span]) -> AnswerText:
        position, end = 0, 0
        for number, span in enumerate(spans):
            until = spans[number + 1][0] if number + 1 < len(spans) else len(self._masked)
            own, alone = self._find_markers(span, until, position)
            position += len(own) + len(alone)
            sentence = _make_sentence(self._answer, span, own, self._added)
            if own and self._text.sentences and _NO_STATEMENT.fullmatch(sentence.claim):
                self._add_trailing(sentence.cited, of_all=not self._get_line_start(span[0]).strip(" *_>("))
            else:
                if "\n\n" in self._masked[end : span[0]] or not self._firsts:
                    self._start_block(span[0])
                self._text.sentences.append(sentence)
                self._add_label()
            self._add_trailing(tuple(dict.fromkeys(marker[2] for marker in alone)))
            end = span[1]
        self._add_ends_of_paragraphs()
        return self._text

    def _find_markers(self, span: Span, until: int, position: int) -> tuple[list[Marker], list[Marker]]:
        """Return the markers in or directly after a sentence, and those on lines of their own below it."""
        own: list[Marker] = []
        alone: list[Marker] = []
        for at in range(position, len(self._markers)):
            marker = start, end, _ = self._markers[at]
            if start >= until:
                break
            is_below = start > span[1] and "\n" in self._answer[span[1] : start]
            if is_below and until < len(self._masked) and "\n" not in self._answer[end:until]:
                if "\n\n" in self._masked[span[1] : start]:
                    break  # the marker begins the next sentence
                is_below = False
            (alone if is_below else own).append(marker)
        return own, alone

    def _get_line_start(self, at: int) -> str:
        return self._answer[self._answer.rfind("\n", 0, at) + 1 : at]

    def _add_label(self) -> None:
        """Record the last sentence but one as a label if it is bold to its end, and the last sentence is a list item."""
        position = len(self._text.sentences) - 2
        if position >= 0 and self._in_list:
            before = self._text.sentences[position]
            if _LABEL.fullmatch(self._answer, before.start, before.end):
                self._text.labels.add(position)

    def _start_block(self, at: int) -> None:
        is_item = _ITEM.match(self._get_line_start(at)) is not None
        self._firsts.append(len(self._text.sentences))
        if not (is_item and self._in_list):
            self._group_first = self._firsts[-1]
        self._in_list = is_item

    def _add_trailing(self, numbers: tuple[int, ...], *, of_all: bool = False) -> None:
        """Assign markers on a line of their own to the paragraph or list above.

        With `of_all` (`Sources: [1]`), they belong to all sentences so far.
        """
        last = len(self._text.sentences)
        if numbers and last:
            first = max(0 if of_all else self._group_first, last - MAX_TRAILED_SENTENCES)
            self._text.trailing.append(TrailingMarkers(range(first, last), numbers, is_on_own_line=True))

    def _add_ends_of_paragraphs(self) -> None:
        """Let the markers of the last sentence of each paragraph cite its other sentences too."""
        sentences = self._text.sentences
        for first, end in pairwise([*self._firsts, len(sentences)]):
            if end - first > 1 and (numbers := sentences[end - 1].cited_by_author):
                first = max(first, end - MAX_TRAILED_SENTENCES)
                self._text.trailing.append(TrailingMarkers(range(first, end - 1), numbers, is_on_own_line=False))


def _make_sentence(answer: str, span: Span, markers: Sequence[Marker], added: Collection[int]) -> AnswerSentence:
    start = min([span[0], *(marker[0] for marker in markers)])
    end = max([span[1], *(marker[1] for marker in markers)])
    cited = tuple(dict.fromkeys(number for _, _, number in markers))
    by_author = {number for at, _, number in markers if at not in added}
    by_platform = frozenset(cited) - by_author if added else frozenset()
    text = answer[start:end]
    text = strip_tail(text).rstrip() if cited else text.rstrip()
    claim = strip_links_and_emphasis(SPACED_MARKER.sub("", text) if cited else text)
    clauses = (
        _split_clauses(answer, start, start + len(text), markers)
        if markers and markers[0][0] < start + len(text)
        else ()
    )
    return AnswerSentence(start, start + len(text), claim, cited, by_platform, written=text, clauses=clauses)


def _split_clauses(answer: str, start: int, end: int, markers: Sequence[Marker]) -> tuple[Clause, ...]:
    """Return the parts of a sentence between its markers; empty if one of them is too short to be a statement."""
    clauses: list[Clause] = []
    for first, last, number in (*markers, (end, end, None)):
        text = strip_links_and_emphasis(answer[start:first].strip(_BETWEEN_CLAUSES))
        start = last
        if any(map(str.isalnum, text)):
            if len(text.split()) < MIN_CLAUSE_WORDS:
                return ()
            clauses.append(Clause(text, ()))
        if number is not None and clauses:
            clauses[-1] = replace(clauses[-1], cited=(*clauses[-1].cited, number))
    return tuple(clauses) if len(clauses) > 1 else ()
