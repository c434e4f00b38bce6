"""Untrusted text as a part of Markdown."""

import re
from typing import Final
from urllib.parse import quote

URL_SAFE: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "<>\\")

_INLINE_SYNTAX = re.compile(r"([\\`*_\[\]<>#|~&])")
_BLOCK_SYNTAX = re.compile(r"^(\d*)([-+=.)])")  # a list or an underlined heading


def escape_line(text: str) -> str:
    """Return the text on one line, with Markdown syntax escaped."""
    line = _INLINE_SYNTAX.sub(r"\\\1", " ".join(text.split()))
    return _BLOCK_SYNTAX.sub(r"\1\\\2", line)


def code_span(text: str) -> str:
    """Return the text as inline code, fenced with more backticks than its longest run."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def link_target(url: str) -> str:
    """Return the address between angle brackets: an autolink, or the target of a link."""
    return f"<{quote(url, safe=URL_SAFE)}>"
