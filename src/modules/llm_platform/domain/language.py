"""Which language a short text is in: by script first, then by function words; unsure is None.

The word lists are short on purpose. A question has ten words, three of which are function words: that is what tells
Dutch from German, and what a keyword search leaves out.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from modules.llm_platform.domain.function_words import FUNCTION_WORDS, LANGUAGE_NAMES
from modules.llm_platform.domain.text import words

LOOKED_AT = 2000  # characters: a page's language shows in its first paragraphs
DENSE_LETTER = 3  # one Han, Kana, Hangul or Thai letter says about as much as three of an alphabet
SCRIPT_SHARE = 0.5  # of the letters: the script decides alone
QUOTED_SHARE = 0.15  # of the letters: it decides when no function word of another script speaks against it
CLEAR_LEAD = 1.3  # times the evidence of the next language
ENOUGH = 0.5  # evidence: one function word that two languages share
USUAL_PRIOR = 1.5  # how often a language is met: `for` is English rather than Danish
PRIOR = {"en": 3.0, "ro": 1.0, "ca": 0.3} | dict.fromkeys(("pl", "sv", "da", "no", "fi", "cs", "hu", "id"), 0.7)
LETTER_EVIDENCE = 0.6  # what a letter counts that only one of our languages uses

_SCRIPTS = {
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
_RUNS = re.compile("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in _SCRIPTS.items()))
_ASCII_RUNS = re.compile(r"[\x00-\x7f]+")
_ASCII_OTHERS = bytes(code for code in range(128) if not chr(code).isalpha())
_DENSE = frozenset({"kana", "han", "ko", "th", "lo", "km", "my"})
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LETTERS_APART = bytes(code if code > 127 or chr(code).isalpha() or chr(code) == "'" else 32 for code in range(256))

_JAPANESE_HAN = re.compile("[々込畑働峠匂駅気図売対広応関実変単戦発総経済沢浜円択]")  # shapes that Chinese does not use
_CYRILLIC_LETTERS = {"uk": "іїєґ", "be": "ў", "sr": "ђћџљњј", "ru": "ыэё", "kk": "әғқңөұүһ", "mk": "ѓќѕ"}
_ARABIC_LETTERS = {"ur": "ٹڈڑںےھ", "fa": "پچژگکی"}
_DEVANAGARI_WORDS = {
    "mr": frozenset({"आहे", "आणि", "काय", "कसे", "मध्ये"}),
    "ne": frozenset({"छ", "हो", "के", "कसरी", "भने"}),
}
_LATIN_LETTERS = {
    "de": "ß", "es": "ñ¿¡", "pt": "ãõ", "pl": "łąęśźżń", "tr": "ğış", "ro": "șțăţş", "cs": "řěů", "hu": "őű",
    "vi": "ơưđạảấầẩẫậắằẳẵặẹẻẽếềểễệịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ", "fr": "œ", "da": "æø", "no": "æø", "sv": "å",
}  # fmt: skip


def detect(text: str) -> str | None:
    """The primary language subtag of the text (`en`, `zh`), None when nothing tells. Never raises."""
    text = text[:LOOKED_AT]
    if text.isascii():
        return _by_function_words(text, "latin")
    letters = _letters_by_script(text)
    if not letters:
        return None
    script, share = _leading_foreign_script(letters)
    if script == "latin":
        return _by_function_words(text, "latin")
    if share < SCRIPT_SHARE and (latin := _by_function_words(text, "latin")):
        return latin
    return _of_script(script, letters, text)


def stop_words(language: str) -> frozenset[str]:
    """The function words of a language, folded, question words included; empty for one that we hold no list of.

    Also the pieces that `domain.text.words` makes of them, such as the bigrams of scripts without blanks.
    """
    return _stop_words(language.partition("-")[0].lower())


def language_name(tag: str) -> str:
    """The English name as prompts use it: `de-AT` gives German; the tag itself when we do not know it."""
    return LANGUAGE_NAMES.get(tag) or LANGUAGE_NAMES.get(tag.partition("-")[0].lower()) or tag


@cache
def _stop_words(language: str) -> frozenset[str]:
    listed = FUNCTION_WORDS.get(language, "").split()
    return frozenset(listed).union(*map(words, listed))


def _letters_by_script(text: str) -> Counter[str]:
    rest = _ASCII_RUNS.sub(" ", text)  # most of a text, and there is no question whose it is
    ascii_letters = len(text.encode("ascii", "ignore").translate(None, _ASCII_OTHERS))
    letters: Counter[str] = Counter({"latin": ascii_letters} if ascii_letters else {})
    for run in _RUNS.finditer(rest):
        script = run.lastgroup or ""
        letters[script] += (run.end() - run.start()) * (DENSE_LETTER if script in _DENSE else 1)
    return letters


def _leading_foreign_script(letters: Counter[str]) -> tuple[str, float]:
    """The script to decide by and its share: another than Latin also when Latin names and code outweigh it."""
    foreign = Counter({script: count for script, count in letters.items() if script != "latin"})
    foreign["han"] += foreign.pop("kana", 0) if foreign["han"] else 0
    if not foreign or not any(foreign.values()):
        return "latin", 1.0
    script, count = foreign.most_common(1)[0]
    share = count / sum(letters.values())
    return (script, share) if share >= QUOTED_SHARE else ("latin", 1.0)


def _of_script(script: str, letters: Counter[str], text: str) -> str | None:
    if script in {"han", "kana"}:
        return "ja" if letters["kana"] or _JAPANESE_HAN.search(text) else "zh"
    if script == "cyrillic":
        return _by_letters(text, _CYRILLIC_LETTERS) or _by_function_words(text, "cyrillic") or "ru"
    if script == "arabic":
        return _by_letters(text, _ARABIC_LETTERS) or "ar"
    if script == "devanagari":
        found = set(text.split())
        return next((language for language, own in _DEVANAGARI_WORDS.items() if len(own & found) > 1), "hi")
    return script


def _by_letters(text: str, letters: dict[str, str]) -> str | None:
    lowered = text.lower()
    counts = {language: sum(map(lowered.count, own)) for language, own in letters.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


def _by_function_words(text: str, script: str) -> str | None:
    """The language whose function words the text uses most; a word of several languages counts a part for each."""
    table = _languages_of_words(script)
    evidence: dict[str, float] = {}
    for word, times in _counted(text.lower()).items():
        for language, weight in table.get(word, ()):
            evidence[language] = evidence.get(language, 0.0) + weight * times
    if script == "latin" and not text.isascii():
        _add_letters(text.lower(), evidence)
    if not evidence:
        return None
    (best, most), *others = sorted(evidence.items(), key=lambda item: -item[1])
    clear = not others or most >= CLEAR_LEAD * others[0][1]
    return best if clear and most >= ENOUGH else None


def _counted(lowered: str) -> dict[str, int]:
    """How often each word comes, in the order of the text; found between blanks, since the pattern takes twice as long."""
    apart = lowered.encode("utf-8", "surrogatepass").translate(_LETTERS_APART).decode("utf-8", "surrogatepass")
    counts: dict[str, int] = {}
    for found, times in Counter(apart.split()).items():
        for word in (found,) if found.isalpha() else _WORD.findall(found):
            counts[word] = counts.get(word, 0) + times
    return counts


def _add_letters(lowered: str, evidence: dict[str, float]) -> None:
    present = set(lowered)
    for language, own in _LATIN_LETTERS.items():
        if not present.isdisjoint(own):
            evidence[language] = evidence.get(language, 0.0) + LETTER_EVIDENCE


@cache
def _languages_of_words(script: str) -> dict[str, tuple[tuple[str, float], ...]]:
    """For each function word of the script's languages: (language, weight), the weights of a word adding up to one."""
    own = re.compile(f"[{_SCRIPTS[script]}'’]+")
    owners: dict[str, list[str]] = {}
    for language, listed in FUNCTION_WORDS.items():
        for word in set(listed.split()):
            if own.fullmatch(word):
                owners.setdefault(word, []).append(language)
    return {word: _weights(found) for word, found in owners.items()}


def _weights(languages: list[str]) -> tuple[tuple[str, float], ...]:
    priors = [PRIOR.get(language, USUAL_PRIOR) for language in languages]
    return tuple((language, prior / sum(priors)) for language, prior in zip(languages, priors, strict=True))
