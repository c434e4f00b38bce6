"""Addresses in a text: where one begins and ends, and which of them are a source's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from modules.llm_platform.domain.canonical_url import canonical_url

MAX_SCHEME_CHARS = 32  # how far before `://` a scheme is looked for
MAX_NAME_CHARS = 64  # the same for the name before `@`, and the labels before the last of a host

# An address ends at a blank, at what ends a link or a table cell in Markdown, and at punctuation of CJK text.
_ENDS = r"\s<>\"`|\[\]\\^{}，。、；：？！（）「」『』【】《》…“”"
_REST = re.compile(rf"(?:\[[0-9a-fA-F:.]{{2,40}}\])?[^{_ENDS}]*")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+")
_SAYS_ITSELF = re.compile(r"(?<![A-Za-z0-9])(?:javascript|vbscript|data|mailto|blob|xmpp|file)\Z", re.IGNORECASE)
_LAST_LETTERS = frozenset("tTaAoObBpPeE")  # of the schemes that need no slashes
_NAME = re.compile(r"[\w.+%-]+\Z")
_LABELS = re.compile(r"[\w-]+(?:\.[\w-]+)*\Z")
_TOP_LEVEL = re.compile(r"\.[A-Za-z]{2,24}(?::\d{1,5})?/(?=[\w~%])")
_TRAILING = ".,;:!?'’*_~"
_SAFE_TARGET = re.compile(r"[^\s<>\"'`|\\\[\]\x00-\x20\x7f]+\Z")


class KnownAddresses:
    """The addresses of the sources: all others are kept from being links."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._urls = tuple(urls)
        self._by_key: dict[str, str] | None = None

    def exact(self, address: str) -> str | None:
        """The source's address that names the same page, exactly as the source has it; None for a stranger's."""
        if self._by_key is None:
            safe = [url for url in self._urls if _SAFE_TARGET.match(url)]
            self._by_key = {canonical_url(url): url for url in reversed(safe)}
            self._by_key.update({url: url for url in safe})
        known = self._by_key.get(address)
        return known if known is not None else self._by_key.get(canonical_url(address))


def as_target(url: str) -> str:
    """The address as the target of a Markdown link."""
    return f"<{url}>" if "(" in url or ")" in url else url


def address_at(text: str, at: int, floor: int) -> tuple[int, int] | None:
    """Start and end of the address whose tell-tale stands at `at`: `:`, `//`, `www.`, `@`, `.`; None where it is none.

    It begins nowhere before `floor`.
    """
    sign = text[at]
    if sign == ":":
        return _after_colon(text, at, floor)
    if sign == "/":
        return _whole(text, at, at + 2) if _HOST.match(text, at + 2) else None
    if sign == "@":
        return _mailbox(text, at, floor)
    if sign == ".":
        return _host_with_path(text, at, floor)
    return _whole(text, at, at + 4) if at == 0 or not text[at - 1].isalnum() else None


def _after_colon(text: str, at: int, floor: int) -> tuple[int, int] | None:
    if text.startswith("//", at + 1):
        scheme = _SCHEME.search(text, max(floor, at - MAX_SCHEME_CHARS), at)
        return _whole(text, scheme.start() if scheme else at + 1, at + 3)
    if at == floor or text[at - 1] not in _LAST_LETTERS:
        return None
    says_itself = _SAYS_ITSELF.search(text, max(floor, at - MAX_SCHEME_CHARS), at)
    return _whole(text, says_itself.start(), at + 1) if says_itself else None


def _mailbox(text: str, at: int, floor: int) -> tuple[int, int] | None:
    name = _NAME.search(text, max(floor, at - MAX_NAME_CHARS), at)
    host = _HOST.match(text, at + 1)
    return (name.start(), host.end()) if name and host else None


def _host_with_path(text: str, at: int, floor: int) -> tuple[int, int] | None:
    if not _TOP_LEVEL.match(text, at):
        return None
    labels = _LABELS.search(text, max(floor, at - MAX_NAME_CHARS), at)
    return _whole(text, labels.start(), at) if labels else None


def _whole(text: str, start: int, at: int) -> tuple[int, int] | None:
    """To the end of the address, without the punctuation of the sentence around it; None where nothing follows."""
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
