"""Recognise a sentence that begins with a yes or a no, as the answers of a list of questions do."""

import re
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data

MAX_MARKS_BEFORE: Final = 8  # punctuation and markup before the first word: `**\\nNo.`
_SPACES: Final = r"[^\S\n]{0,3}"


@cache
def _compile_replies() -> re.Pattern[str]:
    replies = load_data("replies")
    spaced, unspaced = ("|".join(map(re.escape, replies[name].split())) for name in ("words", "unspaced_words"))
    phrases = "|".join(map(re.escape, replies["phrases"]))
    return re.compile(
        rf"\W{{0,{MAX_MARKS_BEFORE}}}(?:(?:{phrases}|{spaced})(?:{_SPACES}[.,;:!–—]|\s+[-–—]\s|\s*\Z)"
        rf"|(?:{unspaced})(?:[。，、；：！,.;!]|\s*\Z))",
        re.IGNORECASE,
    )


def is_reply(sentence: str) -> bool:
    """Return whether the sentence begins with a yes or a no: `No, only on Mondays.`, but not `No dogs are allowed.`"""
    return _compile_replies().match(sentence) is not None


def is_bare_reply(sentence: str) -> bool:
    """Return whether the sentence is a yes or a no and nothing else."""
    found = _compile_replies().match(sentence)
    return found is not None and not any(map(str.isalnum, sentence[found.end() :]))
