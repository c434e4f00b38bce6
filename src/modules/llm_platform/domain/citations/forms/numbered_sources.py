"""The sources of a text and their numbers: sources that were sent along, the text's own lists, and the addresses it cites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from modules.llm_platform.domain.citations.forms.author_year import Bibliography, BibliographyEntry
from modules.llm_platform.domain.citations.forms.cited_text import MAX_NUMBER, CitedSource
from modules.llm_platform.domain.citations.forms.given_names import GivenNames
from modules.llm_platform.domain.citations.forms.list_entries import ListedSource
from modules.llm_platform.domain.markdown.markers import MARKER, MAX_NUMBER_DIGITS, mask_code_spans, parse_numbers
from modules.llm_platform.domain.urls.canonical_url import canonical_url, is_openable

DOCUMENT_SCHEME: Final = "doc:"
# A file of a searched folder, as exported answers name it.
_DOCUMENT = re.compile(rf"\b{DOCUMENT_SCHEME}([^\s`<>()]{{1,1000}})")
_NUMBER = re.compile(r"\d+")


class NumberedSources:
    """The sources of a text, found by number, address, footnote name or author. A new address gets the next free number."""

    def __init__(self, given: Sequence[CitedSource], entries: Sequence[ListedSource]) -> None:
        self._by_number: dict[int, CitedSource] = {}
        self._by_address: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self.bibliography = Bibliography()
        self.given_names = GivenNames(given)
        self._free = count(1)
        for source in given:
            self._add(source.index, source)
            if source.title:
                self.add_name(source.title, source.index)
        self._add_entries(entries)
        for source in given:
            number = source.index if source.index in self._by_number else self.find_named(source.title) or source.index
            if entry := BibliographyEntry.of(number, source.title):
                self.bibliography.add(entry)
        self.known = sorted(self._by_number)

    def _add_entries(self, entries: Sequence[ListedSource]) -> None:
        numbered = [entry for entry in entries if entry.label.isdecimal() and 0 < int(entry.label) <= MAX_NUMBER]
        footnotes = [entry for entry in entries if entry.label[:1] == "^" and entry.label[1:].isdecimal()]
        for entry in (*numbered, *footnotes):
            number = int(entry.label.lstrip("^"))
            if (meant := self._find_renumbered(entry, number)) is not None:
                self._renumber_given(number, meant)
            elif number not in self._by_number:
                self._add(number, self._convert_entry(entry, number))
            elif entry.label[0] != "^":
                continue  # the first of two lists with the same numbers counts
            elif entry.url and canonical_url(entry.url) != canonical_url(self._by_number[number].url):
                number = self._find_free_number()
                self._add(number, CitedSource(number, entry.url, entry.title))
            self._add_names(entry, number)
        done = {id(entry) for entry in (*numbered, *footnotes)}
        for entry in entries:
            if id(entry) not in done:
                self._add_names(entry, self.assign_number(entry.url, entry.title))

    def _find_given(self, entry: ListedSource) -> int | None:
        """Return the number of the given source that an entry names, by its address or its title."""
        by_address = self._by_address.get(canonical_url(entry.url)) if entry.url else None
        return by_address or self.find_named(entry.title)

    def _find_renumbered(self, entry: ListedSource, number: int) -> int | None:
        """Return the number that a given source has so far, if the entry names it with another number."""
        given = self._find_given(entry) or 0
        meant, taken = self._by_number.get(given), self._by_number.get(number)
        if meant is None or not meant.text or meant is taken:
            return None
        return given if (entry.url if taken is None else taken.text) else None

    def _renumber_given(self, number: int, meant: int) -> None:
        """Give this number to the source `meant`, and a free number to the source that had it."""
        source, other = self._by_number.pop(meant), self._by_number.pop(number, None)
        new_numbers = {meant: number}
        if other is not None:
            new_numbers[number] = meant if meant not in self._by_number else self._find_free_number()
            self._by_number[new_numbers[number]] = replace(other, index=new_numbers[number])
        self._by_number[number] = replace(source, index=number)
        for known in (self._by_address, self._by_name):
            known.update({name: new_numbers[old] for name, old in known.items() if old in new_numbers})

    def _convert_entry(self, entry: ListedSource, number: int) -> CitedSource:
        """Return the source of a list entry. An entry that names a given source, such as a file, gets that source's text."""
        document = _DOCUMENT.search(entry.text)
        name = document[1] if document and self.find_named(document[1]) else entry.title
        given = None if entry.url else self._by_number.get(self.find_named(name) or 0)
        if given is None:
            return CitedSource(number, entry.url, entry.title)
        if not given.is_numbered:
            del self._by_number[given.index]
            self._by_name[name.casefold()] = number
        return CitedSource(number, "", entry.title, given.text, pages=given.pages, is_whole=given.is_whole)

    def _add_names(self, entry: ListedSource, number: int) -> None:
        """Let later citations find the entry by its label and its author."""
        if entry.label:
            self.add_name(entry.label, number)
        if (found := BibliographyEntry.of(number, entry.text)) is not None:
            self.bibliography.add(found)

    def reserve_cited_numbers(self, prose: Iterable[str]) -> None:
        """Reserve the numbers that the text cites without listing a source for them."""
        for line in prose:
            if "[" not in line and "【" not in line and "［" not in line:
                continue
            for found in MARKER.finditer(mask_code_spans(line)):
                if line.startswith("(", found.end()):
                    continue  # `[1](https://…)` is a link with its own address
                digits = found[1].strip("^")
                if digits.isdecimal() and len(digits) <= MAX_NUMBER_DIGITS:  # int() refuses very long numbers
                    number = int(digits)
                    if 0 < number <= MAX_NUMBER and number not in self._by_number:
                        self._by_number[number] = CitedSource(number, is_listed=False)
        self.known = sorted(self._by_number)

    def list_known_numbers(self, listed: str) -> list[int]:
        """Return the numbers in a list such as `1, 3-5` that belong to a source."""
        return parse_numbers(listed, self.known) or []

    def list_entry_numbers(self, listed: str) -> list[int]:
        """Return the numbers in a list such as `1, 3-5`; empty unless each number that is written has an entry."""
        listed_numbers = [number for number, source in sorted(self._by_number.items()) if source.is_listed]
        are_listed = set(listed_numbers).issuperset(map(int, _NUMBER.findall(listed)))
        return (parse_numbers(listed, listed_numbers) or []) if are_listed else []

    def find_named(self, name: str) -> int | None:
        return self._by_name.get(name.casefold())

    def assign_number(self, url: str, title: str = "", wanted: int | None = None) -> int:
        """Return the number of an address. A new address gets the `wanted` number if that is free, else the next free one."""
        key = canonical_url(url) if url else ""
        if key and key in self._by_address:
            return self._by_address[key]
        taken = self._by_number.get(wanted) if wanted is not None else None
        if wanted is None or not 0 < wanted <= MAX_NUMBER or (taken is not None and taken.is_listed):
            wanted = self._find_free_number()
        self._add(wanted, CitedSource(wanted, url, title))
        return wanted

    def add_name(self, name: str, number: int) -> None:
        self._by_name.setdefault(name.casefold(), number)

    def list_all(self) -> tuple[CitedSource, ...]:
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    def _find_free_number(self) -> int:
        return next(number for number in self._free if number not in self._by_number)

    def _add(self, number: int, source: CitedSource) -> None:
        if source.url and not is_openable(source.url):
            source = replace(source, url="")
        self._by_number[number] = source
        if source.url:
            self._by_address.setdefault(canonical_url(source.url), number)
