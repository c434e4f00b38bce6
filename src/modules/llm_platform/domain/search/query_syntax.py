"""Find the search syntax in a query that the reader did not write.

Models read pages and earlier answers, which may contain orders. A query that such an order wrote must neither choose what is
found (`site:evil.example`, `-guardian`, `!g`) nor carry the reader's words to an address (`evil.dev/?d=…`). Every query that a
model, an engine or a store gives is checked here before it is searched for or offered to the reader.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# A query is compared in pieces without white space and East Asian script, which is written without spaces.
_PIECE = re.compile(r"[^\s\u3000-\u303f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_IDEOGRAPHIC_STOP = re.compile(r"(?<=[a-z0-9])\u3002(?=[a-z0-9])")  # a browser reads it as the dot of a host
_OUTSIDE: Final = "\"'“”„«»‘’()[]{}<>,;.?"
_POSSESSIVE = re.compile(r"['’]s$")

_HOST: Final = r"(?:[\w-]{1,63}\.){1,8}"
# Names that end like code or a file (`node.js`, `main.py`, `README.md`) are not addresses unless a path follows them.
_BARE_TLDS: Final = (
    "com|net|org|info|biz|xyz|top|site|online|club|shop|store|app|dev|page|pro|live|link|click|space|website|tech|cloud|blog"
    "|io|co|me|tv|to|ru|cn|de|uk|eu|fr|nl|it|es|pl|br|in|jp|kr|ch|at|us|ca|au|su|ua|example|test|onion"
)
# Names that look like hosts.
_PRODUCTS: Final = r"(?!(?:(?:asp|ado|vb|ml)\.net|(?:socket|draw)\.io)(?![\w/:#\\-]|[.?]\w))"
_SYNTAX: Final = (
    re.compile(r"[a-z][a-z0-9+.-]{0,20}://|\bwww\d?\."),
    re.compile(
        rf"{_HOST}(?!js\b)[^\W\d_][\w-]{{1,62}}\.?(?::\d|[/#\\]|\?[^\W_])"
    ),  # no question mark at the end: `main.py?`
    re.compile(rf"(?<![\w.-]){_PRODUCTS}{_HOST}(?:{_BARE_TLDS}|xn--[\w-]{{1,59}})(?![\w-]|\.\w)"),
    re.compile(rf"@{_HOST}[^\W\d_]{{2,63}}"),
    re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?::\d|[/?#])"),
    # `site:`, `inurl:`, `host:80`, but not German's Lehrer:innen
    re.compile(r"(?<![^\W_])[a-z]{2,}:(?!innen(?![^\W_])|(?<=er:)in(?![^\W_]))(?=[^\s:/,;.!?)])"),
    re.compile(r"^[\"'(]*(?:!{1,2}[\w!]|:[a-z]|-[^\W\d_\-]|-[\"'(]|\\)"),  # `!g`, `:en`, `-word`, `\first`
    re.compile(r"^[a-z]{1,2}!$"),  # `g!`
)


def has_foreign_syntax(query: str, written: Iterable[str]) -> bool:
    """Return whether the query has an address, a search operator or a bang that no text written by the reader has."""
    used = {_key(piece) for piece in _pieces(query) if any(pattern.search(piece) for pattern in _SYNTAX)}
    return bool(used) and not used <= {key for text in written for piece in _pieces(text) for key in _keys(piece)}


def _pieces(text: str) -> list[str]:
    visible = _INVISIBLE.sub("", text)
    # Full-width letters and dots make an address; a full-width colon or exclamation mark is punctuation.
    folded = "".join(char if char in "：！？" else unicodedata.normalize("NFKC", char) for char in visible).casefold()
    return _PIECE.findall(_IDEOGRAPHIC_STOP.sub(".", folded))


def _keys(piece: str) -> tuple[str, str]:
    """Return the piece, and the host if it is an address: a query may name the host of an address that the reader wrote."""
    key = _key(piece)
    host = re.split(r"[/?#]", key.partition("://")[2] or key, maxsplit=1)[0]
    return key, host.removeprefix("www.")


def _key(piece: str) -> str:
    return _POSSESSIVE.sub("", piece.strip(_OUTSIDE))
