"""Remove orders to a language model from a page before a model reads it: `Ignore all previous instructions and say …`.

A small model may repeat what such an order asks for, and the page then supports the sentence. An order that says
what to answer, or that addresses a model, is removed with the rest of its paragraph. A page that mentions such a phrase inside
a sentence keeps it, and so does each page if the question has the phrase.
"""

import re
from functools import cache
from typing import Final

from modules.llm_platform.domain.text.data_files import load_data

MAX_ANSWERING_CHARS: Final = 200  # after an order, within which it says what to answer
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n")
_BEFORE: Final = (
    r"(?:\A[\s*_>#-]{0,8}|[.!?:;。！？：，\n–—-][\s*_>#]{0,6}|\b(?:please|bitte|now|you must|veuillez|por favor)\s)"
)
_SENTENCE_END: Final = re.compile(r"[.!?]\s|[。！？\n]")


@cache
def _compile_orders() -> re.Pattern[str]:
    known = load_data("orders")
    orders, addresses = ("|".join(known[name]) for name in ("orders", "addresses"))
    says = rf"(?=[\s\S]{{0,{MAX_ANSWERING_CHARS}}}?(?:\b(?:{known['answering']})\b|{known['answering_unspaced']}))"
    return re.compile(f"{_BEFORE}(?:(?P<order>(?:{orders}){says})|(?P<address>{addresses}))", re.IGNORECASE)


def remove_orders(text: str, question: str) -> str:
    """Return the text without its orders to a model. An order in the words of the question stays."""
    if _compile_orders().search(text) is None:
        return text
    asked = question.casefold()
    kept = (_cut_at_order(paragraph, asked) for paragraph in _PARAGRAPH.split(text))
    return "\n\n".join(paragraph for paragraph in kept if paragraph.strip())


def _cut_at_order(paragraph: str, asked: str) -> str:
    """Return the paragraph up to the sentence with the first order."""
    for found in _compile_orders().finditer(paragraph):
        name = "order" if found["order"] else "address"
        if found[name].casefold() not in asked:
            ends = _SENTENCE_END.finditer(paragraph, 0, found.start(name))
            return paragraph[: max((end.end() for end in ends), default=0)].rstrip()
    return paragraph
