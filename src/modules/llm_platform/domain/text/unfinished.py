"""Recognise a text of a model that ends before it has said anything: `The password is [3]`."""

import re
from typing import Final

from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.replies import is_reply

MIN_WORDS: Final = 3  # "It is" may answer
MAX_END_CHARS: Final = 120  # searched for markers
_MARKERS_AT_END: Final = re.compile(r"(?:\s{0,3}\[\d{1,9}\]){1,9}[\s.:*_]{0,8}\Z")


def is_unfinished(text: str) -> bool:
    """Return whether a text is one main clause in which markers follow a form of "to be".

    `Yes, the pool is [1]`, `I know how old he is [1]` and `It is free, weil heute Sonntag ist [1]` are finished.
    """
    found = _MARKERS_AT_END.search(text, max(0, len(text) - MAX_END_CHARS))
    said = text[: found.start()].strip() if found else ""
    words = said.casefold().split()
    if len(words) < MIN_WORDS or not said[-1].isalpha() or any(sign in said for sign in ",.;!?\n") or is_reply(said):
        return False
    is_main_clause = load_words("unfinished", "joining").isdisjoint(words)
    is_open = words[-1] in load_words("unfinished", "being") and words[-2] not in load_words("unfinished", "pronouns")
    return is_main_clause and is_open
