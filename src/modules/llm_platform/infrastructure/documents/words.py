"""What an answer says about a folder's bad files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.redaction import Redactor

WORDS_SHOWN: Final = 20  # files left out that an answer names one by one


def words_about(name: str, words: Mapping[str, str], redactor: Redactor) -> Iterator[Degraded]:
    """A word about each of the first ones, by place, and how many more there are."""
    for place in sorted(words)[:WORDS_SHOWN]:
        shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in redactor.text(place))
        yield Degraded(component=f"{name}/{shown}", reason=words[place])
    if len(words) > WORDS_SHOWN:
        yield Degraded(component=name, reason=f"and {len(words) - WORDS_SHOWN} more files")
