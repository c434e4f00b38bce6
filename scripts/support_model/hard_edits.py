"""Change one fact of a claim into another fact of its own passage: what a checker of words calls supported."""

import random
import re
from collections.abc import Callable

from scripts.support_model.pairs import AUXILIARY, NAME, NUMBER, OPPOSITES, negate, turn_round

PAIRED = (("all", "some"), ("every", "some"), ("always", "sometimes"), ("may", "must"), ("can", "must"), ("might", "will"),
          ("should", "must"), ("up to", "more than"), ("at least", "at most"), ("less than", "more than"), ("if", "unless"),
          ("before", "after"), ("until", "after"), ("only", "also"), ("because of", "despite"))  # fmt: skip
Change = Callable[[str, str, random.Random], str]


def take_number(claim: str, passage: str, drawn: random.Random) -> str:
    """Another number of the passage in the place of one of the claim's."""
    found = list(NUMBER.finditer(claim))
    others = [number for number in NUMBER.findall(passage) if number not in claim]
    return _put(claim, drawn.choice(found), drawn.choice(others)) if found and others else claim


def take_name(claim: str, passage: str, drawn: random.Random) -> str:
    """Another name of the passage in the place of one of the claim's."""
    found = list(NAME.finditer(claim)) or [m for m in [re.match(r"[A-Z][a-z]+(?: [A-Z][a-z]+)+", claim)] if m]
    others = [name for name in NAME.findall(passage) if name not in claim]
    return _put(claim, drawn.choice(found), drawn.choice(others)) if found and others else claim


def swap_two(claim: str, passage: str, drawn: random.Random) -> str:
    """Two numbers, or two names, change places."""
    for pattern in drawn.sample((NUMBER, NAME), 2):
        found = list(pattern.finditer(claim))
        if len(found) >= 2 and found[0][0] != found[-1][0]:
            first, last = found[0], found[-1]
            between = claim[first.end() : last.start()]
            return claim[: first.start()] + last[0] + between + first[0] + claim[last.end() :]
    return claim


def change_scope(claim: str, passage: str, drawn: random.Random) -> str:
    """One of two small words that decide how much is said, in the place of the other."""
    pairs = [*PAIRED, *((right, left) for left, right in PAIRED)]
    drawn.shuffle(pairs)
    for old, new in pairs:
        changed, count = re.subn(rf"\b{old}\b", new, claim, count=1)
        if count:
            return changed
    return claim


def deny(claim: str, passage: str, drawn: random.Random) -> str:
    """A "not" more or less, or an opposite."""
    if re.search(r"\b(?:not|n't)\b", claim):
        return re.sub(r"\s*\bnot\b|n't\b", "", claim, count=1)
    if any(word.lower() in OPPOSITES for word in claim.split()) and drawn.random() < 0.5:
        return turn_round(claim, drawn, passage)
    return negate(claim, drawn, passage) if AUXILIARY.search(claim) else claim


CHANGES: tuple[Change, ...] = (take_number, take_name, swap_two, change_scope, deny)


def edit_within(claim: str, passage: str, drawn: random.Random) -> str | None:
    """The claim with one fact changed, if possible into another of the passage; None where no program finds one."""
    for change in drawn.sample(CHANGES, len(CHANGES)):
        changed = change(claim, passage, drawn)
        if changed != claim:
            return changed
    return None


def _put(text: str, place: re.Match[str], other: str) -> str:
    return text[: place.start()] + other + text[place.end() :]
