"""Detect the language of a short text by its script, then by its function words, and list the stop words of a language.

The word lists are short on purpose. A question has about ten words, three of them function words: these distinguish Dutch
from German.
"""

import re
from collections import Counter
from functools import cache

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.text.scripts import SCRIPTS
from modules.llm_platform.domain.text.tokens import split_words

DEFAULT_LANGUAGE = "en"  # assumed where the language of a text is unknown
MAX_DETECT_CHARS = 2000  # a page's first paragraphs show its language
DENSE_LETTER_WEIGHT = 3  # one Han, Kana, Hangul or Thai letter counts as three of an alphabet
SCRIPT_SHARE = 0.5  # a script with this share of the letters decides alone
QUOTED_SHARE = 0.15  # a script with this share decides unless Latin function words are found
NOUNS_ARE_CAPITALISED = frozenset({"de", "lb"})
MIN_LEAD = 1.3  # the best language needs this many times the evidence of the next one
MIN_CERTAIN_WORDS = 4  # a text must have this many function words of a language for `detect_certain_language`
MIN_EVIDENCE = 0.5  # as much as one function word that two equally frequent languages share
DEFAULT_PRIOR = 1.5  # relative frequency of a language: `for` is English rather than Danish
PRIOR = {"en": 3.0, "ro": 1.0, "ca": 0.3} | dict.fromkeys(("pl", "sv", "da", "no", "fi", "cs", "hu", "id"), 0.7)
LETTER_EVIDENCE = 0.6  # evidence of a letter that only one of the known languages uses

_RUNS = lazy_pattern("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in SCRIPTS.items()))
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
    "de": "ß",
    "es": "ñ¿¡",
    "pt": "ãõ",
    "pl": "łąęśźżń",
    "tr": "ğış",
    "ro": "șțăţş",
    "cs": "řěů",
    "hu": "őű",
    "vi": "ơưđạảấầẩẫậắằẳẵặẹẻẽếềểễệịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "fr": "œ",
    "da": "æø",
    "no": "æø",
    "sv": "å",
}


def get_primary_subtag(tag: str) -> str:
    """Return the language of a tag such as `de-AT`, in lower case: the primary subtag of RFC 5646."""
    return tag.partition("-")[0].lower()


def capitalises_nouns(language: str) -> bool:
    """Return whether the language of a BCP 47 tag capitalises all nouns, so that a capital does not make a word a name."""
    return get_primary_subtag(language) in NOUNS_ARE_CAPITALISED


def detect_language(text: str) -> str | None:
    """Return the primary language subtag of the text (`en`, `zh`); None if it is uncertain.

    Only the first MAX_DETECT_CHARS characters are read. Never raises.
    """
    text = text[:MAX_DETECT_CHARS]
    if text.isascii():
        return _detect_by_function_words(text, "latin")
    letters = _count_letters_by_script(text)
    if not letters:
        return None
    script, share = _find_leading_script(letters)
    if script == "latin":
        return _detect_by_function_words(text, "latin")
    if share < SCRIPT_SHARE and (latin := _detect_by_function_words(text, "latin")):
        return latin
    return _detect_by_script(script, letters, text)


def detect_certain_language(text: str) -> str | None:
    """Return the language of a text in other letters than Latin, or with MIN_CERTAIN_WORDS of its function words; else None.

    A table, code or a short excerpt has too few of them: one "de" in a name makes no French text. Single letters do not count:
    in a table of times, `s` is a unit and no Czech word.
    """
    language = detect_language(text)
    if language is None or language == detect_language_of_script(text):
        return language
    counts = _count_words(text[:MAX_DETECT_CHARS].lower())
    found = sum(times for word, times in counts.items() if len(word) > 1 and word in _load_stop_words(language))
    return language if found >= MIN_CERTAIN_WORDS else None


def detect_language_of_script(text: str) -> str | None:
    """Return the language of a text in other letters than Latin, for texts whose few Latin letters decide nothing."""
    letters = _count_letters_by_script(text)
    script, _ = _find_leading_script(letters)
    return None if script == "latin" else _detect_by_script(script, letters, text)


def choose_language(text: str, wished: str | None = None) -> str:
    """Return the wished language, else the language of the text, else English."""
    return wished or detect_language(text) or DEFAULT_LANGUAGE


def load_stop_words(language: str) -> frozenset[str]:
    """Return the function words of a language, folded, question words included; empty for a language without a list.

    The pieces that `split_words` makes of them are included, such as the bigrams of scripts without spaces.
    """
    return _load_stop_words(get_primary_subtag(language))


def get_language_name(tag: str) -> str:
    """Return the English name as prompts use it: `de-AT` gives German; the tag itself when it is unknown."""
    names: dict[str, str] = load_data("language_names")
    return names.get(tag) or names.get(get_primary_subtag(tag)) or tag


@cache
def _load_stop_words(language: str) -> frozenset[str]:
    listed = load_data("function_words").get(language, "").split()
    return frozenset(listed).union(*map(split_words, listed))


def _count_letters_by_script(text: str) -> Counter[str]:
    rest = _ASCII_RUNS.sub(" ", text)  # most of a text, and always Latin
    ascii_letters = len(text.encode("ascii", "ignore").translate(None, _ASCII_OTHERS))
    letters: Counter[str] = Counter({"latin": ascii_letters} if ascii_letters else {})
    for run in _RUNS.finditer(rest):
        script = run.lastgroup or ""
        letters[script] += (run.end() - run.start()) * (DENSE_LETTER_WEIGHT if script in _DENSE else 1)
    return letters


def _find_leading_script(letters: Counter[str]) -> tuple[str, float]:
    """Return the script that decides, and its share of the letters.

    The most frequent script other than Latin decides from QUOTED_SHARE on, even if Latin names and code outweigh it.
    """
    others = Counter({script: count for script, count in letters.items() if script != "latin"})
    others["han"] += others.pop("kana", 0) if others["han"] else 0
    if not any(others.values()):
        return "latin", 1.0
    script, count = others.most_common(1)[0]
    share = count / sum(letters.values())
    return (script, share) if share >= QUOTED_SHARE else ("latin", 1.0)


def _detect_by_script(script: str, letters: Counter[str], text: str) -> str | None:
    if script in {"han", "kana"}:
        return "ja" if letters["kana"] or _JAPANESE_HAN.search(text) else "zh"
    if script == "cyrillic":
        return _detect_by_letters(text, _CYRILLIC_LETTERS) or _detect_by_function_words(text, "cyrillic") or "ru"
    if script == "arabic":
        return _detect_by_letters(text, _ARABIC_LETTERS) or "ar"
    if script == "devanagari":
        found = set(text.split())
        return next((language for language, own in _DEVANAGARI_WORDS.items() if len(own & found) > 1), "hi")
    return script


def _detect_by_letters(text: str, letters: dict[str, str]) -> str | None:
    lowered = text.lower()
    counts = {language: sum(map(lowered.count, own)) for language, own in letters.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else None


def _detect_by_function_words(text: str, script: str) -> str | None:
    """Return the language whose function words the text uses most; a word of several languages counts in part for each."""
    table = _load_languages_of_words(script)
    lowered = text.lower()
    evidence: dict[str, float] = {}
    for word, times in _count_words(lowered).items():
        for language, weight in table.get(word, ()):
            evidence[language] = evidence.get(language, 0.0) + weight * times
    if script == "latin" and not text.isascii():
        present = set(lowered)
        for language, own in _LATIN_LETTERS.items():
            if not present.isdisjoint(own):
                evidence[language] = evidence.get(language, 0.0) + LETTER_EVIDENCE
    if not evidence:
        return None
    (best, most), *others = sorted(evidence.items(), key=lambda item: -item[1])
    clear = not others or most >= MIN_LEAD * others[0][1]
    return best if clear and most >= MIN_EVIDENCE else None


def _count_words(lowered: str) -> dict[str, int]:
    """Return how often each word occurs, in the order of the text."""
    # Text is split at spaces, because the pattern takes twice as long.
    apart = lowered.encode("utf-8", "surrogatepass").translate(_LETTERS_APART).decode("utf-8", "surrogatepass")
    counts: dict[str, int] = {}
    for found, times in Counter(apart.split()).items():
        for word in (found,) if found.isalpha() else _WORD.findall(found):
            counts[word] = counts.get(word, 0) + times
    return counts


@cache
def _load_languages_of_words(script: str) -> dict[str, tuple[tuple[str, float], ...]]:
    """Return (language, weight) for each function word of the script's languages; the weights of a word add up to one."""
    own = re.compile(f"[{SCRIPTS[script]}'’]+")
    owners: dict[str, list[str]] = {}
    for language, listed in load_data("function_words").items():
        for word in set(listed.split()):
            if own.fullmatch(word):
                owners.setdefault(word, []).append(language)
    table: dict[str, tuple[tuple[str, float], ...]] = {}
    for word, languages in owners.items():
        priors = [PRIOR.get(language, DEFAULT_PRIOR) for language in languages]
        total = sum(priors)
        table[word] = tuple((language, prior / total) for language, prior in zip(languages, priors, strict=True))
    return table
