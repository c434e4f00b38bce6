"""Ranges of Unicode letters by script, for use inside the brackets of a regular expression."""

from typing import Final

SCRIPTS: Final = {
    "kana": "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "han": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3005",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7af",
    "cyrillic": "\u0400-\u052f",
    "arabic": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff",
    "he": "\u0590-\u05ff",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "th": "\u0e00-\u0e7f",
    "devanagari": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "km": "\u1780-\u17ff",
    "ka": "\u10a0-\u10ff",
    "hy": "\u0530-\u058f",
    "am": "\u1200-\u137f",
    "latin": "A-Za-zªº\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff",
}
# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Han.
WITHOUT_BLANKS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Scripts whose words are compared as bigrams: Hangul is one of them, as it joins particles to its words.
UNSPACED: Final = f"{WITHOUT_BLANKS}\uac00-\ud7af"
# Signs that belong to the letter before them, which `\w` leaves out: accents, points, Indic vowels (not the danda).
MARKS: Final = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0dff"


def replace_surrogates(text: str) -> str:
    """Return the text with a question mark for each lone surrogate, which UTF-8 cannot encode.

    File names that are not UTF-8 have such.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
