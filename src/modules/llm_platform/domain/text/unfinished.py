"""Recognise a text of a model that ends before it has said anything: `The password is`."""

from typing import Final

from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.replies import is_reply

MIN_WORDS: Final = 3  # "It is" is no such text
_ENDS: Final = (".", "!", "?", "。")


def lacks_end(text: str) -> bool:
    """Return whether a text is one sentence that ends in a form of "to be". `Yes, it is` says something."""
    words = text.casefold().rstrip(" :").split()
    if len(words) < MIN_WORDS or is_reply(text) or any(word.endswith(_ENDS) for word in words):
        return False
    return words[-1] in load_words("unfinished", "being") and words[-2] not in load_words("unfinished", "pronouns")
