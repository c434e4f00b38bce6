"""Who does what to whom: a sentence that has the words of its source, two of them in each other's place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from modules.llm_platform.domain.checking.claims import Claim
from modules.llm_platform.domain.checking.dates import DATE_WORDS
from modules.llm_platform.domain.checking.text_facts import TextFacts
from modules.llm_platform.domain.checking.words import is_same_word

VOICE_REACH = 4  # words behind a verb in which its "by" stands

_ARTICLE_LIST = "a an the der die das den dem des ein eine einen le la les un une el los las il lo gli o os as its their"
_ARTICLES = frozenset(_ARTICLE_LIST.split())
_LAST_LATIN = "\u0250"
_BY_LIST = "by par von durch por da przez door av"
_BY = frozenset(_BY_LIST.split())  # behind a verb they name who did it

_DATE_PREPOSITIONS_LIST = "in on im am en le el au"
_DATE_PREPOSITIONS = frozenset(_DATE_PREPOSITIONS_LIST.split())

Pair = tuple[int, int]  # the place of a word in the claim and in the sentence of the source


def roles_exchanged(claim: Claim, heart: TextFacts) -> bool:
    """Whether two parties have changed places, or "was bought by" has become "bought"."""
    common = _common_words(claim, heart)
    if _BY.isdisjoint(claim.keys) is not _BY.isdisjoint(heart.folded):
        return _BY.isdisjoint(claim.keys) and _loses_its_by(heart, common)
    parties = _exchanged(common)
    return parties is not None and _in_same_frame(claim, heart, *parties)


def _common_words(claim: Claim, heart: TextFacts) -> list[Pair]:
    """The claim's content words that stand just once on both sides."""
    found = []
    for place, word in enumerate(claim.words):
        if word.is_content and claim.keys.count(word.key) == 1:
            places = heart.places_of(word.key)
            if len(places) == 1:
                found.append((place, places[0]))
    return found


def _exchanged(common: Sequence[Pair]) -> tuple[Sequence[Pair], Sequence[Pair]] | None:
    """The two parts that stand in the opposite order, with or without a middle between them; None where there is no such."""
    right = sorted(their for _, their in common)
    wrong = [at for at, (_, their) in enumerate(common) if their != right[at]]
    if not wrong:
        return None
    core = common[wrong[0] : wrong[-1] + 1]
    falls = [at for at, ((_, one), (_, following)) in enumerate(pairwise(core), 1) if following < one]
    if len(falls) not in (1, 2):
        return None
    first, middle, last = core[: falls[0]], core[falls[0] : falls[-1]], core[falls[-1] :]
    places = [their for part in (last, middle, first) for _, their in part]
    return (first, last) if places == sorted(places) else None


def _in_same_frame(claim: Claim, heart: TextFacts, first: Sequence[Pair], last: Sequence[Pair]) -> bool:
    """Whether each party stands right behind, or right before, the same word as the other one does in the source.

    What stands before a verb says who acts in languages of fixed order only, not in German or Russian; and behind the
    same word twice ("in May in Rome") nobody has a role.
    """
    if _word_before(heart.folded, first[0][1]) == _word_before(heart.folded, last[0][1]):
        return False
    dates = [_is_date(heart.folded, party) for party in (first, last)]
    if any(dates) and (not all(dates) or any(heart.folded[place] in DATE_WORDS for _, place in (*first, *last))):
        return False  # a date can stand anywhere, and be written either way round
    fixed = claim.capitals_name and claim.text.lstrip("`*_(\"'")[:1] < _LAST_LATIN
    return _takes_place(claim.keys, heart.folded, first, last, fixed) and _takes_place(
        claim.keys, heart.folded, last, first, fixed
    )


def _takes_place(
    mine: Sequence[str], theirs: Sequence[str], party: Sequence[Pair], other: Sequence[Pair], fixed: bool
) -> bool:
    before, their_before = _word_before(mine, party[0][0]), _word_before(theirs, other[0][1])
    if before and their_before and is_same_word(before, their_before):
        return True
    after, their_after = mine[party[-1][0] + 1 :][:1], theirs[other[-1][1] + 1 :][:1]
    return fixed and bool(after and their_after) and is_same_word(after[0], their_after[0])


def _by_behind(words: Sequence[str], verb: int) -> int | None:
    """Where the "by" of this verb stands: right behind it, or behind a date ("was succeeded in 1956 by")."""
    for place in range(verb + 1, min(len(words), verb + 1 + VOICE_REACH)):
        if words[place] in _BY:
            return place
        if not (words[place] in _DATE_PREPOSITIONS or words[place].isdigit() or words[place] in DATE_WORDS):
            return None
    return None


def _is_date(words: Sequence[str], party: Sequence[Pair]) -> bool:
    return all(words[place].isdigit() or words[place] in DATE_WORDS for _, place in party)


def _word_before(words: Sequence[str], place: int) -> str:
    return next((word for word in reversed(words[:place]) if word not in _ARTICLES), "")


def _loses_its_by(heart: TextFacts, common: Sequence[Pair]) -> bool:
    """Whether what stands behind a verb and its "by" in the source stands right behind the verb in the claim."""
    for (mine, theirs), (next_mine, next_theirs) in pairwise(common):
        by = _by_behind(heart.folded, theirs)
        if by is not None and any(by < their < next_theirs and my < mine for my, their in common):
            continue  # who did it stands before the verb here
        if not heart.folded[theirs].isalpha():
            continue
        if by is not None and next_theirs > by and next_mine - mine <= VOICE_REACH:
            return True
    return False
