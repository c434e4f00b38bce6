"""Find the phrases by which a text supposes, proposes, denies or decides something, in the language of the text.

The phrases are in `unasserted.json`, which has those of a few languages. A text in another one is read like English.
"""

import re
from functools import cache
from typing import Literal

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE

PhraseKind = Literal["suppositions", "denials", "proposals", "requests", "acceptances", "rejections"]


@cache
def compile_phrases(language: str | None, *kinds: PhraseKind) -> re.Pattern[str]:
    """Return a pattern that finds the phrases of these kinds in a text in lower case."""
    data = load_data("unasserted")
    phrases = (data[kind].get(language or DEFAULT_LANGUAGE, data[kind][DEFAULT_LANGUAGE]) for kind in kinds)
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b")
