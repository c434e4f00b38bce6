"""Checks an answer against the sources that it cites: for each sentence and source the best quote and a verdict.

Nothing more is claimed than that a sentence matches its source: words, numbers, names, dates and denials are compared,
meaning is not understood.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cache

from modules.llm_platform.domain.citations.alignment import SourceText, prepare
from modules.llm_platform.domain.citations.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.sentences import AnswerSentence, answer_sentences
from modules.llm_platform.domain.citations.verdicts import Judgement, is_verbatim, judge_sentence
from modules.llm_platform.domain.dtos.research_dtos import Citation, Source
from modules.llm_platform.domain.text.language import stop_words
from modules.llm_platform.domain.text.messages import messages_for
from modules.llm_platform.domain.text.tokens import Span

MIN_FACTUAL_WORDS = 4  # shorter sentences assert little
NOUNS_ARE_CAPITALISED = frozenset({"de", "lb"})
COPIED_FROM = 0.9  # of the sentence's words that the source has; below it nobody needs to look whether it was copied
_NO_STATEMENT = ("?", "？", ":", "：", "؟")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """What the check found. `uncited_sentences` counts statements without a marker, `cited` the sources' numbers."""

    citations: tuple[Citation, ...]
    uncited_sentences: int
    cited: frozenset[int]


class CitationChecker:
    """Checks answers against one set of sources; their texts are prepared once, when they are first cited.

    What was found out about a sentence is kept: whoever checks an answer piece by piece while it is written has little left
    to do at its end.
    """

    def __init__(self, sources: Sequence[Source], language: str) -> None:
        self._sources = {source.index: source for source in sources}
        self._language = language
        self._stop_words = stop_words(language)
        self._capitals_name = language.partition("-")[0].lower() not in NOUNS_ARE_CAPITALISED
        self._prepared: dict[int, _Checked] = {}
        self._judged: dict[tuple[str, int], tuple[Span, Judgement]] = {}

    def prepare(self) -> None:
        """Prepare all texts now, in a thread of its own where they are long; until it is done nobody else may check."""
        self._prepare(self._sources)

    def check(self, answer: str) -> CheckedAnswer:
        """`answer` is sanitised Markdown. Markers that name no source are not looked at."""
        sentences = answer_sentences(answer, self._language)
        cited = {number for sentence in sentences for number in sentence.cited if number in self._sources}
        self._prepare(cited)
        citations = tuple(citation for sentence in sentences for citation in self._citations_of(sentence))
        return CheckedAnswer(citations, sum(map(self._lacks_a_source, sentences)), frozenset(cited))

    def _prepare(self, cited: Iterable[int]) -> None:
        new = [self._sources[number] for number in sorted(cited) if number not in self._prepared]
        texts = prepare(((source.text, source.title) for source in new), self._language)
        for source, text in zip(new, texts, strict=True):
            self._prepared[source.index] = _Checked(text, self._stop_words)

    def _citations_of(self, sentence: AnswerSentence) -> Iterable[Citation]:
        numbers = [number for number in sentence.cited if number in self._prepared]
        if not numbers:
            return
        text = html.unescape(sentence.claim) if "&" in sentence.claim else sentence.claim
        new = [number for number in numbers if (text, number) not in self._judged]
        if new:
            claim = Claim(text, self._stop_words, capitals_name=self._capitals_name)
            self._judged |= {(text, number): self._prepared[number].check(claim) for number in new}
        for number in numbers:
            (start, end), judgement = self._judged[text, number]
            yield Citation(
                start=sentence.start, end=sentence.end, source_index=number,
                quote=self._prepared[number].text[start:end], quote_start=start, quote_end=end,
                verdict=judgement.verdict, score=judgement.score,
            )  # fmt: skip

    def _lacks_a_source(self, sentence: AnswerSentence) -> bool:
        text = sentence.claim
        if sentence.cited or text.endswith(_NO_STATEMENT) or text in _own_sentences(self._language):
            return False
        return len(Claim(text, self._stop_words, capitals_name=False).words) >= MIN_FACTUAL_WORDS


class _Checked:
    """One source, and what was found out about its passages so far."""

    def __init__(self, source: SourceText, stop_words: frozenset[str]) -> None:
        self.text = source.text
        self._source = source
        self._stop_words = stop_words
        self._facts: dict[Span, TextFacts] = {}

    def check(self, claim: Claim) -> tuple[Span, Judgement]:
        if not self.text.strip():
            return (0, 0), Judgement("unchecked", 0.0)
        passage = self._source.best_passage(claim)
        if passage is None:
            return (0, 0), Judgement("unsupported", 0.0)
        span = (passage.start, passage.end)
        if passage.known >= COPIED_FROM and is_verbatim(claim, self._source):
            return span, Judgement("supported", 1.0)
        return span, judge_sentence(claim, self._source, passage, self._facts_of(span), self._facts_of_sentence)

    def _facts_of_sentence(self, number: int) -> TextFacts:
        return self._facts_of(self._source.spans[number])

    def _facts_of(self, span: Span) -> TextFacts:
        facts = self._facts.get(span)
        if facts is None:
            facts = self._facts[span] = TextFacts(self.text[span[0] : span[1]], self._stop_words)
        return facts


@cache
def _own_sentences(language: str) -> frozenset[str]:
    """What we say ourselves needs no source."""
    return frozenset(astuple(messages_for(language)))
