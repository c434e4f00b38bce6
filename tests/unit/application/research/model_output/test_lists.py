"""Questions and queries, whatever list a model makes of them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.application.research.model_output.lists import MAX_ITEMS, list_words, read_line, read_strings

A, B = "How does a heat pump work?", "What does it cost?"


@for_each("label", sorted(list_words("labels")))
def test_every_label_is_a_prefix(label: str) -> None:
    """In small letters and in capitals, numbered or not, with either colon, in a list and in bold."""
    for line in (
        f"{label}: {A}",
        f"{label.upper()} 1: {A}",
        f"{label.capitalize()} №2：{A}",
        f"- **{label}:** {A}",
        f"3. *{label} 3*: {A}",
        f'"{label}: {A}"',
    ):
        assert read_line(line) in {A, f'{A}"'.strip('"')}, line
        assert read_strings(f"Sure:\n{line}\n") == [A], line


@for_each(
    "line",
    [
        "",
        "None",
        A,
        "Question:",
        "QUESTION: None",
        "Question without a colon",
        "[Question: no]",
        "［Question: no [or]?",
        "Example: a",
        "12:30 is noon",
    ],
)
def test_line_without_prefix_has_no_item(line: str) -> None:
    """A streamed line is an item only if it begins with a known word and a colon."""
    assert read_line(line) is None


@for_each(
    ("text", "items"),
    [
        (f"Question: {A} Question: {B}", [A, B]),
        (f"Question:\n{A}\nQuestion:\n{B}", [A, B]),
        (f"Question:\n- {A}\n- {B}", [A, B]),
        (f"Questions:\n1. {A}\n2. {B}", [A, B]),
        (f"1. {A}\n\n2. {B}\n\nGood luck!", [A, B]),
        (f"① {A}\n② {B}", [A, B]),
        (f"a) {A}\nb) {B}", [A, B]),
        (f"**{A}**\n“{B}”", [A, B]),
        (f"{A}\n{B}", [A, B]),
        (f"```\n{A}\n{B}\n```", [A, B]),
        (f"# Plan\n{A}\n---\n{B}", [A, B]),
        (f"Here is the list: ['{A}', '{B}']", [A, B]),
        (f"[{A}, {B}]", [A, B]),
        ("[MoT] what is it\n[MoE] what is that", ["[MoT] what is it", "[MoE] what is that"]),
        (json.dumps([A, B])[:-9], [A]),
        (json.dumps({"query": "heat pumps", "sub_questions": [A, B]}), [A, B]),
        (json.dumps({"plan": [{"id": 1, "question": A, "why": "x"}, {"id": 2, "question": B}]}), [A, B]),
        (json.dumps({"question_1": A, "question_2": B, "goal": "x"}), [A, B]),
        (json.dumps({"side one": A, "side two": B, "language": "en"}), [A, B]),
        ('What is "foo"\n.NET on Linux\n__init__ in Python', ['What is "foo"', ".NET on Linux", "__init__ in Python"]),
        ("I'm sorry, no.", []),
        ("К сожалению, нет.", []),
        ("None", []),
        ("[]", []),
        ("{}", []),
        ("", []),
        ("<think>Question: trap", []),
        ("Question: Question: Question:", []),
    ],
)
def test_every_list_format_is_read(text: str, items: list[str]) -> None:
    """Prefixes, JSON, bullets, plain lines; headings, refusals and empty words are no items."""
    assert read_strings(text) == items


@given(st.lists(st.text("abcdef ghä?", min_size=4).filter(lambda text: text.strip()), min_size=1, max_size=5))
def test_items_are_equal_in_every_format(items: list[str]) -> None:
    """As a JSON list, with prefixes, or as bullets: the items are the same, in the same order."""
    items = [" ".join(item.split()) for item in items]
    dressed = (
        json.dumps(items),
        "\n".join(f"ЗАПРОС: {item}" for item in items),
        "\n".join(f"- {item}" for item in items),
    )
    assert {tuple(read_strings(text)) for text in dressed} == {tuple(items)}


def test_items_are_bounded() -> None:
    """A list without end is cut."""
    assert len(read_strings("\n".join(f"Query: pump {number}" for number in range(1000)))) == MAX_ITEMS


def test_phrases_are_lower_case() -> None:
    """They are compared with lowered text, so another spelling would never match."""
    phrases = list_words("labels", "item_keys", "metadata_keys", "non_items", "refusals")
    assert all(word == word.lower() == word.strip() and word for word in phrases)
    assert list_words("metadata_keys").isdisjoint(list_words("labels", "item_keys"))
