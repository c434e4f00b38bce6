"""Build the ledger of a research run: a row for each question, with its quotes, their coverage of its words, and its state."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow, Need, RowState
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.evidence.chains import Chain, find_best_chains, list_best_sentences
from modules.llm_platform.domain.evidence.queries import NamedQuery, list_further_queries, make_query_without_figures
from modules.llm_platform.domain.evidence.sentence_matches import (
    HAS_TERM,
    IndexedSource,
    MatchedSentence,
    SentenceMatches,
)
from modules.llm_platform.domain.extractive.candidates import Candidate, make_relevance, match_source
from modules.llm_platform.domain.extractive.conflicts import find_conflict
from modules.llm_platform.domain.extractive.independent_sources import find_sides
from modules.llm_platform.domain.extractive.question import Question, read_question, read_question_as_written
from modules.llm_platform.domain.extractive.selection import MAX_COMPARED, MIN_ANSWER_COVERAGE, Quote
from modules.llm_platform.domain.extractive.sentence_forms import describe_cached_sentences
from modules.llm_platform.domain.extractive.sentences import Sentence
from modules.llm_platform.domain.urls.canonical_url import canonical_url

# The coverage from which a row is answered. With the supporting texts removed from the corpus, 0.75 still called 36 of 100
# questions of HotpotQA answered, and 0.9 ten (and two of MuSiQue).
MIN_ANSWERED_COVERAGE = 0.9
MAX_ROW_QUOTES = 4

_NEED_PATTERNS: Final[Mapping[Need, str]] = {
    "number": r"\bhow (?:many|much|old|long|far|tall|high|deep)\b|\bwie ?viele?\b|\bcombien\b|\bсколько\b|多少",
    "date": r"\bwhen\b|\b(?:what|which) (?:year|date|day|month)\b|\bwann\b|\bquand\b|\bcuándo\b|\bкогда\b|何时|いつ",
    "person": r"\bwho(?:m|se)?\b|\bwe[rmn]\b|\bqui\b|\bquién\b|\bchi\b|\bкто\b|谁|誰",
    "place": r"\bwhere\b|\b(?:what|which) (?:country|city|town|state|county|place)\b|\bwo\b|\boù\b|\bdónde\b|\bгде\b|哪里",
    "cause": r"\bwhy\b|\bwarum\b|\bpourquoi\b|\bpor qué\b|\bperché\b|\bпочему\b|为什么|なぜ",
}
# The noun that says what kind of thing is asked for: `from what state`, `welches Land`.
_ASKED_KIND: Final = re.compile(
    r"(?:\bwhat|(?:^|\b(?:at|by|for|from|in|of|on|to|with) )which|\bwelche[mnrs]?|\bquel(?:le)?s?) (\w+)", re.IGNORECASE
)
_NEEDS: Final = {need: re.compile(pattern, re.IGNORECASE) for need, pattern in _NEED_PATTERNS.items()}


@dataclass(frozen=True)
class LedgerRow:
    """The row of a question in the ledger, with the words that its best quotes match, and all chains for further rounds."""

    row: EvidenceRow
    matched_words: frozenset[str] = frozenset()
    chains: list[Chain] = field(default_factory=list, compare=False, repr=False)
    matches: SentenceMatches | None = field(default=None, compare=False, repr=False)

    @cached_property
    def queries(self) -> tuple[NamedQuery, ...]:
        """The queries for a further round, best first; empty if the row is answered."""
        if self.matches is None or self.row.state == "answered":
            return ()
        disputed = [make_query_without_figures(self.row.quotes[0].text)] if self.row.state == "disagree" else []
        return (*disputed, *list_further_queries(self.matches))

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the best sources, best first. Only a further round needs them."""
        sentences = list_best_sentences(self.chains, 2 * MAX_ROW_QUOTES)
        return tuple(dict.fromkeys(sentence.candidate.source.url for sentence in sentences))


class LedgerBuilder:
    """Builds the rows of questions from sources.

    Each source is parsed once, and compared with each question once, even if the rows are built several times.
    """

    def __init__(self, questions: Sequence[str], language: str) -> None:
        self._questions = [read_question_as_written(question, language) for question in questions]
        self._relevance = make_relevance(self._questions)
        self._language = language
        self._sources: dict[tuple[str, str, str, str | None], IndexedSource] = {}  # address, title, text, date
        self._candidates: dict[
            tuple[int, int], list[Candidate]
        ] = {}  # number of the question, id of the source's names

    def build_rows(self, sources: Sequence[Source], rounds: Mapping[str, int]) -> tuple[LedgerRow, ...]:
        """Return the row of each question. `rounds` maps each canonical address to the round that found it."""
        known = [self._index_source(source) for source in sources]
        rows: list[LedgerRow] = []
        for number, question in enumerate(self._questions):
            candidates = [self._compare_source(number, source, source_rank) for source_rank, source in enumerate(known)]
            rows.append(_build_row(SentenceMatches(question, known, candidates), rounds))
        return tuple(rows)

    def _index_source(self, source: Source) -> IndexedSource:
        key = (source.url, source.title, source.text, source.published)
        if key not in self._sources:
            sentences = describe_cached_sentences(source, self._language, self._relevance)
            self._sources[key] = IndexedSource(sentences)
        return self._sources[key]

    def _compare_source(self, number: int, source: IndexedSource, source_rank: int) -> list[Candidate]:
        key = number, id(source)
        if key not in self._candidates:
            self._candidates[key] = match_source(source.sentences, source_rank, self._questions[number])
        for candidate in self._candidates[key]:
            candidate.source_rank = source_rank
        return self._candidates[key]


def _build_row(matches: SentenceMatches, rounds: Mapping[str, int]) -> LedgerRow:
    chains = find_best_chains(matches, enough=MIN_ANSWERED_COVERAGE)
    question, terms = matches.question.text, matches.question.terms
    words = tuple(term.word for term in terms)
    needs = tuple(need for need, pattern in _NEEDS.items() if pattern.search(question))
    if not chains:
        return LedgerRow(EvidenceRow(question=question, words=words, needs=needs))
    best = chains[0]
    matched = {
        number for one in best.sentences for number, credit in one.candidate.credits.items() if credit >= HAS_TERM
    }
    chosen = list_best_sentences(chains, MAX_ROW_QUOTES)
    if len(best.sentences) < 2:  # the best sentence answers alone
        chosen = chosen[:1]
    state: RowState = "open"
    if best.coverage >= MIN_ANSWER_COVERAGE:
        state = (
            "answered"
            if best.coverage >= MIN_ANSWERED_COVERAGE and _has_asked_kind(matches.question, matched)
            else "partly"
        )
    voices: dict[int, int] = {}  # for each disputed sentence, by its id, how many independent sources say the same
    asks_for_figure = matches.question.asks_what or bool({"number", "date"}.intersection(needs))
    if conflict := _find_conflict(matches, of_figures=asks_for_figure):
        state = "disagree"
        chosen = list(dict.fromkeys((*conflict, *chosen)))[:MAX_ROW_QUOTES]
        sides = find_sides(
            (conflict[0].candidate, conflict[1].candidate), [sentence.candidate for sentence in matches.all]
        )
        voices = {id(sentence): side.voices for sentence, side in zip(conflict, sides, strict=True)}
    quotes = tuple(_quote(sentence, rounds, voices.get(id(sentence))) for sentence in chosen)
    row = EvidenceRow(
        question=question, words=words, needs=needs, quotes=quotes, coverage=round(best.coverage, 3), state=state
    )
    return LedgerRow(row, frozenset(terms[number].word for number in matched), chains, matches)


def _has_asked_kind(question: Question, matched: Collection[int]) -> bool:
    """Return whether these terms include the kind of thing that is asked for, such as `state` in `from what state`.

    Without this check, a sentence on the subject of a long question would cover it with all words except this one.
    """
    asked = {
        term.word
        for kind in _ASKED_KIND.findall(question.text)
        for term in read_question(kind, question.language).terms
    }
    return not asked or any(term.word in asked for number, term in enumerate(question.terms) if number in matched)


def _find_conflict(matches: SentenceMatches, *, of_figures: bool) -> tuple[MatchedSentence, MatchedSentence] | None:
    """Return two sentences of different sources that contradict each other.

    Their figures are compared only if `of_figures` is True, which means that the question asks for one.
    """
    best = sorted(matches.all, key=lambda sentence: -sentence.value)[:MAX_COMPARED]
    for sentence in best:
        sentence.candidate.score = sentence.value
    by_candidate = {id(sentence.candidate): sentence for sentence in best}
    pair = find_conflict([sentence.candidate for sentence in best], of_figures=of_figures)
    return (by_candidate[id(pair[0])], by_candidate[id(pair[1])]) if pair else None


def _quote(sentence: MatchedSentence, rounds: Mapping[str, int], voices: int | None) -> EvidenceQuote:
    source = sentence.candidate.source
    return EvidenceQuote(
        url=source.url,
        title=source.title,
        text=sentence.candidate.sentence.text,
        published=source.published,
        voices=voices,
        round=rounds.get(canonical_url(source.url), 0),
    )


def locate_quotes(rows: Sequence[EvidenceRow], sources: Sequence[Source]) -> tuple[EvidenceRow, ...]:
    """Return the rows with the offsets of their quotes in the final texts of the sources."""
    by_address = {canonical_url(source.url): source for source in sources}

    def locate(quote: EvidenceQuote) -> EvidenceQuote:
        source = by_address.get(canonical_url(quote.url))
        start = source.text.find(quote.text) if source else -1
        return quote.model_copy(update={"start": start, "end": start + len(quote.text)}) if start >= 0 else quote

    return tuple(row.model_copy(update={"quotes": tuple(map(locate, row.quotes))}) for row in rows)


def list_evidence_quotes(rows: Sequence[EvidenceRow], sources: Sequence[Source]) -> list[Quote]:
    """Return the quotes of the rows that come from these sources, in order and without repetition."""
    by_address = {canonical_url(source.url): source for source in sources}
    found: dict[str, Quote] = {}
    for quote in (quote for row in rows for quote in row.quotes):
        if source := by_address.get(canonical_url(quote.url)):
            sentence = Sentence(quote.text, len(found), heading="", is_item=False, is_complete=True)
            found.setdefault(quote.text, Quote(sentence, source))
    return list(found.values())


def describe_missing_words(rows: Sequence[LedgerRow]) -> str:
    """Return the words of unanswered questions that no quote has, to show to a person: `waterfall, name`."""
    missing = dict.fromkeys(
        word
        for read in rows
        if read.row.state != "answered"
        for word in read.row.words
        if word not in read.matched_words
    )
    return ", ".join(missing)


def pick_queries(rows: Sequence[LedgerRow], asked: Collection[str], limit: int) -> list[NamedQuery]:
    """Return up to `limit` different queries that are not in `asked`, taken from the rows in turn, best first."""
    waiting = [list(read.queries) for read in rows if read.row.state != "answered"]
    picked: dict[str, NamedQuery] = {}
    while any(waiting) and len(picked) < limit:
        for queries in filter(None, waiting):
            query = queries.pop(0)
            if len(picked) < limit and query.key not in asked:
                picked.setdefault(query.key, query)
    return list(picked.values())
