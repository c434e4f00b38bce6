"""Find a claim that says of one person what its source says of another: "For keys ask Ann Lee; for invoices ask Bob Ray".

"Ann Lee deals with the invoices" has all its words from this sentence. `contrasts` calls `compare_named_clauses`.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.mismatches import SpanPair
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.positions import Offset
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import fold

MAX_WORDS: Final = 60  # longer sentences are not compared
MAX_CLAUSE_WORDS: Final = 10  # a longer clause says more than what a person does

_BREAK: Final = re.compile(r";\s|,?\s(?:and|und|et|while|während|tandis que|y|e)\s", re.IGNORECASE)
_NAME: Final = re.compile(r"(?<![\w’'-])(?!I['’])[^\W\d_a-zà-ÿ][\w’'-]+(?: [^\W\d_a-zà-ÿ][\w’'-]+){0,2}")

_BEFORE_PLACE: Final = re.compile(r"\b(?:in|at|near|from|en|chez|près de)\s$")


class _NamedClause(NamedTuple):
    """A clause with one name. `words` are its other content words, and `span` delimits the name in the sentence."""

    name: Sequence[str]
    words: Sequence[str]
    span: Span


def compare_named_clauses(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return the name in the claim and the name that the sentence has in its place; None if they agree.

    The claim has the name of one clause, none of the other words of this clause, and at least one word that only another clause
    has. All other content words of the claim may be missing.
    """
    if not claim.capitals_name or len(sentence.folded) > MAX_WORDS or count_negators(claim.facts.folded):
        return None
    clauses = _list_clauses(sentence)
    said = claim.facts.folded
    named = [clause for clause in clauses if set(clause.name).issubset(said)]
    if (
        len(clauses) < 2
        or len(named) != 1
        or any(set(one.name) & set(named[0].name) for one in clauses if one is not named[0])
    ):
        return None
    (own,) = named
    if not own.words or _has_any(own.words, said):
        return None
    others = [clause for clause in clauses if clause is not own and _has_any(clause.words, said)]
    if len(others) != 1:
        return None
    start = claim.text.find(sentence.text[slice(*own.span)])
    return ((start, start + own.span[1] - own.span[0]) if start >= 0 else (0, len(claim.text))), others[0].span


def _list_clauses(sentence: TextFacts) -> Sequence[_NamedClause]:
    """Return the clauses of a sentence; empty if a clause has no name or several, or if two names are joined: "Ann and Bob"."""
    breaks = list(_BREAK.finditer(sentence.text))
    starts = [0, *(found.start() for found in breaks)]
    ends = [*starts[1:], len(sentence.text)]
    clauses = [_read_clause(sentence, start, end) for start, end in zip(starts, ends, strict=True)]
    known = [clause for clause in clauses if clause is not None]
    are_joined = any(
        one.span[1] == found.start() and other.span[0] == found.end()
        for one, found, other in zip(known, breaks, known[1:], strict=False)
    )
    return known if len(known) == len(clauses) and not are_joined else ()


def _read_clause(sentence: TextFacts, start: int, end: int) -> _NamedClause | None:
    """Return the clause of a span if it has exactly one name of a person: no place, and no single word that begins a sentence."""
    names = [
        name
        for name in _NAME.finditer(sentence.text, start, end)
        if (name.start() or " " in name[0]) and not _BEFORE_PLACE.search(sentence.text, 0, name.start())
    ]
    first, last = sentence.find_position(Offset(start)), sentence.find_position(Offset(end))
    if len(names) != 1 or last - first > MAX_CLAUSE_WORDS:
        return None
    name = fold(names[0][0]).split()
    words = [word for word in sentence.list_content(first, last) if word not in name]
    return _NamedClause(name, words, names[0].span())


def _has_any(words: Sequence[str], said: Sequence[str]) -> bool:
    return any(is_form_of_any(word, said) for word in words)
