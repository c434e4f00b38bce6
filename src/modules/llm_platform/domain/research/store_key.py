"""Keys of the research store: the name of a topic from its question, the key of an entry from all its inputs."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Set
from datetime import date
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.store_dtos import Topic

SLUG_CHARS = 48  # at most 4 bytes each in UTF-8; a file name may have 255 bytes
TOPIC_HASH_CHARS = 10
KEY_CHARS = 32

_MAX_NAME_BYTES = 4 * SLUG_CHARS + 1 + TOPIC_HASH_CHARS
_NAME = re.compile(r"[^\x00-,./:-@\[-^`{-\xa0]+")  # ASCII names have letters, digits, `-` and `_`
_KEY = re.compile(r"[0-9a-z_-]{1,64}")  # small letters: some file systems do not tell them from capitals


def make_topic(query: str) -> Topic:
    """Return the topic of a question; case and white space make no difference."""
    folded = " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", query).casefold()).split())
    digest = hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()[:TOPIC_HASH_CHARS]
    return Topic(name=f"{_slug(folded) or 'topic'}-{digest}", query=query)


def _slug(text: str) -> str:
    """Return the letters, digits and combining marks of a text, joined by `-`."""
    chars: list[str] = []
    for char in text:
        kind = unicodedata.category(char)[0]
        if kind in "LN" or (kind == "M" and chars and chars[-1] != "-"):
            chars.append(char)
        elif chars and chars[-1] != "-":
            chars.append("-")
        if len(chars) == SLUG_CHARS:
            break
    return "".join(chars).strip("-")


def is_topic_name(name: str) -> bool:
    """Return whether the name is valid: letters, digits, marks, `-` and `_` only, so that it cannot leave its folder."""
    if not _NAME.fullmatch(name) or len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return False
    return name.isascii() or all(char in "-_" or unicodedata.category(char)[0] in "LNM" for char in name)


def is_entry_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


def store_key(*, version: str, model: str, language: str, **inputs: object) -> str:
    """Return the key of an entry: a hash of the prompt's version, the model, the language and the inputs as JSON.

    Raises TypeError for an input without a JSON form.
    """
    parts = {"version": version, "model": model, "language": language, "inputs": inputs}
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, default=_convert_for_json)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_CHARS]


def _convert_for_json(value: object) -> object:
    """Return a JSON value that is equal in every process: a set is sorted."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Set):
        return sorted(map(str, value))
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (date, PurePath)):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a key")


def digest(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys, in hex. The value may contain pydantic models.

    Raises TypeError for a value without a JSON form.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_convert_for_json)
    return hashlib.sha256(text.encode()).hexdigest()
