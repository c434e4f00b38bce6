"""Questions that rules make of one question, in any language and script."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.research.decomposition import aspect_questions, decompose_question
from modules.llm_platform.domain.research.question_selector import select_questions


@for_each("language", ["en", "de", "ru", "zh", "ja", "xx"])
@for_each("question", ["fusion energy", "量子纠错 进展", "Как работает asyncio и потоки?", "a vs b", "???abc"])
def test_every_question_gives_three_searches(question: str, language: str) -> None:
    """Any language, any script, with or without parts: three different questions."""
    assert len(select_questions(decompose_question(question, language), language, written=(question,))) == 3


@for_each(
    ("question", "words_of_topic"),
    [
        ("What does the event loop run?", "event loop run"),
        ("How do .NET, C# and node.js (v20) compare?", ".NET C# node.js v20 compare"),
        ("«Wozu» dient eine Ereignisschleife?!", "Wozu dient Ereignisschleife"),
    ],
)
def test_the_sides_of_a_topic_bear_no_marks_of_the_sentence(question: str, words_of_topic: str) -> None:
    """What ends a question or a quotation is no part of a word; what belongs to a name is."""
    language = "de" if "eine" in question else "en"
    assert decompose_question(question, language)[-1].startswith(f"{words_of_topic} ")


@for_each(
    ("question", "language", "expected"),
    [
        (
            "When is the next one asked, and when is a sentence unsupported?",
            "en",
            ["When is the next one asked?", "When is a sentence unsupported?"],
        ),
        ("What is a sail and who builds it?", "en", ["What is a sail?", "Who builds it?"]),
        ("What are the pros and cons of sails?", "en", ["What are the pros and cons of sails?"]),
        ("Was ist ein Segel, und wer baut es?", "de", ["Was ist ein Segel?", "Wer baut es?"]),
        ("How do sails work?", "en", ["How do sails work?", "How do sails work: problems and limits"]),
        (
            "What is the difference between the warranty of the X1 and the X2 compressor?",
            "en",
            ["What is the difference between the warranty of the X1 and the X2 compressor?"],
        ),
        ("Who builds sails in Sweden and in Norway?", "en", ["Who builds sails in Sweden and in Norway?"]),
        ("Was kostet das Segel und der Mast?", "de", ["Was kostet das Segel und der Mast?"]),
        ("¿Quién vende velas por Suecia y por Noruega?", "es", ["¿Quién vende velas por Suecia y por Noruega?"]),
        ("¿Qué es una vela y por qué se rompe?", "es", ["¿Qué es una vela?", "Por qué se rompe?"]),
        ("At what wind does it tear and at what speed?", "en", ["At what wind does it tear?", "At what speed?"]),
    ],
)
def test_without_a_model_sub_questions_read_as_headings(question: str, language: str, expected: list[str]) -> None:
    """Parts that are questions become sub-questions.

    Otherwise the sub-questions are the question, and aspects that it lacks.
    """
    assert aspect_questions(question, language)[: len(expected)] == expected
