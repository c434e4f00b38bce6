"""Find a value that a claim takes from another label: "Bob is the chair" beside "Chair: Ann Lee. Treasurer: Bob Ray."

Minutes, contracts, rotas and contact lists have such lines. The words of all of them are near each other, so that a comparison of
words alone supports any label with any value.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from modules.llm_platform.domain.citations.compare.alignment import SourceText
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, find_words
from modules.llm_platform.domain.text.negation import count_negators
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import has_form_of_any, is_form_of_any
from modules.llm_platform.domain.text.tokens import fold

OF_DAY: Final = "of a day"  # the kind of entries whose labels are weekdays
MAX_ENTRIES: Final = 200  # of one source

_ENTRY: Final = re.compile(
    r"(?:^|(?<=[.;]\s))[ \t>*+•–-]{0,6}(?P<label>[^\W\d_]{2,24}(?:[ -][^\W\d_]{1,24}){0,3})\**:\**[ \t]+(?P<value>[^\n]{1,200})",
    re.MULTILINE,
)
_PERSON: Final = re.compile(r"[^\W\d_a-zà-ÿ][\w’'.-]*(?: [^\W\d_a-zà-ÿ][\w’'.-]*){1,3}")
_LIST_MARK: Final = re.compile(r", | and | und | et | y | & ")
_NEXT_ENTRY: Final = re.compile(r"[.;](?=\s)")


class _Entry(NamedTuple):
    """A label and its value, both as content words. `span` delimits the value in the source.

    `kind` says that the label is a weekday, that the value is a list of names, or that it begins with a weekday or a
    number; else it is empty. Only entries of the same kind are rivals: "Day: Saturday" does not contradict that the event
    of "Event: Spring fair" is on Saturday.
    """

    label: Sequence[str]
    value: Sequence[str]
    span: Span
    kind: str


_ENTRIES: Final[WeakKeyDictionary[SourceText, Sequence[_Entry]]] = WeakKeyDictionary()


def find_other_label(compared: Comparison) -> Mismatch | None:
    """Return where a claim has one label of the source and the value of another label."""
    claim, entries = compared.claim, _read_entries(compared.source)
    if len(entries) < 2 or count_negators(claim.facts.folded):
        return None
    said = [word.key for word in claim.words if word.is_content]
    own = _find_named(said, entries)
    if own is None:
        return None
    rest = [word for word in said if not is_form_of_any(word, own.label)]
    others = [entry for entry in entries if entry.kind == own.kind != "" and entry is not own]
    others = [entry for entry in others if has_form_of_any(rest, entry.value)]
    if has_form_of_any(rest, own.value) or any(has_form_of_any(rest, entry.label) for entry in others):
        return None
    shared = [word for word in rest if any(is_form_of_any(word, entry.value) for entry in others)]
    others_said = len(rest) - len(shared)  # "the shop" of "The shop is closed on Tuesday"
    if not shared or others_said > (own.kind == OF_DAY) or _is_said_elsewhere(compared, own, shared):
        return None
    written = [word.written for word in claim.words if word.is_content and word.key in shared]
    return Mismatch("name", find_words(claim.text, written), own.span)


def _read_entries(source: SourceText) -> Sequence[_Entry]:
    """Return the entries of a source, which are read once."""
    if source not in _ENTRIES:
        _ENTRIES[source] = list(itertools.islice(_list_entries(source), MAX_ENTRIES))
    return _ENTRIES[source]


def _list_entries(source: SourceText) -> Iterator[_Entry]:
    at = 0
    while (found := _ENTRY.search(source.text, at)) is not None:
        start = found.start("value")
        cut = _NEXT_ENTRY.search(source.text, start, found.end("value"))
        span = (start, cut.start() if cut else found.end("value"))
        at = span[1]
        label, value = source.read_facts(found.span("label")), source.read_facts(span)
        kind = _read_kind(found["label"], source.text[slice(*span)])
        yield _Entry(label.list_content(0, len(label.folded)), value.list_content(0, len(value.folded)), span, kind)


def _read_kind(label: str, value: str) -> str:
    if label.split()[0].casefold() in load_date_words():
        return OF_DAY
    if all(_PERSON.fullmatch(part.strip()) for part in _LIST_MARK.split(value)):
        return "person"
    first = fold(value.split(maxsplit=1)[0].strip(",.;")) if value.strip() else ""
    return "day" if first[:1].isdigit() or first in load_date_words() else ""


def _find_named(said: Sequence[str], entries: Sequence[_Entry]) -> _Entry | None:
    """Return the entry whose label the claim has; None without one, or if two labels are equally long."""
    named = [entry for entry in entries if entry.label and all(is_form_of_any(word, said) for word in entry.label)]
    longest = max((len(entry.label) for entry in named), default=0)
    best = [entry for entry in named if len(entry.label) == longest]
    return best[0] if len(best) == 1 else None


def _is_said_elsewhere(compared: Comparison, own: _Entry, value: Sequence[str]) -> bool:
    """Return whether another sentence of the source has a word of the label and a word of the value."""
    source = compared.source
    for sentence in compared.passage.ranked:
        start, end = source.spans[sentence]
        words = compared.read_facts(sentence).folded
        is_entry = start <= own.span[0] < end or _ENTRY.match(source.text, start) is not None
        if not is_entry and has_form_of_any(own.label, words) and has_form_of_any(value, words):
            return True
    return False
