"""Derive the verdicts of a sealed answer again, from the texts in the file, with the checker of this program.

The comparison of words and the support model give the same verdict on every machine. A language model may not: what it judged
is not derived again, and only the verdict of the words below it is.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar, get_args

from modules.llm_platform.application.research.check.support_reading import SupportReading
from modules.llm_platform.application.seals.added_text import AddedText
from modules.llm_platform.application.seals.trailing_markers import Place, TrailingMarkers, find_added_markers
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.compare.meaning import Doubt
from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict, list_claims
from modules.llm_platform.domain.citations.compare.verdicts import RANK
from modules.llm_platform.domain.citations.read.sentences import AnswerText, read_answer
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, WorkStoppedError, run_stoppable
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, ModelVerdict, Verdict
from modules.llm_platform.domain.dtos.sealed_dtos import (
    MAX_SEALED_CITATIONS,
    OpenedSeal,
    Outcome,
    RederivedCitation,
    RederivedSentence,
)
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.tracing import stage
from modules.llm_platform.domain.text.sentences import Span

TIMEOUT_S: Final = 600.0  # an answer takes seconds; the file may be hostile
LATE: Final = "the verdicts were not derived again in time: the answer is too long"
JUDGED: Final = "a language model judged it"
NO_MODEL: Final = 'the support model judged it, which is not here: pip install "llm-platform[meaning]"'
NOT_READ: Final = "the support model judged it, and could not read it here"
OTHER_VERDICT: Final = "the verdict differs"
OTHER_QUOTE: Final = "the quote or the difference differs"
OTHER_WORDS: Final = "the verdict of the words below it differs"
BEYOND_LIMITS: Final = "no model may give this verdict after the one of the words"
NOT_IN_DOUBT: Final = "the words decide it, so no support model judged it"
NOT_CITED: Final = "this program finds no such citation in the text"
LEFT_OUT: Final = "the file has no verdict on it, and this program does"
NO_VERDICT: Final = "the file has no verdict on it"
NO_STATEMENT: Final = "this program finds no such statement"
HIDDEN: Final = "it cites no source, and the file does not say so"
MAYBE_CITED: Final = "a marker after several sentences cites it or not, as a support model decides"
MAYBE_NO_ANSWER: Final = (
    "it cites no source, and the file does not say so: it may be the statement that the sources do not answer"
)

T = TypeVar("T")
Result = tuple[Outcome, Verdict | None, str]
_WORST: Final[Sequence[Outcome]] = ("different", "not_derivable", "same")


@stage("verify")
async def rederive(
    seal: OpenedSeal, support_model: ISupportModel | None, timeout_s: float = TIMEOUT_S
) -> tuple[RederivedSentence, ...]:
    """Return the sentences of the answer, in their order. Without a support model, its verdicts are not derived again.

    Raises SealError if the words were not compared within `timeout_s` seconds.
    """
    response, signal = seal.answer.response, StopSignal(timeout_s)
    deadline = asyncio.get_running_loop().time() + timeout_s
    checker = CitationChecker(seal.sources, response.metadata.language, signal.check)

    async def run(work: Callable[[], T]) -> T:
        try:
            return await run_stoppable(signal, work)
        except WorkStoppedError as error:
            raise SealError(LATE) from error

    by_words = await run(lambda: _compare_words_alone(response, checker, signal))
    by_model, is_degraded = None, False
    if support_model is not None and by_words.needs_model:
        reading = SupportReading(support_model, checker)
        await reading.finish(deadline)
        by_model, is_degraded = await run(lambda: checker.check_text(by_words.text)), bool(reading.degraded)

    def compare() -> tuple[RederivedSentence, ...]:
        comparison = _Comparison(response, checker, by_words, by_model, signal, is_degraded=is_degraded)
        sentences = (*comparison.list_cited(), *comparison.list_uncited())
        return tuple(sorted(sentences, key=lambda sentence: (sentence.start, sentence.end)))

    return await run(compare)


@dataclass(frozen=True, slots=True)
class _ByWords:
    """What the comparison of words finds.

    - `doubts` are what the words leave to a support model.
    - `is_read` is True if the file has verdicts of a support model. `needs_model` is also True if a model decides which sentence
      a marker cites.
    """

    text: AnswerText
    checked: CheckedAnswer
    trailing: TrailingMarkers
    doubts: Sequence[Doubt]
    is_read: bool
    needs_model: bool


def _compare_words_alone(response: ResearchResponse, checker: CitationChecker, signal: StopSignal) -> _ByWords:
    text = read_answer(response.synthesis, response.metadata.language)
    if added := find_added_markers(response, text):
        text = read_answer(response.synthesis, response.metadata.language, added)
    checked, trailing = checker.check_text(text), TrailingMarkers(text, signal)
    is_read = any(citation.checked_by == "encoder" for citation in response.citations)
    differing = {_place(one) for one in checked.citations} ^ {_place(one) for one in response.citations}
    needs_model = is_read or any(map(trailing.may_cite, differing))
    doubts = checker.doubts.list_open(MAX_SEALED_CITATIONS) if needs_model else ()
    return _ByWords(text, checked, trailing, doubts, is_read, needs_model)


class _Comparison:
    """The citations of a sealed answer beside those that this program finds, with and without its support model.

    `by_model` is None without a support model; `is_degraded` is True if it could not read everything.
    """

    def __init__(
        self,
        response: ResearchResponse,
        checker: CitationChecker,
        by_words: _ByWords,
        by_model: CheckedAnswer | None,
        signal: StopSignal,
        *,
        is_degraded: bool,
    ) -> None:
        self._response, self._recorded, self._checker = response, response.citations, checker
        self._words = {_place(citation): citation for citation in by_words.checked.citations}
        self._read = {_place(citation): citation for citation in by_model.citations} if by_model else {}
        self._by_words, self._by_model, self._is_degraded = by_words, by_model, is_degraded
        self._signal, self._trailing = signal, by_words.trailing
        self._doubts = {(doubt.key.claim, doubt.key.source): doubt for doubt in by_words.doubts}
        self._said = {(sentence.start, sentence.end): sentence for sentence in by_words.text.sentences}
        self._added = AddedText(response.synthesis, response.metadata.language)
        is_judged = any(citation.checked_by == "model" for citation in self._recorded)
        self._claims = list_claims(response.synthesis, response.metadata.language) if is_judged else {}

    @property
    def _lacks_model(self) -> bool:
        """True if a support model gave verdicts of the file, and none reads everything here."""
        return self._by_words.is_read and not self._has_model

    @property
    def _has_model(self) -> bool:
        return self._by_model is not None and not self._is_degraded

    def _is_certain(self, place: Place) -> bool:
        """Return whether the words find a citation that no support model takes away."""
        if place not in self._words:
            return False
        return not self._is_doubted(place) or (self._has_model and place in self._read)

    def _is_doubted(self, place: Place) -> bool:
        return self._find_doubt(place) is not None

    def _find_doubt(self, place: Place) -> Doubt | None:
        """Return what a support model may decide; None where it reads nothing."""
        sentence = self._said.get(place[:2])
        return self._doubts.get((sentence.claim if sentence else "", place[2]))

    @cached_property
    def _certain_spans(self) -> frozenset[Span]:
        return frozenset(place[:2] for place in self._words if self._is_certain(place))

    def list_cited(self) -> list[RederivedSentence]:
        """Return the sentences that cite a source, in the file or here."""
        found: dict[Span, list[RederivedCitation]] = {}
        for citation in (*map(self._compare, self._recorded), *self._list_left_out()):
            found.setdefault(citation[0], []).append(citation[1])
        return [
            RederivedSentence(
                start=start,
                end=end,
                derived=min((one.derived for one in derived), key=_WORST.index),
                citations=tuple(derived),
            )
            for (start, end), derived in found.items()
        ]

    def _list_left_out(self) -> Iterator[tuple[Span, RederivedCitation]]:
        """Yield the citations that the file lacks.

        An honest answer without any citation may end with passages that were added after its check, so these are not
        `different`.
        """
        known = {_place(citation) for citation in self._recorded}
        for place, citation in (self._read or self._words).items():
            self._signal.check()
            if place in known:
                continue
            is_open = not self._recorded or (
                self._trailing.may_cite(place)
                and (self._lacks_model or (citation.verdict == "supported" and not self._is_certain(place)))
            )
            yield (
                (citation.start, citation.end),
                RederivedCitation(
                    source_index=citation.source_index,
                    checked_by=citation.checked_by,
                    derived="not_derivable" if is_open else "different",
                    now=citation.verdict,
                    reason=NO_VERDICT if is_open else LEFT_OUT,
                ),
            )

    def list_uncited(self) -> Iterator[RederivedSentence]:
        """Yield the statements that cite no source, in the file or here."""
        of_words = self._by_words.checked.uncited
        by_model = frozenset(self._by_model.uncited if self._by_model else of_words)
        found = by_model.union(of_words)
        listed = [(span.start, span.end) for span in self._response.metadata.uncited]
        for span in listed:
            self._signal.check()
            yield self._describe_listed(span, is_found=span in found)
        known = {(citation.start, citation.end) for citation in self._recorded}.union(listed)
        for span in of_words:
            self._signal.check()
            if span in by_model and span not in known and not self._added.has_message(span):
                yield self._describe_hidden(span, is_first=span == of_words[0])

    def _describe_listed(self, span: Span, *, is_found: bool) -> RederivedSentence:
        """Return the outcome for a statement that the file lists as one without a source."""
        derived: Outcome = "same" if is_found else "different"
        reason = "" if is_found else NO_STATEMENT
        if not is_found and self._trailing.may_cite_span(span) and span not in self._certain_spans:
            derived, reason = "not_derivable", MAYBE_CITED
        elif not is_found and self._is_short(span):
            derived, reason = "not_derivable", NO_VERDICT
        return RederivedSentence(start=span[0], end=span[1], derived=derived, reason=reason)

    def _is_short(self, span: Span) -> bool:
        """Return whether the span is a short sentence of an answer without any citation.

        Such sentences count as statements only where the answer has no others, and passages may be added after its check.
        """
        sentence = None if self._recorded else self._said.get(span)
        return sentence is not None and not self._checker.is_statement(sentence)

    def _describe_hidden(self, span: Span, *, is_first: bool) -> RederivedSentence:
        """Return the outcome for a statement without a source that the file does not list.

        An answer that says that its sources do not answer does not list its first statement. A marker after several sentences
        may cite it where a support model read them. Disputed quotes are added after the check.
        """
        is_trailed = self._lacks_model and self._trailing.may_cite_span(span)
        is_open = is_first or is_trailed or self._is_short(span) or self._added.has_disputed_quote(span)
        return RederivedSentence(
            start=span[0],
            end=span[1],
            derived="not_derivable" if is_open else "different",
            reason=MAYBE_NO_ANSWER if is_first else NO_VERDICT if is_open else HIDDEN,
        )

    def _compare(self, was: Citation) -> tuple[Span, RederivedCitation]:
        derived, now, reason = self._decide(was)
        return (was.start, was.end), RederivedCitation(
            source_index=was.source_index,
            checked_by=was.checked_by,
            derived=derived,
            was=was.verdict,
            now=now,
            reason=reason,
        )

    def _decide(self, was: Citation) -> Result:
        self._signal.check()
        place = _place(was)
        read = self._read.get(place)
        # Where the words alone find no citation, the verdicts of the support model decided which sentence a marker cites.
        words = self._words.get(place) or read
        if words is None:
            # Without a model: what the words support is cited by the words too.
            is_open = self._trailing.may_cite(place) and (
                self._lacks_model or (not self._has_model and was.verdict != "supported")
            )
            return ("not_derivable", None, self._explain_no_model()) if is_open else ("different", None, NOT_CITED)
        if was.checked_by == "model":
            return self._compare_judged(was, words)
        if was.checked_by == "encoder":
            return (
                _compare_fields(was, read) if read and read.checked_by == "encoder" else self._compare_read(was, words)
            )
        if words.word_verdict is not None:
            words = words.model_copy(update={"verdict": words.word_verdict, "word_verdict": None})
        return _compare_fields(was, words)

    def _explain_no_model(self) -> str:
        return NO_MODEL if self._by_model is None else NOT_READ

    def _compare_read(self, was: Citation, words: Citation) -> Result:
        """Compare what a support model judged, and none did here, with what it may have judged."""
        doubt = self._find_doubt(_place(was))
        highest: Verdict = "unsupported"
        if doubt is not None:
            shown = [
                (self._checker.show_quote(words, reading.quote, doubt.claim), reading.highest)
                for reading in doubt.readings
            ]
            with_quote, highest = next((one for one in shown if one[0].quote == was.quote), shown[0])
            words = with_quote if was.verdict in ("supported", "partial") else words
        if failed := _compare_words(was, words):
            return failed
        if doubt is None:
            return "different", words.verdict, NOT_IN_DOUBT
        if RANK[was.verdict] > RANK[highest]:
            return "different", None, BEYOND_LIMITS
        if not self._lacks_model:
            return "different", words.verdict, OTHER_VERDICT
        return "not_derivable", None, self._explain_no_model()

    def _compare_judged(self, was: Citation, words: Citation) -> Result:
        """Compare what a language model judged with what it may have judged: see `apply_model_verdict`."""
        if failed := _compare_words(was, words):
            return failed
        claim = self._claims.get((was.start, was.end), "")
        allowed = [apply_model_verdict(words, claim, verdict) for verdict in get_args(ModelVerdict)]
        same = [citation for citation in allowed if citation.verdict == was.verdict]
        if not same:
            return "different", None, BEYOND_LIMITS
        if _describe(was) not in map(_describe, same):
            return "different", None, OTHER_QUOTE
        return "not_derivable", None, JUDGED


def _compare_words(was: Citation, words: Citation) -> Result | None:
    """Compare the verdict of the words and the quote below a verdict of a model; None if they are the same."""
    by_words = words.word_verdict or words.verdict
    if was.word_verdict != by_words:
        return "different", by_words, OTHER_WORDS
    if _describe_quote(was) != _describe_quote(words):
        return "different", None, OTHER_QUOTE
    return None


def _compare_fields(was: Citation, now: Citation) -> Result:
    if now.verdict != was.verdict:
        return "different", now.verdict, OTHER_VERDICT
    if _describe(now) != _describe(was):
        return "different", now.verdict, OTHER_QUOTE
    return "same", now.verdict, ""


def _describe(citation: Citation) -> tuple[object, ...]:
    """Return all that a reader sees of a citation beside its verdict."""
    return *_describe_quote(citation), citation.cells, citation.difference, citation.word_verdict


def _describe_quote(citation: Citation) -> tuple[object, ...]:
    """Return what the words alone decide. A model changes the quote only where the words found none."""
    quote = citation.quote, citation.quote_start, citation.quote_end, citation.quote_url, citation.page
    return *quote, citation.is_verbatim, citation.score, citation.checked_against


def _place(citation: Citation) -> Place:
    return citation.start, citation.end, citation.source_index
