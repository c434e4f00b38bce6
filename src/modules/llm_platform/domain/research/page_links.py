"""Decide which pages keep their links, and choose the links of read pages that may answer open questions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final
from urllib.parse import urldefrag, urljoin

from modules.llm_platform.domain.dtos.page_dtos import Page, PageLink
from modules.llm_platform.domain.evidence.ledger import LedgerRow
from modules.llm_platform.domain.text.tokens import normalize, split_words
from modules.llm_platform.domain.urls.canonical_url import admits_host, canonical_url, get_host, is_web_url

MAX_LINK_WORDS: Final = 12  # a longer text is not a name
MIN_LINK_CHARS: Final = 3
MIN_OPEN_WORDS: Final = 2  # a link without a searched name needs this many open words, or all if fewer

_KEEPS_LINKS: ContextVar[bool] = ContextVar("keeps_links", default=False)


@contextmanager
def keep_links() -> Iterator[None]:
    """Let pages that are read within keep their links. Tasks that start within inherit it."""
    token = _KEEPS_LINKS.set(True)
    try:
        yield
    finally:
        _KEEPS_LINKS.reset(token)


def keeps_links() -> bool:
    """Return whether pages keep their links in this context. A run that follows no links saves the time to collect them."""
    return _KEEPS_LINKS.get()


@dataclass(frozen=True, slots=True)
class OpenWords:
    """What an unanswered row of the ledger still needs.

    - `words` are the words of the row that its best quotes do not match.
    - `names` maps each normalized name in the queries of the row to its value.
    """

    words: frozenset[str]
    names: dict[str, float]

    @classmethod
    def of(cls, rows: Iterable[LedgerRow]) -> list[OpenWords]:
        return [
            cls(
                frozenset(read.row.words) - read.matched_words,
                {normalize(query.name): query.value for query in read.queries if query.name},
            )
            for read in rows
            if read.row.state != "answered"
        ]

    def value(self, normalized: str, found_words: Sequence[str]) -> float:
        """Return how well the text of a link fits; 0 if it has no searched name and too few open words.

        `normalized` and `found_words` are the text, normalized and split into words.
        """
        named = max((value for name, value in self.names.items() if name.strip() and name in normalized), default=0.0)
        found = len(self.words.intersection(found_words))
        is_named = found and found >= min(MIN_OPEN_WORDS, len(self.words))
        return named + (found / len(self.words) if is_named else 0.0)


def choose_links(
    pages: Iterable[Page], rows: Iterable[LedgerRow], known: Collection[str], domains: Sequence[str], limit: int
) -> list[PageLink]:
    """Return the links of read pages whose texts have a searched name or open words of a row, best first, at most `limit`.

    Each address is returned once. `known` are the canonical addresses that were found already, and `domains` are the domain
    filters of the request.
    """
    lacking = OpenWords.of(rows)
    valued: dict[str, tuple[float, PageLink]] = {}
    for source, href, text in ((page, *link) for page in pages for link in page.links):
        if len(text) < MIN_LINK_CHARS or len(text.split()) > MAX_LINK_WORDS:
            continue
        normalized, found_words = normalize(text), split_words(text)
        value = max((row.value(normalized, found_words) for row in lacking), default=0.0)
        url = _resolve(source, href) if value else None
        if url is None or (address := canonical_url(url)) in known or not admits_host(get_host(url), domains):
            continue
        if address not in valued or value > valued[address][0]:
            valued[address] = (value, PageLink(url=url, text=text))
    return [link for _, link in sorted(valued.values(), key=lambda found: -found[0])[:limit]]


def _resolve(page: Page, href: str) -> str | None:
    """Return the absolute address of a link, without its fragment; None if it is not a web address."""
    try:
        url = urldefrag(urljoin(page.link_base or page.url, href.strip())).url
    except ValueError:
        return None
    return url if is_web_url(url) else None
