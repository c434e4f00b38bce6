"""What a model was given: every form in which clients hand material over, bounded, under the numbers that it has there."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from modules.llm_platform.application.verification.given_material import (
    MAX_GIVEN_CHARS,
    MAX_GIVEN_SOURCES,
    collect_given,
    link_named_addresses,
)
from modules.llm_platform.domain.citations.forms.citation_forms import GivenSource
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage

HANDBOOK, ABOUT = "The Nordwind heat pump weighs 142 kg.", "The municipality has 8,400 inhabitants."


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def call(name: str, arguments: Any, number: str = "c1") -> ChatMessage:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return ChatMessage(
        role="assistant", content="", tool_calls=({"id": number, "type": "function", "function": function},)
    )


def result(text: str, number: str = "c1") -> ChatMessage:
    return ChatMessage(role="tool", content=text, tool_call_id=number)


def found(*messages: ChatMessage) -> list[tuple[int, str, str, bool, bool]]:
    """Return index, title, address, and which of the two texts each source has."""
    given = collect_given(messages)
    return [(one.index, one.title, one.url, HANDBOOK in one.text, ABOUT in one.text) for one in given]


URL, OTHER = "https://nordwind.example/handbook", "https://brennhagen.example/about"


@pytest.mark.parametrize(
    "text",
    [
        f"[1] Handbook {URL}\n{HANDBOOK}\n\n[2] About ({OTHER})\n{ABOUT}\n\nHow heavy is it?",
        f"【1】Handbook\n{URL}\n{HANDBOOK}\n【2】About\n{OTHER}\n{ABOUT}",
        f"Source 1: Handbook {URL}\n{HANDBOOK}\nSource 2: About {OTHER}\n{ABOUT}",
        f'<document index="1" title="Handbook" url="{URL}">{HANDBOOK}</document>'
        f'<document index="2" title="About" url="{OTHER}">{ABOUT}</document>',
        f"<documents>\n<document index='1'>\n<source>Handbook</source>\n<url>{URL}</url>\n<document_content>\n{HANDBOOK}\n"
        f"</document_content>\n</document>\n<document index='2'>\n<source>About</source><url>{OTHER}</url>\n{ABOUT}\n</document>",
        f'<source id="1" name="Handbook" href="{URL}">{HANDBOOK}</source>\n'
        f'<source id="2" name="About" href="{OTHER}">{ABOUT}</source>',
        json.dumps(
            {
                "results": [
                    {"title": "Handbook", "url": URL, "content": HANDBOOK},
                    {"title": "About", "url": OTHER, "snippet": ABOUT},
                ]
            }
        ),
    ],
)
def test_passages_of_every_form_have_their_numbers_titles_and_addresses(text: str) -> None:
    expected = [(1, "Handbook", URL, True, False), (2, "About", OTHER, False, True)]
    assert found(user(text)) == expected
    assert found(result(text)) == expected
    assert found(ChatMessage(role="system", content=text)) == expected


def test_the_result_of_a_tool_is_a_source_with_the_name_of_what_it_read() -> None:
    calls = [
        call("read_file", {"path": "handbook.md"}),
        result(HANDBOOK),
        call("fetch", {"url": OTHER}, "c2"),
        result(ABOUT, "c2"),
    ]
    assert found(*calls) == [(1, "handbook.md", "", True, False), (2, "", OTHER, False, True)]
    assert found(call("lookup", {"a": "x", "b": "y"}), result(HANDBOOK)) == [(1, "lookup", "", True, False)]
    assert found(result(HANDBOOK, "unknown")) == [(1, "", "", True, False)]


def test_words_of_the_model_and_of_the_prompt_are_no_material() -> None:
    assistant = ChatMessage(role="assistant", content=f"[1] Handbook\n{HANDBOOK}" * 20)
    assert (
        collect_given(
            [assistant, ChatMessage(role="system", content="You are helpful. " * 100), user("How heavy is it?")]
        )
        == ()
    )


def test_a_long_paragraph_of_the_user_is_material() -> None:
    assert found(user(f"{HANDBOOK} {'It stands on a level foundation. ' * 20}\n\nHow heavy is it?")) == [
        (1, "", "", True, False)
    ]


def test_newer_passages_keep_a_number_that_both_have_and_repeated_texts_count_once() -> None:
    older, newer = result(f"[1] Old\n{HANDBOOK}"), result(f"[1] New\n{ABOUT}")
    assert [(index, title) for index, title, *_ in found(older, newer, newer)] == [(2, "Old"), (1, "New")]


def test_the_newest_material_is_kept_within_the_limits() -> None:
    many = [result(f"Reading {number}: the value is {number}.", "x") for number in range(MAX_GIVEN_SOURCES + 20)]
    given = collect_given(many)
    assert len(given) == MAX_GIVEN_SOURCES
    assert f"Reading {MAX_GIVEN_SOURCES + 19}" in given[-1].text
    long = collect_given([result(f"{number} " + "word " * 30_000, "x") for number in range(10)])
    assert sum(len(source.text) for source in long) <= MAX_GIVEN_CHARS
    assert long[-1].text.startswith("9 ")
    assert len({source.index for source in given}) == len(given)


@pytest.mark.parametrize(
    "text",
    [
        "<document>" * 100_000,
        "<document index='1'>" + "</" * 400_000,
        "<source " + "a=" * 400_000,
        "[1] x\n" * 160_000,
        "[" * 1_000_000,
        '{"content":' * 90_000,
        json.dumps([{"content": "x"}] * 60_000),
        "[1]" + " " * 1_000_000,
        "Source 1: " * 100_000,
        "<url>https://a.example/" * 40_000,
    ],
)
def test_hostile_material_takes_little_time(text: str) -> None:
    began = time.process_time()
    given = collect_given([result(text), user(text)])
    assert time.process_time() - began < 3
    assert len(given) <= MAX_GIVEN_SOURCES


def test_an_address_inside_a_given_text_has_that_text() -> None:
    given = [GivenSource(1, text="See https://nordwind.example/warranty for the warranty of five years.")]
    linked = link_named_addresses(
        "Five years (https://nordwind.example/warranty#terms), https://other.example/x.", given
    )
    assert [(source.index, source.url) for source in linked] == [(2, "https://nordwind.example/warranty#terms")]
    assert linked[0].text == given[0].text
