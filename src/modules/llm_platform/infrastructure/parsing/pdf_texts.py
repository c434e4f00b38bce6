"""Divide the text of a PDF's line into the parts that were shown apart."""

import re
from collections.abc import Iterable, Iterator, Sequence

LIGATURE = re.compile("ffi|ffl|ff|fi|fl")
ONE_LETTER = "\ufffd"  # stands for a ligature


def divide_text(text: str, counts: Sequence[int]) -> list[str]:
    """Return the parts of a text, given the number of codes in each, or only the whole text if the numbers do not fit.

    A code is a letter, or a ligature of two or three. Some fonts have a code for the blank, others leave a gap.
    """
    if len(counts) < 2:
        return [text]
    ligatures = LIGATURE.findall(text)
    for written in (text, LIGATURE.sub(ONE_LETTER, text)) if ligatures else (text,):
        for skips_blanks in (False, True):
            ends = list(_find_ends(written, counts, skips_blanks=skips_blanks))
            if len(ends) == len(counts) and ends[-1] >= len(written):
                parts = (written[begin:end] for begin, end in zip([0, *ends], ends, strict=False))
                return list(_spell_ligatures(parts, ligatures if written != text else ()))
    return [text]


def _spell_ligatures(parts: Iterable[str], ligatures: Sequence[str]) -> Iterator[str]:
    spelled = iter(ligatures)
    for part in parts:
        yield "".join(next(spelled) if letter == ONE_LETTER else letter for letter in part).strip()


def _find_ends(text: str, counts: Sequence[int], *, skips_blanks: bool) -> Iterator[int]:
    """Yield the ends of the parts, as long as each of them ends at a space."""
    at = 0
    for count in counts:
        left = count
        while left > 0 and at < len(text):
            left -= not (skips_blanks and text[at] == " ")
            at += 1
        if left or (at < len(text) and text[at] != " " and text[at - 1] != " "):
            return
        at += at < len(text) and text[at] == " " and (skips_blanks or text[at - 1] != " ")
        yield at
