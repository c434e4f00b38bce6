"""Find a number that a claim takes from another item of a list: "Adults pay £12, children £5 and pensioners £8".

"Children pay £8" has all its words from this sentence. `contrasts` calls `compare_items` with a claim and one sentence.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from modules.llm_platform.domain.citations.compare.mismatches import SpanPair, find_figure_and_sign
from modules.llm_platform.domain.citations.compare.number_contrasts import list_numbers_with_words
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.numbers import NumberValues
from modules.llm_platform.domain.text.positions import Offset, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any

MAX_WORDS: Final = 80  # longer sentences are not compared
MAX_ITEM_WORDS: Final = 6  # a longer item says more than what its number is of

IN_ALL: Final = frozenset({("in", "all"), ("en", "tout"), ("in", "total"), ("au", "total"), ("en", "total")})

_MARK: Final = re.compile(r"[,;:]\s")
_SIGN_BEFORE: Final = re.compile(r"[€$£¥]\s?$")
_FIGURE: Final = re.compile(r"[0-9](?:[0-9.,'’:/]*[0-9])?(?:\s?([€$£¥%°]))?")
_ORDINAL_END: Final = re.compile(r"[^\W\d_]")  # "19th"; "5kg" is left out, too
_DIGITS: Final = re.compile("[0-9]+")
_YEAR: Final = re.compile(r"(?:1[5-9]|20)[0-9]{2}")


class _Item(NamedTuple):
    """An item of a list, with one number.

    `unit` is the sign of the number or the word right after it; it is empty if a function word follows ("72 for a single room").
    `before` and `after` are the content words around the number and its unit. `is_total` is True for "£395 in all".
    """

    values: NumberValues
    span: Span
    unit: str
    before: Sequence[str]
    after: Sequence[str]
    is_total: bool

    @property
    def words(self) -> list[str]:
        return [*self.before, *self.after]

    @property
    def name(self) -> Sequence[str]:
        """The words that say what the number counts: the words before it, or the words after it if none precede it."""
        return self.before or self.after


def compare_items(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return the number of the claim and the number of the item that the claim names; None if they agree.

    The claim has exactly one number, and the item with this number has another name.
    """
    if len(claim.numbers) != 1 or len(sentence.folded) > MAX_WORDS:
        return None
    number, items = claim.numbers[0], list(_list_items(sentence))
    own = [item for item in items if item.values & number.values]
    if len(own) != 1 or _YEAR.fullmatch(claim.text[slice(*find_figure_and_sign(claim.text, number.offset))]):
        return None
    if sum(bool(values & number.values) for values, _ in sentence.figures) > 1 or _names(claim, own[0], items):
        return None
    if own[0].words and not _list_own_words(own[0], items):  # "£32 for half an hour and £60 an hour"
        return None
    if own[0].is_total and _says_total(claim.facts.folded):
        return None
    counted = _read_counted(claim)
    named = [
        item
        for item in items
        if item is not own[0]
        and (_is_same_kind(item, own[0]) or _is_counted(item, own[0], counted))
        and _names(claim, item, items)
    ]
    if len(named) != 1 or named[0].values & number.values:
        return None
    return find_figure_and_sign(claim.text, number.offset), named[0].span


def _names(claim: Claim, item: _Item, items: Sequence[_Item]) -> bool:
    """Return whether the claim has all words of the item's name that no other item has, or one of all its words.

    The first item has the verb for all items (`Adults pay £12`), so one of its words is not enough.
    """
    own = _list_own_words(item, items)
    name = [word for word in item.name if word in own]
    known = [word for word in own if is_form_of_any(word, claim.facts.folded)]
    return bool(name) and (set(name) <= set(known) or (item is not items[0] and bool(known)))


def _list_own_words(item: _Item, items: Sequence[_Item]) -> list[str]:
    others = [word for other in items if other is not item for word in other.words]
    return [word for word in item.words if not is_form_of_any(word, others)]


def _is_same_kind(one: _Item, other: _Item) -> bool:
    """Return whether both numbers have the same unit, or only one number has a unit: `39 euros, 72 for two`."""
    is_same_unit = one.unit == other.unit or is_form_of_any(one.unit, [other.unit])
    return bool(one.unit or other.unit) and (is_same_unit or not (one.unit and other.unit))


def _says_total(words: Sequence[str]) -> bool:
    """Return whether words state a total: "altogether", "in all"."""
    is_in_all = any(pair in IN_ALL for pair in pairwise(words))
    return is_in_all or not load_words("contrasts", "total").isdisjoint(words)


def _read_counted(claim: Claim) -> str:
    """Return the noun after the number of a claim; empty if no content word follows."""
    offset = claim.numbers[0].offset
    return _read_unit(claim.facts, offset, claim.facts.find_position(offset))[0]


def _is_counted(item: _Item, own: _Item, counted: str) -> bool:
    """Return whether a claim counts the noun of an item with the number of another noun.

    "Eleven candidates are interviewed" does, if eleven applications were made and four candidates are interviewed.
    """
    is_noun = bool(own.unit) and counted.isalpha() and is_form_of_any(counted, [item.unit])
    return is_noun and not is_form_of_any(counted, [own.unit])


def _list_items(sentence: TextFacts) -> Iterator[_Item]:
    """Yield the items that have exactly one number and few words."""
    joining = load_words("contrasts", "joining")
    starts = {sentence.find_position(Offset(mark.end())) for mark in _MARK.finditer(sentence.text)}
    cuts = sorted(starts | {at for at, word in enumerate(sentence.folded) if word in joining} | {0})
    numbers = [(sentence.find_position(offset), values, offset) for values, offset in list_numbers_with_words(sentence)]
    for first, end in zip(cuts, [*cuts[1:], len(sentence.folded)], strict=True):
        within = [number for number in numbers if first <= number[0] < end]
        if len(within) != 1:
            continue
        at, values, offset = within[0]
        figure = _FIGURE.match(sentence.text, offset)
        if figure is not None and _ORDINAL_END.match(sentence.text, figure.end()):
            continue
        last = WordNumber(at + len(_DIGITS.findall(figure[0])) - 1) if figure else at
        unit, unit_words = _read_unit(sentence, offset, last)
        before, after = sentence.list_content(first, at), sentence.list_content(last + 1 + unit_words, end)
        if len(before) + len(after) <= MAX_ITEM_WORDS:
            is_total = _says_total(sentence.folded[first:end])
            yield _Item(values, find_figure_and_sign(sentence.text, offset), unit, before, after, is_total)


def _read_unit(sentence: TextFacts, offset: Offset, last: WordNumber) -> tuple[str, int]:
    """Return the unit of the number at `offset`, and how many words it takes. `last` is the last word of the number."""
    if sign := _SIGN_BEFORE.search(sentence.text, 0, offset):
        return sign[0].strip(), 0
    if (figure := _FIGURE.match(sentence.text, offset)) and figure[1]:
        return figure[1], 0
    has_unit = last + 1 < len(sentence.folded) and sentence.content[last + 1]
    return (sentence.folded[last + 1], 1) if has_unit else ("", 0)
