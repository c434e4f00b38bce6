"""The sentences of a source are read once, and not again for each question."""

from __future__ import annotations

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.candidates import make_relevance
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.sentence_forms import (
    CACHED_CHARS,
    SourceSentences,
    describe_cached_sentences,
    describe_sentences,
)
from modules.llm_platform.domain.extractive.sentences import MAX_PARAGRAPHS, read_source_blocks

PAGE = """# Boats

The canoe seats two. It weighs 28 kg:

- paddles are **included**
- life jackets cost `£3`

| Boat | Seats |
|---|---|
| Anna | 2 |
"""


def make_source(text: str, title: str = "Boats") -> Source:
    return Source(index=1, title=title, url="https://a.example/", text=text)


def read(source: Source, asked: str, language: str = "en") -> SourceSentences:
    return describe_cached_sentences(source, language, make_relevance([read_question(asked, language)]))


def test_a_cached_source_has_the_same_sentences() -> None:
    source = make_source(PAGE)
    uncached = describe_sentences(source, read_source_blocks(PAGE), "en", lambda _: 1)
    for _ in range(2):
        cached = read(source, "How many does it seat?")
        assert (cached.language, cached.context_words) == (uncached.language, uncached.context_words)
        assert [(one.shown, one.words, one.context) for one in cached.forms] == [
            (one.shown, one.words, one.context) for one in uncached.forms
        ]


def test_a_short_source_is_read_once_for_all_questions() -> None:
    first, second = (read(make_source(PAGE), asked) for asked in ("How heavy is it?", "What do life jackets cost?"))
    assert first.forms is second.forms


def test_each_source_keeps_its_own_title_and_language() -> None:
    """The same text may stand on two pages, and be asked about in two languages."""
    titles = [read(make_source("Seats 2", title), "seats").context_words for title in ("Canoe", "Kayak")]
    assert titles[0] != titles[1]
    assert [read(make_source("A 2"), "A 2", language).language for language in ("en", "de")] == ["en", "de"]


def test_the_question_chooses_the_paragraphs_of_a_long_list() -> None:
    """Only the most relevant paragraphs are read, so the sentences depend on the question."""
    text = "\n\n".join(f"- Boat {number} is moored at pier {number}." for number in range(MAX_PARAGRAPHS + 80))
    assert len(text) < CACHED_CHARS
    last = f"Boat {MAX_PARAGRAPHS + 79}"
    assert any(last in one.shown for one in read(make_source(text), f"Where is boat {MAX_PARAGRAPHS + 79}?").forms)


FAQ = """# Pool

**Can guests use the sauna?**
No. It is for members only.

### Do I need a swimming cap?

Yes.

### How long may I park?

Two hours.

### What does it cost?

The entry costs 4 euros.
"""


def test_a_reply_is_shown_with_its_question() -> None:
    """A yes, a pronoun or two words say nothing alone. A whole sentence stays as it is."""
    shown = [one.shown for one in read(make_source(FAQ), "sauna").forms]
    assert shown == [
        "Can guests use the sauna?",
        "Can guests use the sauna: No.",
        "It is for members only.",
        "Do I need a swimming cap: Yes.",
        "How long may I park: Two hours.",
        "The entry costs 4 euros.",
    ]


def test_a_reply_with_a_label_is_shown_with_its_question() -> None:
    text = "Q: Are dogs allowed?\nA: No.\n\nQ: Is there parking?\nA: Yes, behind the hall.\n"
    shown = [one.shown for one in read(make_source(text), "dogs").forms]
    assert "Are dogs allowed: A: No." in shown
    assert "Is there parking: A: Yes, behind the hall." in shown
