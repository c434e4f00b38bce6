"""The names of things in the store: a topic by its question, an entry by all that it depends on."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Set
from datetime import date
from pathlib import PurePath

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.store_dtos import Topic

SLUG_CHARS = 48  # four bytes each at most, and a name of a file has 255 at most
TOPIC_HASH_CHARS = 10
KEY_CHARS = 32

_MAX_NAME_BYTES = 4 * SLUG_CHARS + 1 + TOPIC_HASH_CHARS
_NAME = re.compile(r"[^\x00-,./:-@\[-^`{-\xa0]+")  # of ASCII: letters, digits, `-` and `_`
_KEY = re.compile(r"[0-9a-z_-]{1,64}")  # small letters: some file systems do not tell them from capitals


def topic_of(query: str) -> Topic:
    """The topic of a question; one that differs in case and blanks only is the same."""
    folded = " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", query).casefold()).split())
    digest = hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()[:TOPIC_HASH_CHARS]
    return Topic(name=f"{_slug(folded) or 'topic'}-{digest}", query=query)


def _slug(text: str) -> str:
    """The letters and digits of a text, marks that belong to them included, with `-` for all that is between them."""
    kept: list[str] = []
    for char in text:
        kind = unicodedata.category(char)[0]
        if kind in "LN" or (kind == "M" and kept and kept[-1] != "-"):
            kept.append(char)
        elif kept and kept[-1] != "-":
            kept.append("-")
        if len(kept) == SLUG_CHARS:
            break
    return "".join(kept).strip("-")


def is_topic_name(name: str) -> bool:
    """Whether a topic may be called that: letters, digits, marks, `-` and `_`. No way leads out of a folder by it."""
    if not _NAME.fullmatch(name) or len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return False
    return name.isascii() or all(char in "-_" or unicodedata.category(char)[0] in "LNM" for char in name)


def is_entry_key(key: str) -> bool:
    """Whether an entry may be called that."""
    return _KEY.fullmatch(key) is not None


def store_key(*, version: str, model: str, language: str, **inputs: object) -> str:
    """The key of an entry: its prompt's version, the model that made it, the language, and what went in (as JSON).

    Whatever of these changes, the old entry does not serve. TypeError for an input that has no JSON of its own.
    """
    parts = {"version": version, "model": model, "language": language, "inputs": inputs}
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_CHARS]


def _plain(value: object) -> object:
    """What JSON does not know, the same in every process: a set in order, never an address in memory."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Set):
        return sorted(map(str, value))
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (date, PurePath)):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a key")
