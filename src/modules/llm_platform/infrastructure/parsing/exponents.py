"""Superscript numbers after a number, which are exponents or footnote marks. As plain digits, 10³ would become 103."""

import re
from typing import Final

EXPONENT: Final = r"[+\u2212-]?[0-9]{1,4}"

_RAISED = str.maketrans("0123456789+-\u2212", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
_EXPONENT = re.compile(EXPONENT)


def raise_exponent(before: str, text: str) -> str:
    """Return a raised `text` in raised digits if it is a number after a digit, else as it is."""
    exponent = text.strip()
    is_exponent = before[-1:].isdecimal() and _EXPONENT.fullmatch(exponent)
    return exponent.translate(_RAISED) if is_exponent else text
