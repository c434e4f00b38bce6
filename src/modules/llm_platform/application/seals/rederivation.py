"""Derive the verdicts of a sealed answer again, from the texts in the file, with the checker of this program.

The word comparison and the support model give the same verdict on every machine. A language model may not: what it judged
is not derived again, and only the lexical verdict below it is.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, get_args

from modules.llm_platform.application.research.check.support_reader import SupportReader
from modules.llm_platform.application.seals.added_text import AddedText
from modules.llm_platform.application.seals.findings import Findings, compare_words_alone, get_place
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict, list_claims
from modules.llm_platform.domain.citations.compare.verdicts import POSSIBLE_SUPPORT
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, WorkStoppedError, run_stoppable
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation, ModelVerdict, Verdict
from modules.llm_platform.domain.dtos.sealed_dtos import OpenedSeal, Outcome, RederivedCitation, RederivedSentence
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
OTHER_WORDS: Final = "the lexical verdict below it differs"
BEYOND_LIMITS: Final = "no model may give this verdict after the lexical one"
DECIDED_BY_WORDS: Final = "the word comparison decides it, so no support model judged it"
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

    by_words = await run(lambda: compare_words_alone(response, checker, signal))
    by_model, is_degraded = None, False
    if support_model is not None and by_words.needs_model:
        reader = SupportReader(support_model, checker)
        await reader.finish(deadline)
        by_model, is_degraded = await run(lambda: checker.check_text(by_words.text)), bool(reader.degraded)

    def compare() -> tuple[RederivedSentence, ...]:
        findings = Findings(by_words, by_model, is_degraded=is_degraded)
        cited = _CitedSentences(response, checker, findings, signal).list_derived()
        uncited = _UncitedSentences(response, checker, findings, signal).list_derived()
        sentences = (*cited, *uncited)
        return tuple(sorted(sentences, key=lambda sentence: (sentence.start, sentence.end)))

    return await run(compare)


class _CitedSentences:
    """The citations of a sealed answer beside those that this program finds."""

    def __init__(
        self, response: ResearchResponse, checker: CitationChecker, findings: Findings, signal: StopSignal
    ) -> None:
        self._recorded, self._checker, self._findings, self._signal = response.citations, checker, findings, signal
        is_judged = any(citation.checked_by == "model" for citation in self._recorded)
        self._claims = list_claims(response.synthesis, response.metadata.language) if is_judged else {}

    def list_derived(self) -> list[RederivedSentence]:
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
        known = {get_place(citation) for citation in self._recorded}
        findings = self._findings
        for place, citation in (findings.read or findings.words).items():
            self._signal.check()
            if place in known:
                continue
            is_open = not self._recorded or (
                findings.trailing_markers.may_cite(place)
                and (findings.lacks_model or (citation.verdict == "supported" and not findings.is_certain(place)))
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
        place, findings = get_place(was), self._findings
        read = findings.read.get(place)
        # Where the word comparison finds no citation, the verdicts of the support model decided which sentence a marker cites.
        words = findings.words.get(place) or read
        if words is None:
            # Without a model: what the word comparison supports is cited by the words too.
            is_open = findings.trailing_markers.may_cite(place) and (
                findings.lacks_model or (not findings.has_model and was.verdict != "supported")
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
        return NO_MODEL if self._findings.by_model is None else NOT_READ

    def _compare_read(self, was: Citation, words: Citation) -> Result:
        """Compare what a support model judged, and none did here, with what it may have judged."""
        undecided = self._findings.find_undecided(get_place(was))
        highest: Verdict = "unsupported"
        if undecided is not None:
            shown = [
                (self._checker.show_quote(words, passage.quote, undecided.claim), passage.highest_verdict)
                for passage in undecided.passages
            ]
            with_quote, highest = next((one for one in shown if one[0].quote == was.quote), shown[0])
            words = with_quote if was.verdict in SUPPORTING_VERDICTS else words
        if failed := _compare_words(was, words):
            return failed
        if undecided is None:
            return "different", words.verdict, DECIDED_BY_WORDS
        if POSSIBLE_SUPPORT[was.verdict] > POSSIBLE_SUPPORT[highest]:
            return "different", None, BEYOND_LIMITS
        if not self._findings.lacks_model:
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


class _UncitedSentences:
    """The statements of a sealed answer that cite no source beside those that this program finds."""

    def __init__(
        self, response: ResearchResponse, checker: CitationChecker, findings: Findings, signal: StopSignal
    ) -> None:
        self._recorded, self._checker, self._findings, self._signal = response.citations, checker, findings, signal
        self._listed = [(span.start, span.end) for span in response.metadata.uncited]
        self._added = AddedText(response.synthesis, response.metadata.language)

    def list_derived(self) -> Iterator[RederivedSentence]:
        """Yield the statements that cite no source, in the file or here."""
        checked = self._findings.by_words.checked
        of_words = checked.uncited
        by_model = frozenset((self._findings.by_model or checked).uncited)
        found = by_model.union(of_words)
        for span in self._listed:
            self._signal.check()
            yield self._describe_listed(span, is_found=span in found)
        known = {(citation.start, citation.end) for citation in self._recorded}.union(self._listed)
        for span in of_words:
            self._signal.check()
            if span in by_model and span not in known and not self._added.has_message(span):
                yield self._describe_hidden(span, is_first=span == of_words[0])

    def _describe_listed(self, span: Span, *, is_found: bool) -> RederivedSentence:
        """Return the outcome for a statement that the file lists as one without a source."""
        derived: Outcome = "same" if is_found else "different"
        reason = "" if is_found else NO_STATEMENT
        if (
            not is_found
            and self._findings.trailing_markers.may_cite_span(span)
            and span not in self._findings.certain_spans
        ):
            derived, reason = "not_derivable", MAYBE_CITED
        elif not is_found and self._is_short(span):
            derived, reason = "not_derivable", NO_VERDICT
        return RederivedSentence(start=span[0], end=span[1], derived=derived, reason=reason)

    def _is_short(self, span: Span) -> bool:
        """Return whether the span is a short sentence of an answer without any citation.

        Such sentences count as statements only where the answer has no others, and passages may be added after its check.
        """
        sentence = None if self._recorded else self._findings.find_sentence(span)
        return sentence is not None and not self._checker.is_statement(sentence)

    def _describe_hidden(self, span: Span, *, is_first: bool) -> RederivedSentence:
        """Return the outcome for a statement without a source that the file does not list.

        An answer that says that its sources do not answer does not list its first statement. A marker after several sentences
        may cite it where a support model read them. Disputed quotes are added after the check.
        """
        is_trailed = self._findings.lacks_model and self._findings.trailing_markers.may_cite_span(span)
        is_open = is_first or is_trailed or self._is_short(span) or self._added.has_disputed_quote(span)
        return RederivedSentence(
            start=span[0],
            end=span[1],
            derived="not_derivable" if is_open else "different",
            reason=MAYBE_NO_ANSWER if is_first else NO_VERDICT if is_open else HIDDEN,
        )


def _compare_words(was: Citation, words: Citation) -> Result | None:
    """Compare the lexical verdict and the quote below a verdict of a model; None if they are the same."""
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
    """Return what the word comparison alone decides. A model changes the quote only where the word comparison found none."""
    quote = citation.quote, citation.quote_start, citation.quote_end, citation.quote_url, citation.page
    return *quote, citation.is_verbatim, citation.score, citation.checked_against
