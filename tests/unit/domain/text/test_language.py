"""domain/text/language.py"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import (
    detect_certain_language,
    detect_language,
    get_language_name,
    load_stop_words,
)
from modules.llm_platform.domain.text.tokens import split_words

QUESTIONS = {
    "en": (
        "What is Python asyncio?",
        "How does BM25 rank documents",
        "Who won?",
        "tutorial for beginners",
        "is it safe",
    ),
    "de": ("Was ist asyncio in Python?", "Wie funktioniert das Internet?", "Wo?", "der schnelle Weg", "Straße"),
    "fr": ("Qu'est-ce que Python asyncio ?", "Comment installer Docker sur Debian", "pourquoi le ciel est bleu"),
    "es": ("¿Qué es Python asyncio?", "como funciona el motor diesel", "cuáles son los síntomas"),
    "it": ("Cos'è asyncio in Python?", "come funziona la fotosintesi", "perché il cielo è blu"),
    "pt": ("O que é asyncio em Python?", "quais são as vantagens", "onde fica o Porto e como são as praias"),
    "nl": ("Wat is asyncio in Python?", "Hoe werkt een warmtepomp", "waarom is de lucht blauw"),
    "pl": ("Co to jest asyncio?", "Jak działa silnik", "dlaczego niebo jest niebieskie"),
    "tr": ("Python asyncio nedir?", "Fotosentez nasıl çalışır", "gökyüzü neden mavi"),
    "sv": ("Vad är asyncio?", "varför är himlen blå"),
    "fi": ("Mikä on asyncio?", "miksi taivas on sininen"),
    "hu": ("Mi az asyncio?", "miért kék az ég"),
    "vi": ("Asyncio là gì", "tại sao bầu trời có màu xanh"),
    "id": ("Apa itu asyncio?", "mengapa langit berwarna biru"),
    "ru": ("Что такое asyncio в Python?", "Как работает asyncio.run_in_executor в Python?", "Привет"),
    "uk": ("Що таке asyncio?", "Як працює двигун", "чому небо синє"),
    "zh": ("什么是Python asyncio?", "Python 的 asyncio.run_in_executor 是什么", "北京天气"),
    "ja": ("Pythonのasyncioとは何ですか？", "東京駅", "asyncioの使い方"),
    "ko": ("파이썬 asyncio는 무엇인가요?", "하늘은 왜 파란가"),
    "ar": ("ما هو asyncio في بايثون؟", "لماذا السماء زرقاء"),
    "fa": ("آسینکیو چیست؟",),
    "hi": ("asyncio क्या है?", "आसमान नीला क्यों है"),
    "el": ("Τι είναι το asyncio;",),
    "he": ("מה זה asyncio?",),
    "th": ("asyncio คืออะไร",),
    "ta": ("வானம் ஏன் நீலமாக உள்ளது",),
}
CASES = [(language, question) for language, questions in QUESTIONS.items() for question in questions]


@for_each(("language", "question"), CASES)
def test_the_language_of_a_question_is_detected(language: str, question: str) -> None:
    """By script, or by the function words that every question holds."""
    assert detect_language(question) == language


@for_each("text", ["", "python asyncio", "12345", "🙂🙂🙂", "fastapi vs flask", "???", "\x00", "Berlin"])
def test_uncertain_texts_have_no_language(text: str) -> None:
    """Names and numbers belong to every language."""
    assert detect_language(text) is None


def test_a_quoted_word_does_not_decide_the_language() -> None:
    """A question about a foreign word has the language of its function words."""
    assert detect_language("What does 你好 mean?") == "en"
    assert detect_language("Что значит hello world?") == "ru"


@given(st.text(max_size=600))
def test_any_text_has_a_known_language_or_none(text: str) -> None:
    """Any text, including surrogates, gives a subtag with a name, or None."""
    found = detect_language(text)
    assert found is None or found in load_data("language_names")


def test_a_table_of_times_has_no_certain_language() -> None:
    """The units and `n/a` are function words of other languages."""
    table = "| Tom | 7 min 31 s | n/a |\n| Owen | 7 min 20 s | n/a |\n| Ben | 7 min 02 s | n/a |\n"
    assert detect_certain_language(table) is None
    assert (
        detect_certain_language("The ferry that the island was known for is not there, and it has no bridge.") == "en"
    )


def test_only_the_beginning_of_a_long_text_is_read() -> None:
    """A megabyte costs no more than a page: what follows the first page changes nothing."""
    page = "What is this and how does it work? " * 100
    assert detect_language(page + "это и есть то что было " * 10_000) == "en"


@for_each("language", ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "ar", "hi", "tr"])
def test_question_words_are_stop_words(language: str) -> None:
    """Nothing but content words of a plain question is left, and the lists are comparable words."""
    listed = load_stop_words(language)
    left = [word for word in split_words(QUESTIONS[language][0]) if word not in listed]
    assert left
    assert set(left) <= {"python", "asyncio", "بايثون"}


@for_each(("language", "question"), [("zh", "什么是编程"), ("ja", "何ですか"), ("ko", "무엇인가요")])
def test_scripts_without_blanks_have_bigrams_as_stop_words(language: str, question: str) -> None:
    """The bigrams that `split_words` makes of a question word are left out like the word itself."""
    left = [word for word in split_words(question) if word not in load_stop_words(language)]
    assert left in (["是编", "编程"], [])


def test_stop_words_of_a_region_are_those_of_its_language() -> None:
    """A tag with a region finds its list, an unknown language an empty one."""
    assert load_stop_words("de-AT") == load_stop_words("de")
    assert load_stop_words("xx") == frozenset()
    assert all(word == word.lower() for listed in load_data("function_words").values() for word in listed.split())


@for_each(
    ("tag", "name"),
    [
        ("de", "German"),
        ("pt-BR", "Brazilian Portuguese"),
        ("en-GB", "English"),
        ("zh-Hant", "Traditional Chinese"),
        ("xx", "xx"),
    ],
)
def test_a_tag_has_an_english_name(tag: str, name: str) -> None:
    """The exact tag first, then its language, then the tag itself."""
    assert get_language_name(tag) == name
    assert len(load_data("language_names")) >= 30
