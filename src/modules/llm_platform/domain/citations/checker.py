"""Check an answer against the sources that it cites: for each sentence and source, find the best quote and a verdict.

`CitationChecker.check` takes an answer in Markdown and returns a `CheckedAnswer`:

1. `read_answer` splits the answer into sentences with the numbers of the sources that they cite.
2. Each cited source is indexed once (`prepare_source`).
3. A marker after several sentences cites the ones that its source supports.
4. Each sentence is judged with each of its sources (`compare.verdicts.judge`): "It opened in 1890 [1]" is refuted by "It
   opened in 1980". The judgement becomes a `Citation` with a verdict and a quote.
5. Statements without a marker are listed as uncited. `find_source` and `find_closest` look for their sources.

Between two checks, a support model may decide the claims that the word comparison leaves undecided (`compare.undecided_claims`).
"""

import html
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from modules.llm_platform.domain.citations.compare.alignment import SourceText, prepare_source
from modules.llm_platform.domain.citations.compare.mismatches import locate_difference
from modules.llm_platform.domain.citations.compare.undecided_claims import (
    CheckKey,
    UndecidedClaim,
    UndecidedClaims,
    decide,
)
from modules.llm_platform.domain.citations.compare.verdicts import (
    POSSIBLE_SUPPORT,
    Judgement,
    judge,
    judge_clauses,
    score_support,
)
from modules.llm_platform.domain.citations.read.claims import Claim, read_claim
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence, AnswerText, read_answer
from modules.llm_platform.domain.dtos.citation_dtos import CellVerdict, Citation, Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.row_claims.judgement import judge_rows
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.messages import Messages, get_messages
from modules.llm_platform.domain.text.page_starts import find_page
from modules.llm_platform.domain.text.sentences import COLONS, QUESTION_MARKS, Span
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import fold, split_words
from modules.llm_platform.domain.urls.canonical_url import quote_url

MIN_STATEMENT_WORDS = 4  # shorter sentences need no source
MAX_TRIED_SOURCES = 5  # sources tried for a sentence without a marker, the ones with most of its words
CONTRADICTION_RANK = 1.5  # a contradiction says more on a statement than support for a part of it
MIN_SAME_SHARE = 0.7  # a sentence with this share of the words of a statement is about the same
MIN_RELATED_SHARE = 0.4  # a sentence with less than this share contradicts nothing
MIN_KNOWN_SHARE = 0.7  # a source is tried only if it has this share of the words, by weight
MIN_FOUND_SCORE = 0.75  # a tried source is cited only with at least this score, a probability

HEADINGS = re.compile(r"(?:#{1,6}[ \t][^\n]*\n\s*)+")
_NO_STATEMENT_ENDS = (*QUESTION_MARKS, *COLONS)


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """The result of a check.

    - `uncited` are the spans of statements without a citation. A short sentence such as "Yes." only counts as a statement if
      the answer has nothing else.
    - `cited` has the numbers of the cited sources.
    """

    citations: tuple[Citation, ...]
    uncited: tuple[Span, ...]
    cited: frozenset[int]

    @property
    def uncited_sentences(self) -> int:
        return len(self.uncited)

    @property
    def is_cited_by_author(self) -> bool:
        """True if the author of the answer named a source, rather than the platform."""
        return any(citation.cited_by == "model" for citation in self.citations)


class _Quote(NamedTuple):
    """The fields of a `Citation` that show what its source says, and where."""

    quote: str
    quote_start: int
    quote_end: int
    quote_url: str | None
    page: int | None


class CitationChecker:
    """Checks answers against one set of sources. Each source is prepared once, when it is first cited.

    Judgements are cached by sentence, so checking a growing answer again costs little. `undecided` has the claims that a support
    model may decide. `record_log_odds` takes its results, and the next check has its verdicts.
    """

    def __init__(self, sources: Sequence[Source], language: str, check_stop: Callable[[], None] = lambda: None) -> None:
        """Create a checker. `check_stop` is called between steps of the work, and may raise to end it."""
        self._check_stop = check_stop
        self._sources = {source.index: source for source in sources}
        self._language = language
        self._prepared: dict[int, SourceText] = {}
        self._judged: dict[CheckKey, Judgement] = {}
        self._quotes: dict[tuple[int, Span], _Quote] = {}
        self.undecided = UndecidedClaims(language)
        # Only the last claim is kept: more would cost the garbage collector 3 % of a check.
        self._read_claim = lru_cache(maxsize=1)(lambda text: read_claim(html.unescape(text), language))

    def prepare(self) -> None:
        """Prepare all texts now. Not safe to call while another thread uses this checker."""
        self._prepare(self._sources)

    def replace_source(self, source: Source) -> None:
        """Replace the text of a source. Sentences that cite it are judged again."""
        number = source.index
        self._sources[number] = source
        self._prepared.pop(number, None)
        for key in [key for key in self._judged if key.source == number]:
            del self._judged[key]
        self._quotes = {key: quote for key, quote in self._quotes.items() if key[0] != number}
        self.undecided.forget_source(number)

    def check(self, answer: str, added: Collection[int] = ()) -> CheckedAnswer:
        """Check sanitised Markdown. Markers of unknown sources are ignored.

        `added` has the offsets of the markers that the platform added.
        """
        return self.check_text(read_answer(answer, self._language, added))

    def check_text(self, text: AnswerText) -> CheckedAnswer:
        """Check the sentences of an answer, or of a part of one that ends with a paragraph."""
        prepared = self._prepare_cited(text)
        numbers = [sentence.cited for sentence in text.sentences]
        by_author = [set(sentence.cited_by_author) for sentence in text.sentences]
        for position, number in self._assign_trailing_markers(text):
            by_author[position].add(number)
            numbers[position] = tuple(dict.fromkeys((*numbers[position], number)))
        citations = tuple(
            self._make_citation(sentence, number, is_by_author=number in named)
            for sentence, cited, named in zip(text.sentences, numbers, by_author, strict=True)
            for number in cited
            if number in self._sources
        )
        unmarked = [
            sentence
            for position, (sentence, cited) in enumerate(zip(text.sentences, numbers, strict=True))
            if not cited and position not in text.labels
        ]
        uncited = list(filter(self.is_statement, unmarked))
        if not uncited and not citations:
            uncited = list(filter(self._is_assertion, unmarked))  # such as an answer that is only "Yes."
        return CheckedAnswer(citations, tuple((one.start, one.end) for one in uncited), frozenset(prepared))

    def check_early(self, sentences: Sequence[AnswerSentence]) -> list[tuple[str, Citation]]:
        """Judge these sentences before the answer is complete. `check` then uses the cached judgements.

        Returns the claim and the citation for each source that a sentence cites.
        """
        cited = self._prepare_cited(AnswerText(list(sentences)))
        return [
            (html.unescape(sentence.claim), self._make_citation(sentence, number, is_by_author=True))
            for sentence in sentences
            for number in sentence.cited
            if number in cited
        ]

    def _prepare_cited(self, text: AnswerText) -> set[int]:
        """Return the numbers of the sources that a text cites, and prepare these sources."""
        named = [sentence.cited for sentence in text.sentences] + [markers.numbers for markers in text.trailing]
        cited = {number for numbers in named for number in numbers if number in self._sources}
        self._prepare(cited)
        return cited

    def _prepare(self, cited: Iterable[int]) -> None:
        for number in sorted(cited):
            if number not in self._prepared:
                self._check_stop()
                source = self._sources[number]
                is_whole = source.is_whole or source.is_read_page
                self._prepared[number] = prepare_source(source.text, source.title, self._language, is_whole=is_whole)

    def _assign_trailing_markers(self, text: AnswerText) -> Iterable[tuple[int, int]]:
        """Yield pairs of sentence position and source for markers that follow several sentences.

        Such a marker cites each of these sentences that already cites the source, and each that cites nothing and is supported
        by the source. If there is none and the marker is on a line of its own, it cites the last sentence.
        """
        for markers in text.trailing:
            for number in filter(self._sources.__contains__, markers.numbers):
                positions = [
                    position for position in markers.sentences if self._may_be_meant(text.sentences[position], number)
                ]
                if not positions and markers.is_on_own_line:
                    positions = [markers.sentences[-1]]
                yield from ((position, number) for position in positions)

    def _may_be_meant(self, sentence: AnswerSentence, number: int) -> bool:
        """Return whether a trailing marker of this source may cite the sentence."""
        if sentence.cited:
            return number in sentence.cited
        return self.is_statement(sentence) and self._judge(sentence, number).verdict == "supported"

    def is_statement(self, sentence: AnswerSentence) -> bool:
        """Return whether the sentence needs a source.

        Questions, lead-ins, sentences of a few words and messages of the application need no source.
        """
        return self._is_assertion(sentence) and len(self._read_claim(sentence.claim).words) >= MIN_STATEMENT_WORDS

    def _is_assertion(self, sentence: AnswerSentence) -> bool:
        """Return whether the sentence says something of its own, however short."""
        text = sentence.claim
        is_said = any(map(str.isalnum, text)) and not text.endswith(_NO_STATEMENT_ENDS)
        if text.startswith("(") and get_messages(self._language).is_disputed_quote_note(text):
            return False
        return is_said and text not in _list_messages(get_messages(self._language))

    def find_source(self, sentence: AnswerSentence) -> int | None:
        """Return the source that supports a statement best, or None. Only sources with most of its words are tried.

        Of sources with equal scores, the one with the lowest number is returned.
        """
        self._prepare(self._sources)
        tried = sorted(self._list_likely_sources(sentence, self._prepared))
        scores = {number: self._score_support(sentence, number) for number in tried}
        best = max(scores, key=scores.__getitem__, default=None)
        return None if best is None or scores[best] < MIN_FOUND_SCORE else best

    def find_closest(self, sentence: AnswerSentence, among: Collection[int] | None = None) -> Citation | None:
        """Return the citation of the source that fits a statement best, whether or not it supports it.

        A source that contradicts the statement comes before one that only supports a part of it. Return None if no source
        has most of its words. With `among`, only these sources are tried.
        """
        numbers = set(self._sources) if among is None else set(among).intersection(self._sources)
        self._prepare(numbers)
        self._check_stop()
        tried = self._list_likely_sources(sentence, numbers)
        judged = {number: self._judge(sentence, number, is_shown=False) for number in tried}
        ranks = {number: self._rank_support(sentence, number, judged[number]) for number in tried}
        best = max(tried, key=lambda number: (ranks[number], judged[number].score), default=None)
        return None if best is None else self._make_citation(sentence, best, is_by_author=False)

    def _rank_support(self, sentence: AnswerSentence, number: int, judgement: Judgement) -> float:
        """Rank a source: a contradiction by a table, or by a sentence about the same, comes before partial support."""
        verdict = _decide_verdict(self._sources[number], judgement)
        is_refuted = verdict == "unsupported" and judgement.is_refuted and not judgement.is_weakly_refuted
        is_first = is_refuted and self._is_about_same(sentence, number, judgement, MIN_SAME_SHARE)
        return CONTRADICTION_RANK if is_first else POSSIBLE_SUPPORT[verdict]

    def _is_about_same(self, sentence: AnswerSentence, number: int, judgement: Judgement, min_share: float) -> bool:
        """Return whether a table decided, or the quote has this share of the statement's content words, without numbers."""
        if judgement.is_computed:
            return True
        quoted = self._prepared[number].read_facts(judgement.quote).folded
        words = [word.key for word in self._read_claim(sentence.claim).words if word.is_content]
        words = [word for word in words if not word[0].isdigit()]
        return sum(is_form_of_any(word, quoted) for word in words) >= min_share * len(words)

    def _list_likely_sources(self, sentence: AnswerSentence, numbers: Iterable[int]) -> list[int]:
        """Return the prepared sources that have most words of a statement, best first, at most MAX_TRIED_SOURCES.

        Sources with equal shares of the words are in the order of their numbers.
        """
        claim = self._read_claim(sentence.claim)
        shares = {number: self._measure_known_share(claim, number) for number in sorted(numbers)}
        likely = [number for number in shares if shares[number] >= MIN_KNOWN_SHARE]
        return sorted(likely, key=shares.__getitem__, reverse=True)[:MAX_TRIED_SOURCES]

    def _measure_known_share(self, claim: Claim, number: int) -> float:
        """Return the share of the claim's words that a source has; 1 if its tables decide whether the claim is true."""
        source = self._prepared[number]
        is_decided = bool(source.tables) and judge_rows(claim.text, source.tables, self._language).finding is not None
        return 1.0 if is_decided else source.measure_known_share(claim.words)

    def _score_support(self, sentence: AnswerSentence, number: int) -> float:
        """Return the score of the source if it supports the sentence, else 0. Scores below MIN_FOUND_SCORE may be 0 too."""
        if not sentence.cells:
            claim = self._read_claim(sentence.claim)
            return score_support(claim, self._prepared[number], self._language, MIN_FOUND_SCORE)
        judgement = self._judge(sentence, number, is_shown=False)
        return judgement.score if judgement.verdict == "supported" else 0.0

    def _judge(self, sentence: AnswerSentence, number: int, *, is_shown: bool = True) -> Judgement:
        """Return the judgement on a sentence and a prepared source.

        `is_shown` is False if the judgement is only compared with others, so a support model need not decide it.
        """
        cells = tuple((cell.text, cell.with_headers) for cell in sentence.list_cells(number))
        clauses = tuple(clause.text for clause in sentence.list_clauses(number))
        key = CheckKey(sentence.claim, cells, clauses, number, all(clause.cited for clause in sentence.clauses))
        if key not in self._judged:
            self._check_stop()
            self._judged[key] = self._judge_key(key)
        if is_shown:
            self.undecided.add(key, self._judged[key], self._prepared[number])
        return self._judged[key]

    def record_log_odds(self, claim: UndecidedClaim, log_odds: Sequence[float]) -> None:
        """Replace the judgement on a claim by the verdict of a support model.

        `log_odds` say of each passage of the claim, in order, how likely it supports the claim.
        """
        if self._judged.get(claim.key) == claim.judgement:  # its source may have been replaced
            self._judged[claim.key] = decide(claim, log_odds)
            self.undecided.settle(claim.key)

    def _judge_key(self, key: CheckKey) -> Judgement:
        source, read, language = self._prepared[key.source], self._read_claim, self._language
        cells = [(read(cell), read(with_headers)) for cell, with_headers in key.cells]
        whole = judge(read(key.claim), source, language, cells)
        if not key.clauses:
            return whole
        return judge_clauses(whole, map(read, key.clauses), source, language, is_all_cited=key.is_all_cited)

    def _make_citation(self, sentence: AnswerSentence, number: int, *, is_by_author: bool) -> Citation:
        judgement, source = self._judge(sentence, number), self._sources[number]
        span = self._skip_headings(judgement.quote, number, html.unescape(sentence.claim))
        mismatch, is_flagged = judgement.mismatch, judgement.verdict in ("partial", "unsupported")
        if mismatch and not is_by_author and not self._is_about_same(sentence, number, judgement, MIN_RELATED_SHARE):
            mismatch = None  # the best sentence of a source that nobody cited may be about something else
        if mismatch and mismatch.found[0] < span[0]:
            span = judgement.quote  # The difference is in the heading.
        return Citation(
            start=sentence.start,
            end=sentence.end,
            source_index=number,
            **self._make_quote(number, span)._asdict(),
            verdict=_decide_verdict(source, judgement),
            score=judgement.score,
            is_verbatim=judgement.is_verbatim,
            checked_by="words" if judgement.word_verdict is None else "encoder",
            word_verdict=judgement.word_verdict,
            cited_by="model" if is_by_author else "platform",
            checked_against=source.text_kind,
            cells=tuple(
                CellVerdict(start=cell.start, end=cell.end, verdict=_decide_verdict(source, judged))
                for cell, judged in zip(sentence.list_cells(number), judgement.cells, strict=False)
            ),
            difference=locate_difference(sentence, mismatch, self._prepared[number])
            if mismatch and is_flagged
            else None,
        )

    def show_quote(self, citation: Citation, span: Span, claim: str) -> Citation:
        """Return the citation with another quote of its source, for the same claim."""
        number = citation.source_index
        quote = self._make_quote(number, self._skip_headings(span, number, claim))
        return citation.model_copy(update=quote._asdict())

    def _skip_headings(self, span: Span, number: int, claim: str) -> Span:
        """Return the span without the Markdown headings right above its text, which were compared with the claim too.

        A heading stays if it has a word of the claim that the text below lacks, such as the name of what the text describes.
        """
        text = self._prepared[number].text
        headings = HEADINGS.match(text, *span)
        if headings is None or headings.end() == span[1]:
            return span
        said, above, below = (
            set(map(fold, split_words(part))) for part in (claim, headings[0], text[headings.end() : span[1]])
        )
        needed = (said & above) - below - load_stop_words(self._language)
        return span if needed else (headings.end(), span[1])

    def _make_quote(self, number: int, span: Span) -> _Quote:
        """Return the quote and the link to it. They are cached, because the early and the final check need them."""
        key = (number, span)
        if key not in self._quotes:
            source, quote = self._sources[number], self._prepared[number].text[slice(*span)]
            page = find_page(source.pages, span[0])
            link = quote_url(source.url, quote, page)
            self._quotes[key] = _Quote(quote, *span, link, page if quote else None)
        return self._quotes[key]


def _decide_verdict(source: Source, judgement: Judgement) -> Verdict:
    """Return the verdict. An excerpt that neither supports nor contradicts a sentence says nothing about its page."""
    says_nothing = judgement.verdict == "unsupported" and source.text_kind == "snippet" and not judgement.is_refuted
    return "unchecked" if says_nothing else judgement.verdict


@cache
def _list_messages(messages: Messages) -> frozenset[str]:
    """Return the messages of the application, which need no source."""
    return frozenset(astuple(messages))
