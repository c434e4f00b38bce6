"""Judge a claim against one source: its verdict, and the passage to quote.

`judge` takes a claim and a prepared source. A claim that the source has word for word is supported. Otherwise `alignment` finds
the passage that fits best, `facts` compares the facts of both, and `score` computes the probability that the passage supports
the claim. One wrong number, unit, name, identifier, date or negation refutes a claim, even if everything else agrees. If the
source lacks a number of the claim, or attributes its act to another subject, the claim is partial at best.

A mismatch refutes a claim only if the source has most of its other words. "A guest of two nights pays nothing" is not refuted by
"Guests may stay three nights; after that they pay £4": such a claim is partial at best. If the source has most of the words but
not nearly all, the claim is refuted, and a support model that reads both may still call it partial (`is_weakly_refuted`). If the
source lacks such words and is in another language, the claim is unsupported or unchecked, and no model may change this.

The cells decide a claim about the rows of a table, such as "Ines is older than Ben" (`row_claims.judgement`). If it is uncertain
what the cells say, shared words neither support nor refute the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from modules.llm_platform.domain.citations.compare.alignment import Passage, SourceText
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.facts import find_mismatch, is_partial_at_best
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch
from modules.llm_platform.domain.citations.compare.replaced_words import find_replacement
from modules.llm_platform.domain.citations.compare.score import (
    compute_features,
    compute_probability,
    load_score_weights,
)
from modules.llm_platform.domain.citations.compare.unasserted import is_asserted
from modules.llm_platform.domain.citations.read.amounts import list_amounts, use_units
from modules.llm_platform.domain.citations.read.claims import Claim, read_claim
from modules.llm_platform.domain.citations.read.words import is_unspaced
from modules.llm_platform.domain.dtos.citation_dtos import DifferenceKind, Verdict
from modules.llm_platform.domain.row_claims.claim import RowClaim, RowFinding
from modules.llm_platform.domain.row_claims.judgement import judge_rows
from modules.llm_platform.domain.row_claims.source_tables import SourceTable
from modules.llm_platform.domain.text.language import detect_language, get_primary_subtag
from modules.llm_platform.domain.text.negation import is_denied_at
from modules.llm_platform.domain.text.sentences import Span, is_question
from modules.llm_platform.domain.text.tokens import normalize

MIN_WORDS_AFTER_COLON: Final = 4  # shortest statement after a colon
UNIT_SIGNS: Final = frozenset("€$£¥%‰°")  # normalized words have none of them
LAST_LATIN: Final = "\u024f"  # the last letter of Latin Extended-B
# How much of a claim the source may support. `unchecked` is above `partial`, because a page in another language, or a page seen
# only as an excerpt, may support the whole claim.
POSSIBLE_SUPPORT: Final[dict[Verdict, int]] = {"unsupported": 0, "partial": 1, "unchecked": 2, "supported": 3}
MIN_VERBATIM_SHARE: Final = 0.9  # a source with a smaller share of the words is not searched for a copy
MIN_SAME_LANGUAGE_SHARE: Final = 0.6  # a source with this share of the words is in the language of the sentence
# A claim is refuted only if the source has at least MIN_REFUTED_SHARE of its other words, by weight. Below MIN_CERTAIN_SHARE, a
# support model may still call it partial.
MIN_REFUTED_SHARE: Final = 0.6
MIN_CERTAIN_SHARE: Final = 0.8
COMPUTED_SCORE: Final = 0.95  # of a claim that the cells of a table confirm
MAX_QUOTED_ROWS: Final = 3  # adjacent rows in one quote
DENIAL_REACH_CHARS: Final = 40  # searched for a denial before and after a copied sentence


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement on a sentence and one of its sources.

    - `score` is the probability that the source supports the sentence, 0 to 1.
    - `quote` is the span of the passage in the source, (0, 0) if none fits.
    - `is_refuted` is True if the source contradicts a fact of the sentence.
    - `is_weakly_refuted` is True if the source lacks so many other words of a refuted sentence that both may say the same. A
      support model may then call the sentence partial.
    - `is_verbatim` is True if the source has the sentence word for word, or each cell of a table row.
    - `cells` are the judgements on the cells of a table row that the source does not support as one sentence.
    - `mismatch` is the difference to show to a reader: what refutes the sentence, or a replaced word of one that is not refuted.
    - `highest_verdict` limits the verdict of a support model, which cannot overrule the word comparison about numbers, or about
      who did something.
    - `is_computed` is True if the cells of a table decided, or if the source has a copy with an amount in another unit.
    - `word_verdict` is the lexical verdict if a support model gave `verdict`, else None.
    """

    verdict: Verdict
    score: float
    quote: Span = (0, 0)
    is_refuted: bool = False
    is_verbatim: bool = False
    cells: tuple[Judgement, ...] = ()
    mismatch: Mismatch | None = None
    highest_verdict: Verdict = "supported"
    word_verdict: Verdict | None = None
    is_computed: bool = False
    is_weakly_refuted: bool = False

    @property
    def is_final(self) -> bool:
        """True if no support model may change the verdict.

        This holds for an unchecked sentence, a copy, a certain mismatch, cells of a table, a sentence that no model may support,
        and a verdict of a model.
        """
        return (
            self.verdict == "unchecked"
            or self.is_verbatim
            or (self.is_refuted and not self.is_weakly_refuted)
            or self.highest_verdict == "unsupported"
            or self.is_computed
            or bool(self.cells)
            or self.word_verdict is not None
        )

    @property
    def shares_no_word(self) -> bool:
        """True if claim and source have no word in common, so that the word comparison says nothing."""
        return self.quote == (0, 0)  # no passage was found


def is_verbatim(claim: Claim, source: SourceText) -> bool:
    """Return whether the source has the words of the claim in the same order, and does not deny them right before or after.

    The text before a colon and the statement after it may be in different places, and the former may be in the title.
    """
    if is_question(claim.text) and claim.facts.normalized in source.normalized:
        return True  # the reply after a question denies no question
    if any(sign not in source.text for sign in UNIT_SIGNS.intersection(claim.text)):
        return False  # normalized words have no signs
    if not any(len(word.key) > 1 or is_unspaced(word.key) for word in claim.words):
        return bool(claim.words) and f"|{claim.facts.normalized}|" in f"|{source.normalized}|"  # "s" is in any "it's"
    if _is_copied(claim.facts.normalized, source):
        return True
    lead, colon, statement = claim.text.partition(": ")  # a heading or a lead-in, and a sentence below it
    if not colon or len(statement.split()) < MIN_WORDS_AFTER_COLON or not _is_copied(normalize(statement), source):
        return False
    return normalize(lead) in source.normalized_title or _is_copied(normalize(lead), source)


def _is_copied(words: str, source: SourceText) -> bool:
    """Return whether the source has the normalized words without a denial, also across the ends of sentences."""
    return _occurs_undenied(words, source.normalized) or _occurs_undenied(words, source.normalized_without_bars)


def _occurs_undenied(words: str, text: str) -> bool:
    """Return whether the text has the words at least once without a denial right before or after them."""
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        before = text[max(0, at - DENIAL_REACH_CHARS) : at].rpartition("|")[2].split()
        if not is_denied_at(before, text[end : end + DENIAL_REACH_CHARS].split(" ", 1)):
            return True
        at = text.find(words, at + 1)
    return False


def judge(claim: Claim, source: SourceText, language: str, cells: Sequence[tuple[Claim, Claim]] = ()) -> Judgement:
    """Return the judgement on a claim. `language` is the language of the answer.

    `cells` are the cells of a table row, each alone and with its headers. If the source does not support the row as one sentence,
    the row gets the weakest verdict of its cells.
    """
    judgement = _judge_claim(claim, source, language)
    if judgement.verdict in ("partial", "unsupported"):
        judgement = max(judgement, _judge_in_units_of_source(claim, source, language) or judgement, key=_get_rank)
    if not cells or judgement.verdict not in ("partial", "unsupported"):
        return judgement
    judged = tuple(_judge_cell(*cell, source, language) for cell in cells)
    weakest = min(judged, key=_get_rank)
    is_copied = all(cell.is_verbatim for cell in judged)
    return replace(weakest, quote=judgement.quote, cells=judged, mismatch=None, is_verbatim=is_copied)


def _judge_in_units_of_source(claim: Claim, source: SourceText, language: str) -> Judgement | None:
    """Return the judgement on a claim with its amounts written as in the source: `24 months` for `two years`.

    Return None if no amount changes.

    The mismatch is dropped, because its offsets count in the other text.
    """
    written = use_units(claim.text, source.amounts, source.text) if list_amounts(claim.text) else claim.text
    if written == claim.text:
        return None
    judgement = _judge_claim(read_claim(written, language), source, language)
    is_certain = judgement.is_verbatim or judgement.is_computed
    return replace(judgement, mismatch=None, is_verbatim=False, is_computed=is_certain)


def judge_clauses(
    whole: Judgement, clauses: Iterable[Claim], source: SourceText, language: str, *, is_all_cited: bool
) -> Judgement:
    """Return `whole`, the judgement on a sentence, or the judgement on its weakest clause if that is better.

    A source that is cited in the middle of a sentence may support only its clause. `clauses` are the clauses that cite it.
    If another clause has no marker (`is_all_cited` is False), the sentence is partial at best.
    """
    if whole.verdict not in ("partial", "unsupported"):
        return whole
    weakest = min((judge(clause, source, language) for clause in clauses), key=_get_rank)
    better = max(whole, _extend_to_sentence(weakest, is_all_cited=is_all_cited), key=_get_rank)
    return better if is_all_cited else replace(better, highest_verdict="partial")


def _extend_to_sentence(clause: Judgement, *, is_all_cited: bool) -> Judgement:
    """Turn the judgement on a clause into a judgement on its sentence.

    The mismatch is dropped, because its offsets count from the beginning of the clause.
    """
    if clause.verdict == "supported" and not is_all_cited:
        clause = replace(clause, verdict="partial", score=round(min(clause.score, load_score_weights().supported), 2))
    return replace(clause, mismatch=None, is_verbatim=False)


def _get_rank(judgement: Judgement) -> int:
    return POSSIBLE_SUPPORT[judgement.verdict]


def _judge_cell(cell: Claim, with_headers: Claim, source: SourceText, language: str) -> Judgement:
    """Return the judgement on a cell with its headers; partial instead of unsupported if the source has the bare cell."""
    judgement = _judge_claim(with_headers, source, language)
    if judgement.verdict == "unsupported" and is_verbatim(cell, source):
        return Judgement("partial", judgement.score)
    return judgement


def score_support(claim: Claim, source: SourceText, language: str, min_score: float) -> float:
    """Return the score of a claim that `judge` calls supported; 0 for other verdicts and for scores below `min_score`.

    This is faster than `judge`: most sources score below `min_score`, and their facts are not compared.
    """
    if not source.tables and not any(source.find_sentences(word.key) for word in claim.words if word.is_content):
        return 0.0
    judgement = _judge_claim(claim, source, language, min_score=min_score)
    return judgement.score if judgement.verdict == "supported" else 0.0


def _judge_claim(claim: Claim, source: SourceText, language: str, *, min_score: float = 0.0) -> Judgement:
    """Return the judgement on a claim without cells.

    If the score is below `min_score`, the facts are not compared, and the judgement says only that the claim is not supported.
    """
    if not source.text.strip():
        return Judgement("unchecked", 0.0)
    passage = source.find_best_passage(claim)
    if passage is not None and _is_asserted_copy(claim, source, passage):
        return Judgement("supported", 1.0, passage.span, is_verbatim=True)
    rows = judge_rows(claim.text, source.tables, language)
    if rows.claim is not None and rows.finding is not None:
        return _judge_by_rows(rows.claim, rows.finding, source)
    if passage is None:
        return _leave_foreign_claim_unchecked(claim, source, language, Judgement("unsupported", 0.0))
    judgement = _judge_by_facts(claim, source, passage, language, min_score=min_score)
    if rows.is_uncertain or (rows.has_other_number and judgement.verdict == "supported"):
        return _limit_to_partial(judgement)
    if judgement.verdict != "supported" and passage.known_share < MIN_SAME_LANGUAGE_SHARE:
        return _leave_foreign_claim_unchecked(claim, source, language, judgement)
    return judgement


def _is_asserted_copy(claim: Claim, source: SourceText, passage: Passage) -> bool:
    """Return whether the source has the claim word for word, and not only as a condition, a proposal or a denied report."""
    is_copy = passage.known_share >= MIN_VERBATIM_SHARE and is_verbatim(claim, source)
    return is_copy and is_asserted(Comparison(claim, source, passage))


def _judge_by_facts(
    claim: Claim, source: SourceText, passage: Passage, language: str, *, min_score: float
) -> Judgement:
    compared, limits = Comparison(claim, source, passage), load_score_weights()
    features = compute_features(compared)
    score = compute_probability(features)
    if round(score, 2) < min_score:
        return Judgement("unsupported", 0.0)
    mismatch = find_mismatch(compared)
    is_partial = mismatch is not None or is_partial_at_best(compared)
    if score >= limits.supported and not is_partial:
        return Judgement("supported", round(score, 2), passage.span)
    unchanged = 0.0 if mismatch is None else _measure_unchanged_share(claim, source, mismatch)
    is_foreign = mismatch is not None and unchanged < MIN_CERTAIN_SHARE and _differ_in_language(claim, source, language)
    is_refuted = unchanged >= MIN_REFUTED_SHARE
    is_unsupported = is_refuted or is_foreign or score < limits.partial
    highest_score = limits.refuted if is_unsupported else limits.supported
    replacement = find_replacement(compared) if features.replaced and not mismatch else None
    return Judgement(
        "unsupported" if is_unsupported else "partial",
        round(min(score, highest_score), 2),
        passage.span,
        is_refuted=is_refuted,
        is_weakly_refuted=is_refuted and unchanged < MIN_CERTAIN_SHARE and not is_foreign,
        mismatch=mismatch if is_refuted else replacement,
        highest_verdict="unsupported" if is_foreign else "partial" if is_partial else "supported",
    )


def _measure_unchanged_share(claim: Claim, source: SourceText, mismatch: Mismatch) -> float:
    """Return the share of the claim's other words that the source has, by weight; 1 if there are no other words.

    A mismatch without a position of its own spans the whole claim. In this case, all words count.
    """
    first, last = mismatch.claimed if mismatch.claimed != (0, len(claim.text)) else (0, 0)
    words = zip(claim.words, claim.offsets, strict=True)
    unchanged = [word for word, start in words if word.is_content and not first <= start < last]
    return source.measure_known_share(unchanged) if unchanged else 1.0


def _judge_by_rows(claim: RowClaim, finding: RowFinding, source: SourceText) -> Judgement:
    """Return the judgement by the cells of a table. A claim that lists only some of the rows is partial."""
    quote = _quote_rows(claim.source, finding)
    if finding.is_true:
        return Judgement("supported", COMPUTED_SCORE, quote, is_computed=True)
    if finding.is_true is None:
        return Judgement(
            "partial", round(load_score_weights().supported, 2), quote, is_computed=True, highest_verdict="partial"
        )
    mismatch = None
    if finding.claimed is not None and finding.needs_all_rows:
        mismatch = Mismatch("number", finding.claimed, quote)
    elif finding.claimed is not None and finding.column is not None:
        index, column = finding.row_indices[-1], finding.column
        is_name = any(row.column == column for row in claim.mentions)
        kind: DifferenceKind = "name" if is_name else "date" if column in claim.table.dates else "number"
        mismatch = Mismatch(kind, finding.claimed, claim.source.find_cell(source.text, index, column))
    return Judgement("unsupported", 0.0, quote, is_refuted=True, is_computed=True, mismatch=mismatch)


def _quote_rows(table: SourceTable, finding: RowFinding) -> Span:
    """Return the span of the rows if they are adjacent and at most MAX_QUOTED_ROWS, or if only all show it; else of the last."""
    indices = finding.row_indices
    first, last = min(indices), max(indices)
    is_adjacent = last - first < len(set(indices)) <= MAX_QUOTED_ROWS
    if is_adjacent or finding.needs_all_rows:
        return table.spans[first][0], table.spans[last][1]
    return table.spans[indices[-1]]


def _limit_to_partial(judgement: Judgement) -> Judgement:
    """Return the judgement as partial at best and not refuted, for a claim that compares or counts rows.

    Words cannot tell whether such a claim is true.
    """
    verdict = min(judgement.verdict, "partial", key=POSSIBLE_SUPPORT.__getitem__)
    score = round(min(judgement.score, load_score_weights().supported), 2)
    return replace(judgement, verdict=verdict, score=score, is_refuted=False, mismatch=None, highest_verdict="partial")


def _leave_foreign_claim_unchecked(claim: Claim, source: SourceText, language: str, judgement: Judgement) -> Judgement:
    """Return `unchecked` if claim and source are in different languages, else `judgement`.

    Words of two languages cannot be compared. If the source lacks a figure or a name of the claim, `judgement` stays.
    """
    if not _differ_in_language(claim, source, language) or _lacks_figure_or_name(claim, source):
        return judgement
    return Judgement("unchecked", judgement.score, judgement.quote)


def _differ_in_language(claim: Claim, source: SourceText, language: str) -> bool:
    """Return whether claim and source are in different languages. `language` is the language of the answer."""
    primary = get_primary_subtag(language)
    return source.language not in (None, primary) and detect_language(claim.text) == primary


def _lacks_figure_or_name(claim: Claim, source: SourceText) -> bool:
    """Return whether the source lacks a figure, identifier or name that both languages write alike.

    Figures count only if the source has numbers. Names count only if they are in Latin letters and the claim is in another
    alphabet.
    """
    known = source.read_facts((0, len(source.text))).numbers
    for values, at, spelled in claim.numbers:
        key = claim.keys[claim.find_position(at)]
        if (
            known
            and not spelled
            and not any(values & known_values for known_values in known)
            and not source.find_sentences(key)
        ):
            return True
    is_other_alphabet = any(sign > LAST_LATIN and sign.isalpha() for sign in claim.text)
    alike = (
        word
        for word in claim.words
        if word.is_identifier or (is_other_alphabet and word.written.isascii() and word.written[0].isupper())
    )
    return any(not source.knows(word.key, word.written) for word in alike)
