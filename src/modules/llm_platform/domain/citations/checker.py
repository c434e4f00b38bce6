"""Check an answer against the sources that it cites: for each sentence and source, find the best quote and a verdict.

`CitationChecker.check` reads the answer into sentences (`read.sentences`), and each sentence into a `Claim` (`read.claims`).
`compare.verdicts.judge` compares the claim with the source and returns a `Judgement`: "It opened in 1890 [1]" is refuted by "It
opened in 1980". Where the words leave a doubt, a support model may decide (`compare.meaning`).
"""

import html
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache

from modules.llm_platform.domain.citations.compare.alignment import SourceText, prepare_source
from modules.llm_platform.domain.citations.compare.changes import find_claimed_place
from modules.llm_platform.domain.citations.compare.meaning import CheckKey, Doubt, decide
from modules.llm_platform.domain.citations.compare.model_verdicts import find_highest_verdict
from modules.llm_platform.domain.citations.compare.score import read_weights
from modules.llm_platform.domain.citations.compare.verdicts import RANK, Judgement, judge, score_support
from modules.llm_platform.domain.citations.read.claims import Claim
from modules.llm_platform.domain.citations.read.sentences import AnswerSentence, AnswerText, read_answer
from modules.llm_platform.domain.dtos.citation_dtos import CellVerdict, Citation, Difference, TextSpan, Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.ports.support_model import ENGLISH, READ_LANGUAGES
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.messages import Messages, get_messages
from modules.llm_platform.domain.text.page_starts import find_page
from modules.llm_platform.domain.text.sentences import COLONS, QUESTION_MARKS, Span
from modules.llm_platform.domain.text.tokens import fold, split_words
from modules.llm_platform.domain.urls.canonical_url import quote_url

MIN_STATEMENT_WORDS = 4  # shorter sentences need no source
NOUNS_ARE_CAPITALISED = frozenset({"de", "lb"})
MAX_TRIED_SOURCES = 5  # for a sentence without a marker, the sources with most of its words are tried
MIN_KNOWN_SHARE = 0.7  # a source is tried only if it has this share of the words, by weight
MIN_FOUND_SCORE = 0.75  # and cited only if its score, a probability, is at least this
MAX_PASSAGE_CHARS = 500  # of the passage in English that a support model reads, about 100 tokens
MAX_FOREIGN_CHARS = {"zh": 150}  # the same in other languages
MAX_OTHER_CHARS = 350
MAX_RECEIPT_WORDS = 4  # more words on one side of a difference are not shown as a pair
_HEADINGS = re.compile(r"(?:#{1,6}[ \t][^\n]*\n\s*)+")
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


class CitationChecker:
    """Checks answers against one set of sources. Each source is prepared once, when it is first cited.

    Judgements are cached by sentence, so checking a growing answer again costs little. A support model may decide some of them:
    it reads `list_doubts` and reports with `record_log_odds`, and the next check has its verdicts.
    """

    def __init__(self, sources: Sequence[Source], language: str, check_stop: Callable[[], None] = lambda: None) -> None:
        """Create a checker. `check_stop` is called between steps of the work, and may raise to end it."""
        self._check_stop = check_stop
        self._sources = {source.index: source for source in sources}
        self._language = language
        self._primary = language.partition("-")[0].lower()
        self._is_read = self._primary in READ_LANGUAGES
        self._capitals_name = self._primary not in NOUNS_ARE_CAPITALISED
        self._claims: dict[str, Claim] = {}  # only the last claim: more would cost the garbage collector 3 % of a check
        self._prepared: dict[int, SourceText] = {}
        self._judged: dict[CheckKey, Judgement] = {}
        self._doubted: dict[CheckKey, None] = {}  # keys that a support model may decide, in the order of the answer
        self._settled: set[CheckKey] = set()  # keys that it has read, or that it cannot read
        self._quotes: dict[tuple[int, Span], tuple[str, str | None]] = {}

    def prepare(self) -> None:
        """Prepare all texts now. Not safe to call while another thread uses this checker."""
        self._prepare(self._sources)

    def replace_source(self, source: Source) -> None:
        """Replace the text of a source. Sentences that cite it are judged again."""
        self._sources[source.index] = source
        self._prepared.pop(source.index, None)
        for key in [key for key in self._judged if key.source == source.index]:
            del self._judged[key]
            self._doubted.pop(key, None)
            self._settled.discard(key)
        self._quotes = {key: quote for key, quote in self._quotes.items() if key[0] != source.index}

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
            uncited = list(filter(self._makes_statement, unmarked))  # such as an answer that is only "Yes."
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

    @property
    def has_doubts(self) -> bool:
        """True if a support model may decide some of the cited sentences."""
        return bool(self._doubted)

    def list_doubts(self, limit: int) -> list[Doubt]:
        """Return the first cited sentences that a support model may decide, at most `limit`, each with the passage to read."""
        found: list[Doubt] = []
        for key in list(self._doubted):
            if len(found) == limit:
                break
            if (doubt := self._find_doubt(key)) is not None:
                found.append(doubt)
            else:
                del self._doubted[key]
                self._settled.add(key)
        return found

    def _find_doubt(self, key: CheckKey) -> Doubt | None:
        """Return the claim and the passage that a support model reads; None if it may not decide, or if no passage is found.

        If the source has no word of the claim, a short source is read as a whole. If both are in English, it is not read,
        because it then says something else.
        """
        judgement, source = self._judged[key], self._prepared[key.source]
        has_claim_only = judgement.verdict == "supported" or not key.clauses
        claim = self._read_claim(key.claim if has_claim_only else " ".join(key.clauses))
        is_english = self._reads_as_english(key.source)
        limit = (
            MAX_PASSAGE_CHARS
            if is_english
            else MAX_FOREIGN_CHARS.get(source.language or self._primary, MAX_OTHER_CHARS)
        )
        passage, whole = source.find_best_passage(claim), source.text.strip()
        if passage is None and (is_english or len(whole) > limit):
            return None
        read = source.collect_text(passage, limit) if passage else " ".join(whole.split())
        first = len(source.text) - len(source.text.lstrip())
        quote = judgement.quote if passage else (first, first + len(whole))
        allowed = find_highest_verdict(judgement.verdict, html.unescape(key.claim), source.text[slice(*quote)])
        highest = min(allowed, judgement.highest, key=RANK.__getitem__)
        if judgement.is_without_words and highest != "supported":  # another figure, or a clause that nobody cites
            return None
        return Doubt(key, claim.text, html.unescape(read), judgement, highest, is_english, quote)

    def _is_in_doubt(self, key: CheckKey) -> bool:
        """Return whether a support model may decide a citation that the words have not decided.

        It must know both languages. If no word is shared, it decides neither table rows nor pairs in English.
        """
        judgement = self._judged[key]
        if not self._is_read or judgement.is_final or key in self._settled:
            return False
        if self._prepared[key.source].language not in (None, *READ_LANGUAGES):
            return False
        return not (judgement.is_without_words and (key.cells or self._reads_as_english(key.source)))

    def _reads_as_english(self, number: int) -> bool:
        return self._primary == ENGLISH and self._prepared[number].language in (None, ENGLISH)

    def record_log_odds(self, doubt: Doubt, log_odds: float) -> None:
        """Record the result of a support model: the log-odds that the passage supports the claim."""
        key = doubt.key
        if self._judged.get(key) == doubt.judgement:  # its source may have been replaced
            self._judged[key] = decide(doubt, log_odds)
            self._doubted.pop(key, None)
            self._settled.add(key)

    def drop_doubts(self) -> None:
        """Keep the verdicts of the words on everything that is still in doubt."""
        self._doubted.clear()

    def find_source(self, sentence: AnswerSentence) -> int | None:
        """Return the source that supports a statement best, or None. Only sources with most of its words are tried."""
        self._prepare(self._sources)
        tried = self._list_likely_sources(sentence, self._prepared)
        score, number = max(((self._score_support(sentence, number), -number) for number in tried), default=(0.0, 0))
        return -number if score >= MIN_FOUND_SCORE else None

    def find_closest(self, sentence: AnswerSentence, among: Collection[int] | None = None) -> Citation | None:
        """Return the citation of the source that fits a statement best, whether or not it supports it.

        Return None if no source has most of its words. With `among`, only these sources are tried.
        """
        numbers = set(self._sources) if among is None else set(among).intersection(self._sources)
        self._prepare(numbers)
        self._check_stop()
        tried = self._list_likely_sources(sentence, numbers)
        judged = {number: self._judge(sentence, number, is_shown=False) for number in tried}
        best = max(
            judged,
            key=lambda number: (RANK[_decide_verdict(self._sources[number], judged[number])], judged[number].score),
            default=None,
        )
        return None if best is None else self._make_citation(sentence, best, is_by_author=False)

    def _list_likely_sources(self, sentence: AnswerSentence, numbers: Iterable[int]) -> list[int]:
        """Return the prepared sources that have most words of a statement, best first, at most MAX_TRIED_SOURCES."""
        claim = self._read_claim(sentence.claim)
        known = sorted(
            ((self._prepared[number].measure_known_share(claim), -number) for number in numbers), reverse=True
        )
        return [-number for share, number in known[:MAX_TRIED_SOURCES] if share >= MIN_KNOWN_SHARE]

    def _score_support(self, sentence: AnswerSentence, number: int) -> float:
        """Return the score of the source if it supports the sentence, else 0. Scores below MIN_FOUND_SCORE may be 0 too."""
        if not sentence.cells:
            return score_support(self._read_claim(sentence.claim), self._prepared[number], MIN_FOUND_SCORE)
        judgement = self._judge(sentence, number, is_shown=False)
        return judgement.score if judgement.verdict == "supported" else 0.0

    def is_statement(self, sentence: AnswerSentence) -> bool:
        """Return whether the sentence needs a source.

        Questions, lead-ins, sentences of a few words and messages of the application need none.
        """
        return self._makes_statement(sentence) and len(self._read_claim(sentence.claim).words) >= MIN_STATEMENT_WORDS

    def _makes_statement(self, sentence: AnswerSentence) -> bool:
        text = sentence.claim
        is_said = any(map(str.isalnum, text)) and not text.endswith(_NO_STATEMENT_ENDS)
        if text.startswith("(") and get_messages(self._language).is_voices_note(text):
            return False
        return is_said and text not in _list_messages(get_messages(self._language))

    def _assign_trailing_markers(self, text: AnswerText) -> Iterable[tuple[int, int]]:
        """Yield pairs of sentence position and source for markers that follow several sentences.

        Such a marker cites each of these sentences that has no marker of its own and is supported by the source. If there is
        none and the marker stands on a line of its own, it cites the last sentence.
        """
        for behind in text.trailing:
            for number in filter(self._sources.__contains__, behind.numbers):
                positions = [
                    position for position in behind.sentences if self._may_be_meant(text.sentences[position], number)
                ]
                if not positions and behind.alone:
                    positions = [behind.sentences[-1]]
                yield from ((position, number) for position in positions)

    def _may_be_meant(self, sentence: AnswerSentence, number: int) -> bool:
        if sentence.cited:
            return number in sentence.cited
        return self.is_statement(sentence) and self._judge(sentence, number).verdict == "supported"

    def _prepare_cited(self, text: AnswerText) -> set[int]:
        """Return the numbers of the sources that a text cites, and prepare these sources."""
        named = [sentence.cited for sentence in text.sentences] + [behind.numbers for behind in text.trailing]
        cited = {number for numbers in named for number in numbers if number in self._sources}
        self._prepare(cited)
        return cited

    def _judge(self, sentence: AnswerSentence, number: int, *, is_shown: bool = True) -> Judgement:
        """Return the judgement on a sentence and a prepared source.

        `is_shown` is False if the judgement is only compared with others, so a support model need not decide it.
        """
        cells = tuple((cell.text, cell.with_heads) for cell in sentence.list_cells(number))
        clauses = tuple(clause.text for clause in sentence.list_clauses(number))
        key = CheckKey(sentence.claim, cells, clauses, number)
        if key not in self._judged:
            self._check_stop()
            self._judged[key] = self._judge_key(key, is_all_cited=all(clause.cited for clause in sentence.clauses))
        if is_shown and self._is_in_doubt(key):
            self._doubted[key] = None
        return self._judged[key]

    def _judge_key(self, key: CheckKey, *, is_all_cited: bool) -> Judgement:
        """Return the judgement on the whole sentence, or on its weakest clause if that is better.

        A source that is cited in the middle of a sentence may support only its clause. If another clause has no marker
        (`is_all_cited` is False), the sentence is then partial at best.
        """
        source = self._prepared[key.source]
        cells = [(self._read_claim(cell), self._read_claim(with_heads)) for cell, with_heads in key.cells]
        judgement = judge(self._read_claim(key.claim), source, self._language, cells)
        if not key.clauses or judgement.verdict not in ("partial", "unsupported"):
            return judgement
        of_clauses = [judge(self._read_claim(clause), source, self._language) for clause in key.clauses]
        weakest = _extend_to_sentence(min(of_clauses, key=_rank), is_all_cited=is_all_cited)
        better = max(judgement, weakest, key=_rank)
        return better if is_all_cited else replace(better, highest="partial")

    def _read_claim(self, text: str) -> Claim:
        claim = self._claims.get(text)
        if claim is None:
            claim = Claim(html.unescape(text), load_stop_words(self._language), capitals_name=self._capitals_name)
            self._claims = {text: claim}
        return claim

    def _prepare(self, cited: Iterable[int]) -> None:
        for number in sorted(cited):
            if number not in self._prepared:
                self._check_stop()
                source = self._sources[number]
                self._prepared[number] = prepare_source(source.text, source.title, self._language)

    def _make_citation(self, sentence: AnswerSentence, number: int, *, is_by_author: bool) -> Citation:
        judgement, source = self._judge(sentence, number), self._sources[number]
        span = self._leave_out_heading(judgement.quote, number, html.unescape(sentence.claim))
        if judgement.change and judgement.change.found[0] < span[0]:
            span = judgement.quote  # The difference is in the heading.
        quote, link = self._make_quote(source, span)
        page = find_page(source.pages, span[0]) if quote else None
        return Citation(
            start=sentence.start,
            end=sentence.end,
            source_index=number,
            quote=quote,
            quote_start=span[0],
            quote_end=span[1],
            verdict=_decide_verdict(source, judgement),
            score=judgement.score,
            is_verbatim=judgement.is_verbatim,
            checked_by="words" if judgement.word_verdict is None else "encoder",
            word_verdict=judgement.word_verdict,
            cited_by="model" if is_by_author else "platform",
            checked_against=source.text_kind,
            quote_url=link,
            page=page,
            cells=tuple(
                CellVerdict(start=cell.start, end=cell.end, verdict=_decide_verdict(source, judged))
                for cell, judged in zip(sentence.list_cells(number), judgement.cells, strict=False)
            ),
            difference=self._locate_difference(sentence, judgement, number) if judgement.change else None,
        )

    def _locate_difference(self, sentence: AnswerSentence, judgement: Judgement, number: int) -> Difference | None:
        """Return the change with its spans in the answer and in the source.

        The result is None if the claim cannot be found in the answer, or if no words of the source replace the words of the
        claim. It is also None if replaced words or names are too long to be compared: a reader would see two unrelated texts.
        """
        change = judgement.change
        claimed = find_claimed_place(sentence, change.claimed) if change else None
        if change is None or claimed is None or judgement.verdict in ("supported", "unchecked"):
            return None
        source, (start, end), (first, last) = self._prepared[number], claimed, change.found
        mine, theirs = sentence.written[start - sentence.start : end - sentence.start], source.text[first:last]
        if change.kind in ("name", "negation", "other") and change.found in source.spans:
            return None
        if change.kind in ("name", "other") and not _is_pair(mine, theirs):
            return None
        return Difference(
            claimed=TextSpan(start=start, end=end), found=TextSpan(start=first, end=last), kind=change.kind
        )

    def show_quote(self, citation: Citation, span: Span, claim: str) -> Citation:
        """Return the citation with another quote of its source, for the same claim."""
        source = self._sources[citation.source_index]
        span = self._leave_out_heading(span, source.index, claim)
        quote, link = self._make_quote(source, span)
        page = find_page(source.pages, span[0]) if quote else None
        return citation.model_copy(
            update={"quote": quote, "quote_start": span[0], "quote_end": span[1], "quote_url": link, "page": page}
        )

    def _leave_out_heading(self, span: Span, number: int, claim: str) -> Span:
        """Return the span without the Markdown headings right above its text. They were compared, too.

        A heading stays if the claim has a word of it that the text below has not, such as the name of what the text describes.
        """
        text = self._prepared[number].text
        headings = _HEADINGS.match(text, *span)
        if headings is None or headings.end() == span[1]:
            return span
        said, above, below = (
            set(map(fold, split_words(part))) for part in (claim, headings[0], text[headings.end() : span[1]])
        )
        needed = (said & above) - below - load_stop_words(self._language)
        return span if needed else (headings.end(), span[1])

    def _make_quote(self, source: Source, span: Span) -> tuple[str, str | None]:
        """Return the quote and the link to it. Both are cached, because the early and the final check need them."""
        key = (source.index, span)
        if key not in self._quotes:
            quote = self._prepared[source.index].text[slice(*span)]
            self._quotes[key] = quote, quote_url(source.url, quote, find_page(source.pages, span[0]))
        return self._quotes[key]


def _is_pair(mine: str, theirs: str) -> bool:
    """Return whether both are a few words within one sentence, and differ."""
    is_short = all(0 < len(words.split()) <= MAX_RECEIPT_WORDS and "\n" not in words for words in (mine, theirs))
    return is_short and ". " not in theirs and mine.casefold() != theirs.casefold()


def _rank(judgement: Judgement) -> int:
    return RANK[judgement.verdict]


def _extend_to_sentence(judgement: Judgement, *, is_all_cited: bool) -> Judgement:
    """Turn the judgement on a clause into a judgement on the sentence. It is partial at best if a clause has no marker.

    The change is dropped, because its offsets count from the beginning of the clause.
    """
    if judgement.verdict == "supported" and not is_all_cited:
        judgement = replace(
            judgement, verdict="partial", score=round(min(judgement.score, read_weights().supported), 2)
        )
    return replace(judgement, change=None, is_verbatim=False)


def _decide_verdict(source: Source, judgement: Judgement) -> Verdict:
    """Return the verdict. An excerpt that neither supports nor contradicts a sentence says nothing about its page."""
    is_open = judgement.verdict == "unsupported" and source.text_kind == "snippet" and not judgement.is_refuted
    return "unchecked" if is_open else judgement.verdict


@cache
def _list_messages(messages: Messages) -> frozenset[str]:
    """Return the messages of the application, which need no source."""
    return frozenset(astuple(messages))
