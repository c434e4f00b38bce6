"""Find the addresses in a text, and recognise the addresses of the sources."""

import re
from collections.abc import Iterable

from modules.llm_platform.domain.urls.canonical_url import canonical_url

MAX_SCHEME_CHARS = 32  # longest scheme before `://`
MAX_NAME_CHARS = 64  # longest name before `@`, and longest host before its last label

# An address ends at a space, at the end of a Markdown link or table cell, and at CJK punctuation.
_ENDS = r"\s<>\"`|\[\]\\^{}，。、；：？！（）「」『』【】《》…“”"
_REST = re.compile(rf"(?:\[[0-9a-fA-F:.]{{2,40}}\])?[^{_ENDS}]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+")
_SCHEME_WITHOUT_SLASHES = re.compile(
    r"(?<![A-Za-z0-9])(?:javascript|vbscript|data|mailto|blob|xmpp|file)\Z", re.IGNORECASE
)
_LAST_LETTERS = frozenset("tTaAoObBpPeE")  # the last letters of these schemes
_NAME = re.compile(r"[\w.+%-]+\Z")
_LABELS = re.compile(r"[\w-]+(?:\.[\w-]+)*\Z")
_TOP_LEVEL = re.compile(r"\.[A-Za-z]{2,24}(?::\d{1,5})?/(?=[\w~%])")
_TRAILING = ".,;:!?'’*_~"
_SAFE_TARGET = re.compile(r"[^\s<>\"'`|\\\[\]\x00-\x20\x7f]+\Z")


class KnownAddresses:
    """The addresses of the sources, the only ones that may be links."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._urls = tuple(urls)
        self._by_key: dict[str, str] | None = None

    def exact(self, address: str) -> str | None:
        """Return the address of the source for the same page, exactly as the source has it; None for any other."""
        if self._by_key is None:
            safe = [url for url in self._urls if _SAFE_TARGET.match(url)]
            self._by_key = {canonical_url(url): url for url in reversed(safe)}
            self._by_key.update({url: url for url in safe})
        known = self._by_key.get(address)
        return known if known is not None else self._by_key.get(canonical_url(address))


def format_target(url: str) -> str:
    """Return the address as the target of a Markdown link."""
    return f"<{url}>" if "(" in url or ")" in url else url


def read_address(text: str, at: int, floor: int) -> tuple[int, int] | None:
    """Return the start and end of the address with the sign at `at` (`:`, `//`, `www.`, `@` or `.`); None without one.

    The address does not begin before `floor`.
    """
    sign = text[at]
    if sign == ":":
        return _read_after_colon(text, at, floor)
    if sign == "/":
        return _extend(text, at, at + 2) if _HOST.match(text, at + 2) else None
    if sign == "@":
        name = _NAME.search(text, max(floor, at - MAX_NAME_CHARS), at)
        host = _HOST.match(text, at + 1)
        return (name.start(), host.end()) if name and host else None
    if sign == ".":
        labels = _LABELS.search(text, max(floor, at - MAX_NAME_CHARS), at) if _TOP_LEVEL.match(text, at) else None
        return _extend(text, labels.start(), at) if labels else None
    return _extend(text, at, at + 4) if at == 0 or not text[at - 1].isalnum() else None


def _read_after_colon(text: str, at: int, floor: int) -> tuple[int, int] | None:
    if text.startswith("//", at + 1):
        scheme = _SCHEME.search(text, max(floor, at - MAX_SCHEME_CHARS), at)
        return _extend(text, scheme.start() if scheme else at + 1, at + 3)
    if at == floor or text[at - 1] not in _LAST_LETTERS:
        return None
    scheme = _SCHEME_WITHOUT_SLASHES.search(text, max(floor, at - MAX_SCHEME_CHARS), at)
    return _extend(text, scheme.start(), at + 1) if scheme else None


def _extend(text: str, start: int, at: int) -> tuple[int, int] | None:
    """Extend to the end of the address, without the punctuation of the sentence; None where nothing follows."""
    end = _REST.match(text, at).end()  # type: ignore[union-attr]  # matches nothing too
    opened = text.count("(", start, end)
    closed = text.count(")", start, end)
    while end > at:
        last = text[end - 1]
        if last == ")" and closed > opened:
            closed -= 1
        elif last not in _TRAILING:
            break
        end -= 1
    return (start, end) if end > at else None
