"""Texts of pages and models with any content are processed, in time that grows linearly with their length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support import fuzz
from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import (
    are_within_limits,
    find_highest_verdict,
    list_claims,
)
from modules.llm_platform.domain.citations.forms.citation_forms import TooManyCitationsError, read_citations
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.markdown.sanitizer import AnswerSanitizer, sanitize
from modules.llm_platform.domain.markdown.unwrapping import FenceRemover, SourceListRemover
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.language import detect_language

LANGUAGES = st.sampled_from(["en", "de", "ru", "zh", "ja", "ar", "th", "pt-BR"])
# Digits of several scripts and numeric characters that are no digits, for code that calls int() or float() on what \d
# or isdigit accepts.
DIGITS = [*"0123456789", *"٣۵७๗３²₄½①Ⅷ㊿𝟗", "九" * 400, "9" * 5_000, "1" * 299, "0" * 30, "三", "万", "亿", "十", "〇"]
SIGNS = [
    *".,:;/-+'’·%$€°!?。！？、()[]{}<>【】［］|\\\"“”«»&@_=~^*#`…–−",
    "://",
    "www.",
    "&#x31;",
    "&#99999999;",
    "[1]",
    "[2,3]",
]
BLANKS = [*" \n\t\r\u00a0\u202f\u2028\u3000\x0b\x0c", "\r\n", "\n\n", "    "]
CONTROLS = [*"\x00\x07\x1b\x7f\x85\u00ad\u200b\u200d\u202e\u2066\ufeff\ufffd\ufffe", "\ud800", "\udfff", "\U000e0041"]
LETTERS = [*"aZéßİıǅΣσςжЁعםहกあア漢한ﬁＡ𝔸", "e\u0301", "👩‍💻", "🇩🇪", "a" * 300]
WORDS = [
    "pm",
    "a.m.",
    "million",
    "Mio",
    "тысяч",
    "万",
    "May",
    "März",
    "Monday",
    "2022-12-07",
    "2022-00-99",
    "03:46",
    "1,000",
    "not",
    "nicht",
    "без",
    "never",
    "no",
    "is",
    "the",
    "Version",
    "increased",
    "fell",
    "three",
    "hundert",
    "Figure",
    "e.g.",
    "asyncio.run()",
    "__new__",
    "however",
    "because",
    "v3.12.1",
    "Inc.",
    "что",
    "的",
    "不",
    "します",
    "https://a.example/1",
]
MARKDOWN = [
    "```",
    "~~~",
    "``` py\n",
    "# ",
    "- ",
    "1. ",
    "> ",
    "| a | b |\n",
    "|---|---|\n",
    "**",
    "](",
    "![",
    "<b>",
    "<!--",
    "[x]: y\n",
    "=====\n",
    "---\n",
    "\n\nSources:\n",
    "&lt;",
    "$$",
    "\\(",
]
PIECES = st.sampled_from([*DIGITS, *SIGNS, *BLANKS, *CONTROLS, *LETTERS, *WORDS, *MARKDOWN, *WORDS, *" " * 20])
TEXTS = st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60)
SOURCES = [Source(index=1, title="A [title] 9:30", url="https://a.example/1", text="")]


@st.composite
def claims_and_sources(draw: st.DrawFn) -> tuple[str, str]:
    """Return a claim that repeats its source with a few changes, so that every rule of the comparison runs."""
    pieces = draw(st.lists(PIECES, min_size=1, max_size=30))
    changed = list(pieces)
    for at in draw(st.lists(st.integers(0, len(pieces) - 1), max_size=4)):
        changed[at] = draw(PIECES)
    return "".join(changed), "".join(pieces)


def verdicts(claim: str, source: str, language: str) -> None:
    """Run the whole comparison of a claim and its source, with and without a model's verdict."""
    sources = [source_of(source), source_of(claim, 2)]
    answer = sanitize(f"{claim} [1][2]", sources)
    citations = CitationChecker(sources, language).check(answer).citations
    assert all(
        sources[citation.source_index - 1].text[citation.quote_start : citation.quote_end] == citation.quote
        for citation in citations
    )
    claims = list_claims(answer, language)
    for citation in citations:
        find_highest_verdict(citation.verdict, claims[citation.start, citation.end], citation.quote)
    assert are_within_limits(citations, answer, language)


def source_of(text: str, index: int = 1) -> Source:
    return Source(index=index, title=text[:40], url=f"https://a.example/{index}", text=text)


def extract(question: str, text: str, language: str, questions: tuple[str, ...] = ()) -> str:
    """Return the extractive answer of two sources."""
    request = SynthesisRequest(question, [source_of(text), source_of(text[::-1], 2)], language, questions=questions)
    return asyncio.run(ExtractiveSynthesizer().synthesize(request)).text


def complete(text: str, source: str) -> str:
    """Return the text with the markers that its author left out, added sentence by sentence."""
    completer = MarkerCompleter(CitationChecker([source_of(source)], "en"), "en")
    units = AnswerSanitizer(SOURCES).units(text)
    return "".join(map(completer.feed, units)) + completer.finish("")


def cite(text: str) -> None:
    """Read the citations of a text, unless it has more citations than a realistic text."""
    with suppress(TooManyCitationsError):
        read_citations(text)


def stream(text: str, chars: int) -> str:
    sanitizer = AnswerSanitizer(SOURCES)
    parts = [sanitizer.feed(text[at : at + chars]) for at in range(0, len(text), chars)]
    return "".join(parts) + sanitizer.finish()


def feed_lines(remover: FenceRemover | SourceListRemover, text: str) -> str:
    return "".join(map(remover.feed, text.splitlines(keepends=True))) + remover.finish()


@settings(max_examples=fuzz.chosen(100, 10_000))
@given(claims_and_sources(), LANGUAGES)
@example(("It opened at 2,3:6pm.", "It opened at 2,3:6pm."), "en")
@example(("Updated Dec 7, 2022,03:46pm EST", "Updated Dec 7, 2022,03:46pm EST"), "en")
@example((f"From {'9' * 5_000}:30 pm on.", f"From {'9' * 5_000}:30 pm on."), "en")
@example((f"共有{'九' * 400}人。", f"共有{'九' * 399}人。"), "zh")
def test_verdicts_read_any_text(both: tuple[str, str], language: str) -> None:
    """The check never fails, and each quote is found at its offsets."""
    verdicts(*both, language)


@settings(max_examples=fuzz.chosen(100, 10_000))
@given(TEXTS, TEXTS, LANGUAGES)
def test_extraction_reads_any_text(question: str, text: str, language: str) -> None:
    """The extractive answer and the extractive report never fail, whatever the page or the question."""
    extract(question, text, language)
    extract(question, text, language, (question, text[:100]))


@settings(max_examples=fuzz.chosen(100, 10_000))
@given(TEXTS, st.lists(st.integers(0, 200), max_size=6))
def test_the_sanitizer_reads_any_text_in_any_pieces(text: str, cuts: list[int]) -> None:
    """The sanitiser never fails, and the chunks of a stream do not change its result."""
    sanitizer, begin, parts = AnswerSanitizer(SOURCES), 0, []
    for end in [*sorted(cuts), len(text)]:
        parts.append(sanitizer.feed(text[begin:end]))
        begin = max(begin, end)
    assert "".join(parts) + sanitizer.finish() == sanitize(text, SOURCES)


@settings(max_examples=fuzz.chosen(100, 10_000))
@given(TEXTS)
def test_chunks_and_language_of_any_text(text: str) -> None:
    """Any text has chunks that are part of it, and a language or none."""
    assert all(0 <= chunk.start < chunk.end <= len(text) for chunk in split_chunks(text))
    assert detect_language(text) is None or detect_language(text)
    read_question(text, "en")


READERS: dict[str, Callable[[str], object]] = {
    "verdicts": lambda text: verdicts("It opened at 9:30 pm.", text, "en"),
    "claims": lambda text: CitationChecker([source_of("It opened at 9:30 pm.")], "en").check(f"{text} [1]"),
    "extraction": lambda text: extract("When was the bridge opened?", text, "en"),
    "sanitizer": lambda text: sanitize(text, SOURCES),
    "chunks": split_chunks,
    "language": detect_language,
    "citations": cite,
    "markers": lambda text: complete(text, "It opened at 9:30 pm."),
    "stream": lambda text: stream(text, PIECE_CHARS),
    "fences": lambda text: feed_lines(FenceRemover([1]), text),
    "source lists": lambda text: feed_lines(SourceListRemover(SOURCES), text),
    "acronyms": lambda text: verdicts("The NASA and the WHO opened it.", text, "en"),
}
REPEATED = [
    "\n",
    " \n",
    "a",
    "9,",
    "九",
    "漢",
    "-",
    "| - ",
    "> ",
    "*",
    "`",
    "[",
    "](",
    "<",
    ".",
    "\\",
    "a.b",
    "@",
    "[x]: y\n",
    "A b. ",
    "[1] ",
    "of ",
    "OO ",
    "3,000 ",
    "not ",
    "a1 ",
    "`x` ",
    "- x\n",
    "漢字。",
    "The bridge opened at 9:30 pm. ",
    "?",
    "!",
    "。",
    "? ",
    "?)",
    '"',
    "”",
    "(",
    ")",
    "|",
    "【",
    "``",
    "` ``",
    "~",
    "_",
    "#",
    ":",
    "/",
    "1",
    "1.",
    "١",
    "é",
    "e\u0301",
    "\u0301",
    "\u200d",
    "0-WORD-",
    "NASA ",
    "A.B.C. ",
    "(https://a.example/1;",
    "https://a.example/https://b.example/",
    "(see [a](https://a.example/1), ",
    "<ref>",
    "<sup>1",
    "¹",
    "[^a]",
    "[1-9]",
    "Smith (2020) ",
    "**a ",
    "__a ",
    "$",
    "\t",
]
PIECE_CHARS = 5  # in one chunk of a stream
SMALL, TIMES = 4_000, 10  # more than one chunk of a document, in characters, and the factor of growth
FRAMES = ("{}x", "[x]: {} x|")  # at the beginning of a line, and after a possible definition


@for_each("name", READERS)
def test_time_grows_with_the_length_alone(name: str) -> None:
    """Ten times the text takes about ten times as long, not a hundred times, whatever the text repeats.

    Each run of the suite uses one of two frames, and `make fuzz` both.
    """
    read = READERS[name]
    frames = [FRAMES if fuzz.IS_LONG else FRAMES[number % 2 :][:1] for number in range(len(REPEATED))]
    slow = [unit for unit, tried in zip(REPEATED, frames, strict=True) if not _is_linear(read, unit, SMALL, tried)]
    assert slow == []


@pytest.mark.parametrize("line_end", ["\n", "\r"])
def test_line_ends_take_linear_time_to_sanitise(line_end: str) -> None:
    """100,000 line ends take about ten times as long as 10,000, because the buffer is not copied for each of them."""
    assert _is_linear(READERS["sanitizer"], line_end, 10_000 * len(line_end))


def _is_linear(read: Callable[[str], object], unit: str, size: int, frames: Sequence[str] = FRAMES) -> bool:
    """Return whether the time grows linearly with the length in each frame."""

    def repeated(frame: str, length: int) -> Callable[[], object]:
        text = frame.format(unit * (length // len(unit)))
        return lambda: read(text)

    return all(is_linear(repeated(frame, size), repeated(frame, size * TIMES), TIMES) for frame in frames)
