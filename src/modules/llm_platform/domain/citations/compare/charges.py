"""Compare "free of charge" with a price: "The freezer is free of charge" beside "The use of the freezer costs £5"."""

import re
from typing import Final

from modules.llm_platform.domain.citations.compare.mismatches import SpanPair
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any

_FREE: Final = re.compile(
    r"\b(?:free of charge|for free|(?:at )?no (?:extra )?(?:charge|cost)|costs? nothing"
    r"|(?:is|are|enter|in) free(?=[.,;]|$| for\b)|kostenlos|kostenfrei|gratis|umsonst|gratuite?s?|gratuitement)\b",
    re.IGNORECASE,
)
_AMOUNT: Final = r"(?!0\b)[0-9](?:[0-9.,]{0,12}[0-9])?"
_PRICE: Final = re.compile(
    rf"[€$£¥]\s?{_AMOUNT}|\b{_AMOUNT}\s?(?:€|(?:euros?|pounds?|dollars?|pence|cents?|francs?|franken)\b)", re.IGNORECASE
)


# The price is of another thing, of another case, or not charged.
_OTHER_CASE: Final = re.compile(
    r"[;:]\s|,\s|\b(?:but|and|except|after|then|unless|frei|free|nothing|no (?:entry |entrance )?fee|not charged|aber|und|außer"
    r"|nach|nichts|mais|et|sauf|après|rien|pero|y|salvo)\b|[€$£]\s?0\b|\b0\s?(?:€|euro)",
    re.IGNORECASE,
)


def compare_charges(claim: Claim, sentence: TextFacts) -> SpanPair | None:
    """Return the price of one text and the words of the other one that deny a price."""
    if _OTHER_CASE.search(sentence.text) or not _shares_words(claim, sentence):
        return None
    for mine, theirs in ((_FREE, _PRICE), (_PRICE, _FREE)):
        own, other = _find_only(mine, theirs, claim.text), _find_only(theirs, mine, sentence.text)
        if own is not None and other is not None:
            return own, other
    return None


def _find_only(wanted: re.Pattern[str], unwanted: re.Pattern[str], text: str) -> Span | None:
    found = wanted.search(text)
    return found.span() if found and not unwanted.search(text) else None


def _shares_words(claim: Claim, sentence: TextFacts) -> bool:
    """Return whether the sentence has all content words of the claim that name the thing: "parking" of "Parking is free"."""
    paying = load_words("contrasts", "paying")
    bare = _PRICE.sub(" ", _FREE.sub(" ", claim.text)).casefold()
    named = [word.key for word in claim.words if word.is_content and word.key in bare and word.key not in paying]
    return bool(named) and all(is_form_of_any(word, sentence.folded) for word in named)
