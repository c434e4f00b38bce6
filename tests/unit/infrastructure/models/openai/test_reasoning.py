"""Reasoning is hidden and the answer is complete, whatever the chunks."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.infrastructure.models.openai.reasoning import ReasoningFilter, clean

KEY = "sk-0123456789abcdef"


def _read(*pieces: str, key: str = "") -> str:
    """Return the text that a client has at the end, without discarded text."""
    readable = ReasoningFilter(Redactor((key,)), key)
    shown, voided = "", 0
    for step in (*(lambda p=piece: readable.feed(p) for piece in pieces), readable.finish):
        words = step()
        if readable.retractions > voided:
            shown, voided = "", readable.retractions
        shown += words
    return shown


@for_each(
    ("text", "readable"),
    [
        ("", ""),
        ("Plain words.", "Plain words."),
        ("<think>a</think>b", "b"),
        ("<think>a</think>\n\n b", "b"),
        ("<THINK>a</Think>b", "b"),
        ("<thinking>a</thinking>b", "b"),
        ("< think >a</ think >b", "b"),
        ('<think lang="en">a</think>b', "b"),
        ("◁think▷a◁/think▷b", "b"),
        ("b <think>a</think>c", "b c"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a", ""),
        ("<think>a</think>b<think>c", "b"),
        ("<think>a<think>b</think>c", ""),
        ("a</think>b", "b"),
        ("a</think>b</think>c", "c"),
        ("Write `<think>` and `</think>` around it.", "Write `<think>` and `</think>` around it."),
        ("`<think>a</think>`b", "``b"),
        ("<think>`</think>` is a tag</think>b", "b"),
        ("a < b, c > d, <thinker>, <b>", "a < b, c > d, <thinker>, <b>"),
        ("ends in <thi", "ends in <thi"),
        ("ends in <", "ends in <"),
        ("x" * 100 + "<" + "y" * 100, "x" * 100 + "<" + "y" * 100),
        ("tab\tline\r\nend\x00\x07\x1b\x7f", "tab\tline\r\nend"),
        ("pair \ud83d\ude00 half \ud83d, \ude00", "pair 😀 half \ufffd, \ufffd"),
        ("ends in half \ud83d", "ends in half \ufffd"),
        (f"key {KEY}, key {KEY}", "key [redacted], key [redacted]"),
        (f"starts like {KEY[:9]} a key {KEY[:5]}", f"starts like {KEY[:9]} a key {KEY[:5]}"),
    ],
)
def test_the_readable_text_does_not_depend_on_the_chunks(text: str, readable: str) -> None:
    """Complete, character by character, and cut in two at each place."""
    assert _read(text, key=KEY) == readable
    assert _read(*text, key=KEY) == readable
    for cut in range(len(text)):
        assert _read(text[:cut], text[cut:], key=KEY) == readable


PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<",
            "think",
            ">",
            "/",
            "`",
            "word ",
            "\n",
            KEY[:6],
            KEY[6:],
            "\ud83d",
            "\ude00",
            "\x00",
        ]
    ),
    max_size=12,
)


@given(PIECES)
@example(["`", "<think>", "`", "</think>"])
def test_chunk_boundaries_do_not_matter(pieces: list[str]) -> None:
    """For any text."""
    assert _read(*pieces, key=KEY) == _read("".join(pieces), key=KEY)


@given(PIECES)
def test_the_readable_text_is_valid_and_without_the_key(pieces: list[str]) -> None:
    """Valid Unicode without NUL."""
    text = _read(*pieces, key=KEY)
    assert KEY not in text
    assert "\x00" not in text
    text.encode()


@given(st.text(alphabet="abc<>/` ", max_size=30), st.text(alphabet="abc ", max_size=10))
def test_text_between_reasoning_tags_is_removed(hidden: str, after: str) -> None:
    """Whatever it contains."""
    assert _read(f"<think>SECRET{hidden}SECRET</think>{after}") == after.lstrip()


def test_plain_text_is_not_buffered() -> None:
    """Only text that may become a tag or the key is."""
    readable = ReasoningFilter(Redactor((KEY,)), KEY)
    assert [readable.feed(piece) for piece in ("Some ", "words ", "come.")] == ["Some ", "words ", "come."]


def test_a_short_key_is_not_redacted() -> None:
    """Less than eight characters would match ordinary words."""
    assert _read("the word abc stays", key="abc") == "the word abc stays"


@given(st.text(st.characters(blacklist_categories=("Cs", "Cc"))))
def test_clean_returns_ordinary_text_unchanged(text: str) -> None:
    """The same object."""
    assert clean(text) is text
