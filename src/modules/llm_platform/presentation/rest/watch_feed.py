"""The changes of a watched question as an Atom feed (RFC 4287)."""

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from modules.llm_platform.domain.dtos.watch_dtos import ChangeKind, FoundChange, Watch

ATOM_TYPE: Final = "application/atom+xml"
_OF_ADDRESSES: Final = "%/:?#[]@!$&'()*+,;=~"  # what RFC 3986 allows in an address, beside letters and digits
_TITLES: Final[dict[ChangeKind, str]] = {
    "changed": "Changed",
    "new": "New",
    "gone": "Gone",
    "disputed": "Disputed",
}


def render_feed(watch: Watch, changes: Sequence[FoundChange], address: str) -> str:
    """Return the feed of a watch at its address, with the changes in the given order, newest first.

    An entry keeps its id, so a reader shows each change once. A paused watch has an entry that says why.
    """
    times = [change.at for change in changes]
    entries = "".join(_render_entry(watch, change) for change in changes)
    if watch.state == "paused":
        paused_at = watch.last_run_at or watch.created_at
        times, entries = [*times, paused_at], _render_pause(watch, paused_at, address) + entries
    updated = max(times, default=watch.created_at)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<id>urn:llm-platform:watch:{escape(watch.id)}</id><title>{_clean(watch.query)}</title>"
        f"<updated>{_format_time(updated)}</updated><author><name>llm-platform</name></author>"
        f'<link rel="self" href={quoteattr(address)}/>{entries}</feed>\n'
    )


def _render_entry(watch: Watch, change: FoundChange) -> str:
    sides = [(name, side) for name, side in (("Before", change.was), ("Now", change.now)) if side is not None]
    quotes = "\n".join(f"{name} ({side.at:%Y-%m-%d}, {side.source}): {side.quote}" for name, side in sides)
    return (
        f"<entry><id>urn:llm-platform:watch:{escape(watch.id)}:{change.number}</id>"
        f"<title>{_TITLES[change.kind]}: {_clean(change.fact)}</title><updated>{_format_time(change.at)}</updated>"
        f'<link href={_address(sides[-1][1].source)}/><content type="text">{_clean(quotes)}</content></entry>'
    )


def _render_pause(watch: Watch, at: datetime, address: str) -> str:
    why = "\n".join(filter(None, (watch.problem, watch.remedy)))
    return (
        f"<entry><id>urn:llm-platform:watch:{escape(watch.id)}:paused:{watch.runs}</id><title>Paused</title>"
        f"<updated>{_format_time(at)}</updated><link href={quoteattr(address)}/>"
        f'<content type="text">{_clean(why)}</content></entry>'
    )


def _address(source: str) -> str:
    """Return the address of a source as an attribute. The name of a document may have spaces."""
    return quoteattr(quote(source, safe=_OF_ADDRESSES, errors="replace"))


def _clean(text: str) -> str:
    """Return the text for XML. Every kind of space is a space there, so that words stay apart."""
    spaced = (" " if char.isspace() and char not in "\t\n" else char for char in text)
    return escape("".join(filter(_is_of_xml, spaced)))


def _is_of_xml(char: str) -> bool:
    """Return whether the character is safe in XML: no control character but tab and newline, surrogate or non-character."""
    is_non_character = ord(char) & 0xFFFE == 0xFFFE or "\ufdd0" <= char <= "\ufdef"
    return char in "\t\n" or not (is_non_character or unicodedata.category(char) in ("Cc", "Cs"))


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
