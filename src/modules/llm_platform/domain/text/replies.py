"""Recognise a sentence that begins with a yes or a no, as the answers of a list of questions do."""

import re
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.tokens import fold

MAX_MARKS_BEFORE: Final = 8  # punctuation and markup before the first word: `**` and a line break before `No.`
_SPACES: Final = r"[^\S\n]{0,3}"


def _list_words(*names: str) -> str:
    return "|".join(map(re.escape, (word for name in names for word in load_data("replies")[name].split())))


@cache
def _compile_replies() -> re.Pattern[str]:
    words = "|".join((*map(re.escape, load_data("replies")["phrases"]), _list_words("yes", "no")))
    return re.compile(
        rf"\W{{0,{MAX_MARKS_BEFORE}}}(?:(?:{_list_words('reply_labels')})\W{{0,3}}[:：.]\W{{0,4}})?"
        rf"(?:(?P<word>{words})(?:{_SPACES}[.,;:!–—]|\s+[-–—]\s|\s*\Z)"
        rf"|(?P<unspaced>{_list_words('unspaced_yes', 'unspaced_no')})(?:[。，、；：！,.;!]|\s*\Z))",
        re.IGNORECASE,
    )


@cache
def _compile_question_label() -> re.Pattern[str]:
    return re.compile(rf"\A(?:{_list_words('question_labels')})\s?[:：.]\s*", re.IGNORECASE)


def strip_question_label(question: str) -> str:
    """Return the question without a label: `Are dogs allowed?` for `Q: Are dogs allowed?`"""
    return _compile_question_label().sub("", question)


def is_reply(sentence: str) -> bool:
    """Return whether the sentence begins with a yes or a no: `A: No, only on Mondays.`, but not `No dogs are allowed.`"""
    return _compile_replies().match(sentence) is not None


def is_yes(sentence: str) -> bool:
    """Return whether the sentence begins with a yes."""
    found = _compile_replies().match(sentence)
    said = fold(found["word"] or found["unspaced"]) if found else ""
    return said in load_words("replies", "yes") or said in load_words("replies", "unspaced_yes")


def is_bare_reply(sentence: str) -> bool:
    """Return whether the sentence is a yes or a no and nothing else."""
    found = _compile_replies().match(sentence)
    return found is not None and not any(map(str.isalnum, sentence[found.end() :]))
