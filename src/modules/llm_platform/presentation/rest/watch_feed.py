"""The changes of a watched question as an Atom feed (RFC 4287)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from modules.llm_platform.domain.dtos.watch_dtos import ChangeKind, FoundChange, Watch

ATOM_TYPE: Final = "application/atom+xml"
_TITLES: Final[dict[ChangeKind, str]] = {
    "changed": "Changed",
    "new": "New",
    "gone": "Gone",
    "disputed": "Disputed",
}


def render_feed(watch: Watch, changes: Sequence[FoundChange], address: str) -> str:
    """Return the feed of a watch at its address, with the changes in the given order, newest first.

    An entry keeps its id, so a reader shows each change once.
    """
    updated = max((change.at for change in changes), default=watch.created_at)
    entries = "".join(_render_entry(watch, change) for change in changes)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
        f"<id>urn:llm-platform:watch:{escape(watch.id)}</id><title>{_clean(watch.query)}</title>"
        f"<updated>{_time(updated)}</updated><author><name>llm-platform</name></author>"
        f'<link rel="self" href={quoteattr(address)}/>{entries}</feed>\n'
    )


def _render_entry(watch: Watch, found: FoundChange) -> str:
    change = found.change
    sides = [(name, side) for name, side in (("Before", change.was), ("Now", change.now)) if side is not None]
    quotes = "\n".join(f"{name} ({side.at:%Y-%m-%d}, {side.source}): {side.quote}" for name, side in sides)
    return (
        f"<entry><id>urn:llm-platform:watch:{escape(watch.id)}:{found.number}</id>"
        f"<title>{_TITLES[change.kind]}: {_clean(change.fact)}</title><updated>{_time(found.at)}</updated>"
        f'<link href={quoteattr(sides[-1][1].source)}/><content type="text">{_clean(quotes)}</content></entry>'
    )


def _clean(text: str) -> str:
    """Return the text for XML, which takes no control characters but blanks."""
    return escape("".join(char for char in text if char.isprintable() or char in "\t\n"))


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
