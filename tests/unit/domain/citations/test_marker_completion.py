"""A statement without a marker gets the marker of the source that supports it, during streaming."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.citations import marker_completion
from modules.llm_platform.domain.citations.checker import CheckedAnswer, CitationChecker
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer, sanitize

BRIDGE = (
    "The old bridge was built by Anna Holm in 1904. It is 120 metres long and has three arches. "
    "Cars are not allowed on it. The toll rose last spring."
)
RIVER = "The river rises in the hills of Marlow. Salmon return to it in autumn. 鲑鱼秋天回到这条河里。"
SOURCES = (
    Source(index=2, title="The bridge", url="https://a.example/", text=BRIDGE),
    Source(index=5, title="The river", url="https://b.example/", text=RIVER),
)
PARTS = (
    "Salmon return to it in autumn",
    "Cars are not allowed on it",
    "Zebras graze at night",
    ".",
    ". ",
    "!",
    "\n",
    "\n\n",
    "- ",
    "1. ",
    "| ",
    "|---|\n",
    "```\n",
    "`x. y` ",
    "[2]",
    " [5]",
    "# ",
    "> ",
    "**",
    "e.g. ",
    "Sources: ",
    "---\n",
    "。",
    "鲑鱼秋天回到这条河里",
    "[The toll rose last spring. It is](https://a.example/)",
    " ",
    "of 5. ",
)
MARKERS = re.compile(r" *\[\d\]")
HOSTILE_SECONDS = 10.0  # seconds of the processor; linear time takes a twentieth of it


def complete(answer: str, size: int = 1000, language: str = "en") -> tuple[str, list[int]]:
    completer, sanitizer = MarkerCompleter(CitationChecker(SOURCES, language), language), AnswerSanitizer(SOURCES)
    pieces = [sanitizer.units(answer[at : at + size]) for at in range(0, len(answer), size)]
    parts = [completer.feed(unit) for units in pieces for unit in units]
    return "".join(parts) + completer.finish(sanitizer.finish()), completer.added


def checked(answer: str) -> tuple[str, CheckedAnswer]:
    text, added = complete(answer)
    return text, CitationChecker(SOURCES, "en").check(text, added)


@for_each(
    ("answer", "expected"),
    [
        ("The toll rose last spring. Salmon return to it!", "The toll rose last spring [2]. Salmon return to it [5]!"),
        ("**Cars are not allowed on it.** So?", "**Cars are not allowed on it [2].** So?"),
        ("1. The toll rose last spring\n2. Zebras graze", "1. The toll rose last spring [2]\n2. Zebras graze"),
        ("| a |\n|---|\n| the toll rose last | spring |\n", "| a |\n|---|\n| the toll rose last | spring [2] |\n"),
        ("The toll rose last\nspring. Cars fly.", "The toll rose last\nspring [2]. Cars fly."),
        ("鲑鱼秋天回到这条河里。斑马。", "鲑鱼秋天回到这条河里 [5]。斑马。"),
        ("The toll rose last\nspring", "The toll rose last\nspring [2]"),
        ("# The toll rose last spring\n\n```\nThe toll rose last spring.\n```\n", None),
        ("The toll rose last spring\n---\n\n| The toll rose last spring |\n|---|\n", None),
        ("The toll rose in June. Did the toll rise last spring? The toll rose.", None),
    ],
)
def test_which_statements_get_a_marker(answer: str, expected: str | None) -> None:
    """Supported statements get a marker, but not statements with a marker, questions, code or headings."""
    assert complete(answer, language="zh" if "鲑" in answer else "en")[0] == (expected or answer)


def test_the_citation_says_who_named_the_source() -> None:
    """The platform named the source, unless the sentence has a marker of the model."""
    text, result = checked(
        "The toll rose last spring. Cars are not allowed on it [2].\n\nSalmon return to it in autumn."
    )
    named = [(text[citation.start : citation.end], citation.cited_by) for citation in result.citations]
    assert named == [
        ("The toll rose last spring", "model"),
        ("Cars are not allowed on it", "model"),
        ("Salmon return to it in autumn", "platform"),
    ]
    assert result.cited == {2, 5}


def test_what_no_source_supports_stays_uncited() -> None:
    """It is counted, and nothing is added to it."""
    text, result = checked(
        "The toll rose in June. It is 90 metres long and has three arches. The toll rose last spring."
    )
    assert [text[citation.start : citation.end] for citation in result.citations] == ["The toll rose last spring"]
    assert result.uncited_sentences == 2
    assert not result.is_cited_by_author


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join), st.integers(min_value=1, max_value=9))
def test_the_pieces_make_no_difference(answer: str, size: int) -> None:
    """Streamed in any pieces or at once, the same markers are added, and nothing else is changed."""
    text, added = complete(answer, size)
    assert (text, added) == complete(answer)
    assert all(text[at - 1 : at + 3] in (" [2]", " [5]") for at in added)
    assert MARKERS.sub("", text) == MARKERS.sub("", sanitize(answer, SOURCES))


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_added_markers_are_safe_and_supported(parts: str) -> None:
    """The sanitizer keeps every added marker, and each one belongs to a supported sentence."""
    text, added = complete(parts)
    assert sanitize(text, SOURCES) == text
    result = CitationChecker(SOURCES, "en").check(text, added)
    assert {citation.verdict for citation in result.citations if citation.cited_by == "platform"} <= {"supported"}


def test_a_sentence_is_streamed_at_once() -> None:
    """A sentence is not held back until the end of its paragraph. Only an incomplete line is."""
    completer = MarkerCompleter(CitationChecker(SOURCES, "en"), "en")
    assert completer.feed("The toll rose last spring.") == "The toll rose last spring [2]."
    assert completer.feed(" Zebras graze at night.") == " Zebras graze at night."
    assert completer.feed("\n") == "\n"
    assert completer.feed("- The toll rose last spring\n") == ""
    assert (
        completer.feed("- It has three arches [2]\n") == "- The toll rose last spring [2]\n- It has three arches [2]\n"
    )


def test_a_number_with_a_full_stop_may_be_a_day() -> None:
    """A German sentence that reaches the completer in two parts gets its marker at the end."""
    sources = [Source(index=1, title="Miete", url="https://c.example/", text="Die Miete ist am 5. des Monats fällig.")]
    completer = MarkerCompleter(CitationChecker(sources, "de"), "de")
    assert completer.feed("Die Miete ist am 5. ") == ""
    assert completer.feed("des Monats fällig. ") == "Die Miete ist am 5. des Monats fällig [1]. "


@pytest.mark.parametrize("size", [1, 1000])
def test_a_marker_after_the_full_stop_is_the_models(size: int) -> None:
    """The platform adds no marker to a sentence with a marker after its full stop, whatever it cites."""
    text, added = complete(
        "The toll rose last spring. [2] Cars are not allowed on it.[2] [5] It has three arches. [5]", size
    )
    assert text == "The toll rose last spring. [2] Cars are not allowed on it.[2] [5] It has three arches. [5]"
    assert added == []


@for_each("answer", ["a. " * 17_000, "e.g. " * 10_000, "x" * 50_000, "| a. " * 10_000, "- [2]\n" * 8_000])
def test_hostile_text_takes_linear_time(answer: str) -> None:
    """The sentences of an answer that are read are limited in number and length."""
    started = time.process_time()
    assert complete(answer, 5000)[0] == answer
    assert time.process_time() - started < HOSTILE_SECONDS


def test_sentences_behind_the_last_reading_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of one line is not copied again with each sentence that only passes through."""
    monkeypatch.setattr(marker_completion, "MAX_UNITS", 0)

    def pass_through(sentences: int) -> str:
        completer = MarkerCompleter(CitationChecker(SOURCES, "en"), "en")
        return "".join(map(completer.feed, ["The toll rose. "] * sentences)) + completer.finish("End.")

    assert pass_through(3) == "The toll rose. The toll rose. The toll rose. End."
    assert is_linear(lambda: pass_through(4000), lambda: pass_through(40_000), 10)
