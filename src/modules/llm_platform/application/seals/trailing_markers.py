"""Find which markers of a sealed answer decide alone what they cite, and which leave it to the verdicts."""

from bisect import bisect_right
from collections.abc import Collection

from modules.llm_platform.domain.citations.read.sentences import AnswerText
from modules.llm_platform.domain.concurrency.stoppable import StopSignal
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.markdown.markers import render_markers
from modules.llm_platform.domain.text.sentences import Span

Place = tuple[int, int, int]  # start, end, number of the source


class TrailingMarkers:
    """Markers after several sentences. Which of these they cite depends on the support model.

    A sentence with markers of its own is cited by these, whatever a model decides.
    """

    def __init__(self, text: AnswerText, signal: StopSignal) -> None:
        self._signal = signal
        self._numbers: dict[Span, set[frozenset[int]]] = {}
        for markers in text.trailing:
            signal.check()
            numbers = frozenset(markers.numbers)
            for position in markers.sentences:
                sentence = text.sentences[position]
                if not sentence.cited or (markers.is_on_own_line and position == markers.sentences[-1]):
                    own = numbers.difference(sentence.cited) if sentence.cited else numbers
                    self._numbers.setdefault((sentence.start, sentence.end), set()).add(own)

    def may_cite(self, place: Place) -> bool:
        self._signal.check()
        return any(place[2] in numbers for numbers in self._numbers.get(place[:2], ()))

    def may_cite_span(self, span: Span) -> bool:
        return span in self._numbers


def find_added_markers(response: ResearchResponse, text: AnswerText) -> Collection[int]:
    """Return the offsets of the markers that the platform added, as the citations of the file name them.

    Such a marker cites its own sentence only, and no other sentence of the paragraph.
    """
    added = {
        (citation.start, citation.end, citation.source_index)
        for citation in response.citations
        if citation.cited_by == "platform"
    }
    if not added:
        return ()
    starts = [sentence.start for sentence in text.sentences]
    found = set()
    for at, _, number in render_markers(response.synthesis):
        position = bisect_right(starts, at) - 1
        if position >= 0:
            sentence = text.sentences[position]
            if (sentence.start, sentence.end, number) in added:
                found.add(at)
    return found
