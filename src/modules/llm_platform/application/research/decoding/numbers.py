"""A mark between nothing and ten, however a model writes it down."""

from __future__ import annotations

import math
import re
from typing import Final

TOP: Final = 10.0  # the scale that fractions and percents are brought to
MAX_CHARS: Final = 80  # a longer text is no number

_NUMBER = r"[-+−]?\d{1,15}(?:[.,]\d{1,15})?"
_WRITTEN = re.compile(
    rf"(?P<mark>{_NUMBER})\s*(?:(?:/|из|out\s+of|of|von|sur|de)\s*(?P<top>{_NUMBER})|(?P<percent>%))?"
    r"\s*(?:points?|pts?|баллов|балла|балл|Punkte?|分)?\s*(?:\(.*\)|[-–—]\s.*)?",
    re.I | re.S,
)
_AROUND = " \t\r\n\"'“”„«»`*_~≈=.:;,!"

_WORDS: Final = {
    word: float(number)
    for number, names in enumerate(
        (
            "zero none нуль ноль null zéro cero 零",
            "one один одна eins un uno 一",
            "two два две zwei deux dos 二",
            "three три drei trois tres 三",
            "four четыре vier quatre cuatro 四",
            "five пять fünf cinq cinco 五",
            "six шесть sechs seis 六",
            "seven семь sieben sept siete 七",
            "eight восемь acht huit ocho 八",
            "nine девять neun neuf nueve 九",
            "ten десять zehn dix diez 十",
        )
    )
    for word in names.split()
    if word not in {"none", "null"}  # no answer rather than the worst
}


def read_number(value: object) -> float | None:
    """7, "7", "7,5", "8/10", "80%" (8.0), "4 of 5" (8.0), "seven", "семь": the number, else None; never NaN or infinite.

    A fraction and a percentage are brought to 0..10; a plain number is given as it is, out of range too.
    """
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _finite(value)


def _from_text(text: str) -> float | None:
    if len(text) > MAX_CHARS:
        return None
    bare = text.strip(_AROUND)
    named = _WORDS.get(bare.casefold())
    found = _WRITTEN.fullmatch(bare) if named is None else None
    if found is None:
        return named
    mark = _float(found["mark"])
    if found["percent"]:
        return mark / TOP
    top = _float(found["top"]) if found["top"] else TOP
    return mark * TOP / top if top > 0 else None


def _float(digits: str) -> float:
    return float(digits.replace(",", ".").replace("−", "-"))


def _finite(number: float) -> float | None:
    try:
        exact = float(number)
    except OverflowError:  # an integer of four hundred digits
        return None
    return exact if math.isfinite(exact) else None
