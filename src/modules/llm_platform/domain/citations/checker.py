"""Check an answer against the sources that it cites: for each sentence and source the best quote and a verdict.

Words, numbers, names, dates and negations are compared; meaning is not understood.
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
from modules.llm_platform.domain.text.sentences import COLONS, QUESTION_MARKS, Span

MIN_STATEMENT_WORDS = 4  # shorter sentences need no source
NOUNS_ARE_CAPITALISED = frozenset({"de", "lb"})
MIN_VERBATIM_SHARE = 0.9  # of the words of a sentence that the source has; below it the search for a copy is skipped
_NO_STATEMENT_ENDS = (*QUESTION_MARKS, *COLONS)


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """The result: `uncited_sentences` counts statements without a marker, `cited` holds the numbers of the cited sources."""

    citations: tuple[Citation, ...]
    uncited_sentences: int
    cited: frozenset[int]


class CitationChecker:
    """Checks answers against one set of sources. Each text is prepared once, when it is first cited.

    Judgements are cached by sentence, so that an answer can be checked again and again while it grows.
    """

    def __init__(self, sources: Sequence[Source], language: str) -> None:
        self._sources = {source.index: source for source in sources}
        self._language = language
        self._stop_words = stop_words(language)
        self._capitals_name = language.partition("-")[0].lower() not in NOUNS_ARE_CAPITALISED
        self._prepared: dict[int, _PreparedSource] = {}
        self._judged: dict[tuple[str, int], tuple[Span, Judgement]] = {}

    def prepare(self) -> None:
        """Prepare all texts now. Not safe to call while another thread uses this checker."""
        self._prepare(self._sources)

    def check(self, answer: str) -> CheckedAnswer:
        """Check sanitised Markdown. Markers that name no source are ignored."""
        sentences, cited = self._judge(answer)
        citations = tuple(citation for sentence in sentences for citation in self._citations_of(sentence))
        return CheckedAnswer(citations, sum(map(self._lacks_a_source, sentences)), frozenset(cited))

    def check_early(self, part: str) -> None:
        """Judge the sentences of a part of an answer, so that `check` finds them judged."""
        self._judge(part)

    def _judge(self, text: str) -> tuple[list[AnswerSentence], set[int]]:
        """The sentences of a text, all judged, and the numbers of the sources that they cite."""
        sentences = answer_sentences(text, self._language)
        cited = {number for sentence in sentences for number in sentence.cited if number in self._sources}
        self._prepare(cited)
        for sentence in sentences:
            claim_text = html.unescape(sentence.claim)
            new = [each for each in sentence.cited if each in cited and (claim_text, each) not in self._judged]
            if new:
                claim = Claim(claim_text, self._stop_words, capitals_name=self._capitals_name)
                self._judged |= {(claim_text, number): self._prepared[number].check(claim) for number in new}
        return sentences, cited

    def _prepare(self, cited: Iterable[int]) -> None:
        new = [self._sources[number] for number in sorted(cited) if number not in self._prepared]
        texts = prepare(((source.text, source.title) for source in new), self._language)
        for source, text in zip(new, texts, strict=True):
            self._prepared[source.index] = _PreparedSource(text, self._stop_words)

    def _citations_of(self, sentence: AnswerSentence) -> Iterable[Citation]:
        text = html.unescape(sentence.claim)
        for number in sentence.cited:
            if number not in self._prepared:
                continue
            (start, end), judgement = self._judged[text, number]
            yield Citation(
                start=sentence.start, end=sentence.end, source_index=number,
                quote=self._prepared[number].text[start:end], quote_start=start, quote_end=end,
                verdict=judgement.verdict, score=judgement.score,
            )  # fmt: skip

    def _lacks_a_source(self, sentence: AnswerSentence) -> bool:
        text = sentence.claim
        if sentence.cited or text.endswith(_NO_STATEMENT_ENDS) or text in _catalogue_messages(self._language):
            return False
        return len(Claim(text, self._stop_words, capitals_name=False).words) >= MIN_STATEMENT_WORDS


class _PreparedSource:
    """One source, and the facts of those of its passages that were compared."""

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
        if passage.known >= MIN_VERBATIM_SHARE and is_verbatim(claim, self._source):
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
def _catalogue_messages(language: str) -> frozenset[str]:
    """The messages of the application, which need no source."""
    return frozenset(astuple(messages_for(language)))
