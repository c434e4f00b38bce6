"""Find the addresses that a text writes out: as the target of a link, bare, or as the number of a DOI or of arXiv."""

import re
from collections.abc import Iterator
from typing import Final

from modules.llm_platform.domain.markdown.addresses import read_address

# The patterns of a Markdown link: its text, its target, and both with an optional title.
LINK_TEXT: Final = r"(?:[^\[\]\n\\]|\\.|\[[^\[\]\n]{0,40}\]){0,300}"
LINK_URL: Final = r"(?:<[^<>\n]{1,2000}>|[^\s()<>]{1,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,500}){0,8})"
LINK: Final = rf"""\[{LINK_TEXT}\]\({LINK_URL}(?:[ ]+(?:"[^"\n]{{0,300}}"|'[^'\n]{{0,300}}'))?\)"""
ADDRESS_START: Final = re.compile(r"https?(?=:)|(?<![\w.@/])www\.", re.I)

_LINK = re.compile(rf"\[({LINK_TEXT})\]\(({LINK_URL})")
_DOI = re.compile(r"\bdoi:\s*(10\.\d{4,9}/[^\s\"<>\])]{1,200})", re.I)
_ARXIV = re.compile(r"\barxiv:\s*(\d{4}\.\d{4,5})", re.I)


def find_url(text: str) -> str:
    """Return the first address in a text, or the address of a DOI or an arXiv number; empty without one."""
    if link := _LINK.search(text):
        target = link[2].strip("<>")
        if ADDRESS_START.match(target):
            return add_scheme(target)
    for found in find_addresses(text):
        return add_scheme(text[slice(*found)])
    if doi := _DOI.search(text):
        return f"https://doi.org/{doi[1].rstrip('.,;')}"
    arxiv = _ARXIV.search(text)
    return f"https://arxiv.org/abs/{arxiv[1]}" if arxiv else ""


def find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each address that is written out in a text."""
    at = 0
    while found := ADDRESS_START.search(text, at):
        sign = found.start() if found[0].lower() == "www." else found.end()
        span = read_address(text, sign, found.start())
        if span:
            yield span
        at = max(found.end(), span[1] if span else 0)


def add_scheme(url: str) -> str:
    return f"https://{url}" if url[:4].lower() == "www." else url


def is_address_alone(text: str) -> bool:
    """Return whether a line is a single address or link."""
    bare = text.strip().strip("<>")
    if link := re.fullmatch(LINK, bare):
        return bool(find_url(link[0]))
    span = next(find_addresses(bare), None)
    return span is not None and span[0] == 0 and len(bare) - span[1] <= 1
