"""Split a claim that makes several statements about rows: `Tom is 16 and pays £60, but Ines pays £30`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from modules.llm_platform.domain.extractive.limits import load_phrases
from modules.llm_platform.domain.extractive.table_words import load_word_list
from modules.llm_platform.domain.row_claims.claim import RowClaim
from modules.llm_platform.domain.row_claims.source_tables import PlacedWord, list_placed_words
from modules.llm_platform.domain.text.language import load_stop_words
from modules.llm_platform.domain.text.sentences import Span

MAX_STATEMENTS: Final = 4
_VALUE_END: Final = re.compile(r"(?:\d|[^\W\d_]{1,12}\.?)\Z")  # a number with its unit, or a month
_VALUE_START: Final = re.compile(r"[£$€]?\d")


def is_one_statement(claim: RowClaim) -> bool:
    """Return whether a claim makes one statement and gives no reason."""
    return not _gives_reason(claim) and not _list_joints(claim)


def split_statements(claim: RowClaim) -> list[list[RowClaim]]:
    """Return the statements of a claim, each in all its interpretations; empty if there are too many, or if one gives a reason.

    A statement without a name may be about all rows, or about the rows named at the beginning of the first statement. In the
    text of a statement, blanks replace the other statements, so its spans are also valid in the claim.
    """
    joints = _list_joints(claim)
    if _gives_reason(claim) or len(joints) >= MAX_STATEMENTS:
        return []
    ends = [joint.start for joint in joints]
    starts = [joint.end for joint in joints]
    spans = list(zip([0, *starts], [*ends, len(claim.full_text)], strict=True))
    subject = _find_subject(claim, spans[0])
    return [list(_read_statement(claim, span, subject)) for span in spans]


def _read_statement(claim: RowClaim, span: Span, subject: Sequence[Span]) -> Iterator[RowClaim]:
    alone = _restrict(claim, [span])
    compares = _begins_with_comparison(alone)
    if not compares:
        yield alone
    if subject and (compares or not alone.mentions):
        of_subject = _restrict(claim, [*subject, span])
        if not of_subject.has_other_words(of_subject.row_indices):
            yield of_subject


def _begins_with_comparison(statement: RowClaim) -> bool:
    """Return whether the first name of a statement is after a "than": `and is older than Ben`."""
    before = [word.word for word in statement.words if statement.mentions and word.end <= statement.mentions[0].start]
    return not load_phrases("than").isdisjoint(before)


def _find_subject(claim: RowClaim, first: Span) -> list[Span]:
    """Return the span of the first name in the first statement, together with the names joined to it: `Ann and Ben`."""
    named = [row for row in claim.mentions if row.end <= first[1]]
    end = 1
    while end < len(named) and _is_joined(claim.full_text[named[end - 1].end : named[end].start]):
        end += 1
    return [(named[0].start, named[end - 1].end)] if named else []


def _is_joined(between: str) -> bool:
    """Return whether only a comma or an "and" is between two names."""
    return load_word_list("adding").issuperset(between.casefold().replace(",", " ").split())


def _gives_reason(claim: RowClaim) -> bool:
    return not load_word_list("causing").isdisjoint(claim.folded)


def _list_joints(claim: RowClaim) -> list[PlacedWord]:
    """Return the words that join two statements, such as "but". The "and" in `Ann and Ben` and `between 5 and 9` does not."""
    adding, joining = load_word_list("adding", claim.language), load_word_list("joining")
    return [
        word
        for word in claim.words
        if word.word in joining
        or (word.word in adding and not _joins_names(claim, word) and not _joins_values(claim, word))
    ]


def _joins_names(claim: RowClaim, word: PlacedWord) -> bool:
    """Return whether a word is between two names, perhaps with function words and a comma around it."""
    before = [row.end for row in claim.mentions if row.end <= word.start]
    after = [row.start for row in claim.mentions if row.start >= word.end]
    if not before or not after:
        return False
    between = [other.word for other in claim.words if before[-1] <= other.start < after[0] and other is not word]
    stop_words = load_stop_words(claim.language)
    return all(other in stop_words or claim.table.count_matches([other]) for other in between)


def _joins_values(claim: RowClaim, word: PlacedWord) -> bool:
    """Return whether a number or date begins after a word, and a number or a word ends before it: `between 5 and 9`."""
    before, after = claim.masked_text[: word.start].rstrip(), claim.masked_text[word.end :].lstrip()
    return bool(_VALUE_END.search(before)) and bool(_VALUE_START.match(after))


def _restrict(claim: RowClaim, spans: Sequence[Span]) -> RowClaim:
    """Return the claim with only these spans of its text."""
    chars = [" "] * len(claim.full_text)
    for start, end in spans:
        chars[start:end] = claim.full_text[start:end]
    text = "".join(chars)
    return RowClaim(text, list_placed_words(text), claim.source, claim.language, is_question=claim.is_question)
