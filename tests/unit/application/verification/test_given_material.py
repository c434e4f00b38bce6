"""What a model was given: every form in which clients hand material over, bounded, under the numbers that it has there."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from typing import Any

import pytest
from tests.support.growth import is_linear

from modules.llm_platform.application.verification import given_material
from modules.llm_platform.application.verification.given_material import (
    MAX_GIVEN_CHARS,
    MAX_GIVEN_SOURCES,
    collect_given,
    link_named_addresses,
)
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
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
        "[1]" + " " * 700 + "x" * 600,
        "[1]" + " " * 50_000 + "x" * 600,
        "Source 1" + " " * 50_000 + "x" * 600,
        "\n[1]" + "\t:" * 50_000,
        "<document>x</document>" + "<" * 50_000 + "a" * 50_000,
        "<a" * 50_000 + "<document>x</document>",
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
    given = [CitedSource(1, text="See https://nordwind.example/warranty for the warranty of five years.")]
    linked = link_named_addresses(
        "Five years (https://nordwind.example/warranty#terms), https://other.example/x.", given
    )
    assert [(source.index, source.url) for source in linked] == [(2, "https://nordwind.example/warranty#terms")]
    assert linked[0].text == given[0].text


def test_passages_of_one_long_line_keep_their_numbers() -> None:
    long = "It is installed on level ground. " * 22
    given = found(user(f"[1] {HANDBOOK} {long}\n[2] {ABOUT} {long}\n\nHow heavy is it?"))
    assert [(index, *texts) for index, _, _, *texts in given] == [(1, True, False), (2, False, True)]


@pytest.mark.parametrize(
    "written",
    [
        '"000001' + "1" * 5000 + '"',
        '"' + "9" * 4999 + '"',
        "9" * 4200,
        "9" * 5000,
        "true",
        "-1",
        "1.5",
        '"²"',
        '"0001000"',
    ],
    ids=range(9),
)
def test_what_is_no_number_of_a_passage_is_ignored(written: str) -> None:
    """Python refuses to convert very long numbers: one in the material is not an error of the gateway."""
    given = collect_given([result(f'{{"text": "{HANDBOOK}", "id": {written}}}')])
    assert (given[0].index, given[0].is_numbered, HANDBOOK in given[0].text) == (1, False, True)
    assert collect_given([result(f"<source id='{written[:900]}'>{HANDBOOK}</source>")])[0].index == 1


@pytest.mark.parametrize(
    "text",
    [
        f"{HANDBOOK}\n\nReferences\n[1] Smith, Heat pumps, 2020\n[2] Jones, Warranties, 2019\n",
        f'{HANDBOOK}\n<video><source src="a.mp4">x</source></video>',
        f"[1] Nordwind handbook\nAbout this device.\n\n{HANDBOOK}",
    ],
)
def test_nothing_of_the_result_of_a_tool_is_lost(text: str) -> None:
    assert any(has_text for *_, has_text, _ in found(call("fetch", {"url": OTHER}), result(text)))


def test_the_rest_of_a_result_has_the_name_of_what_was_called_and_comes_last() -> None:
    pages = [call("fetch", {"url": OTHER}), result(f"{HANDBOOK}\n[1] Smith\n{ABOUT}")]
    assert found(*pages) == [(1, "Smith", "", False, True), (2, "", OTHER, True, False)]


def test_json_with_further_values_is_material_as_a_whole() -> None:
    stated = {"description": "A heat pump.", "weight": "142 kg", "results": [{"content": ABOUT}]}
    assert any("142 kg" in source.text for source in collect_given([result(json.dumps(stated))]))


def test_the_result_of_a_tool_takes_no_number_and_no_address_of_another_source() -> None:
    claimed = result(f"[1] Other {URL}\n{ABOUT}")
    mine = f"[1] Handbook {URL}\n{HANDBOOK}\n\nHow heavy is it?"
    expected = [(1, "Handbook", URL, True, False), (2, "Other", "", False, True)]
    assert found(user(mine), claimed) == expected
    fetched = [call("fetch", {"url": URL}), result(HANDBOOK), result(f"[1] Other {URL}\n{ABOUT}", "c2")]
    assert [(url, text) for _, _, url, text, _ in found(*fetched)] == [(URL, True), ("", False)]


def test_only_sources_with_a_number_of_their_own_are_numbered() -> None:
    given = collect_given([result(f"[3] Handbook\n{HANDBOOK}"), result(ABOUT, "c2")])
    assert [(source.index, source.is_numbered) for source in given] == [(3, True), (1, False)]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("https://nordwind.example/handbook-2019-archive", False),
        ("http://www.nordwind.example/handbook/?utm_source=x", True),
        ("www.nordwind.example/handbook", True),
        ("https://nordwind.example/HANDBOOK", False),
    ],
)
def test_addresses_in_a_text_are_compared_whole_and_in_canonical_form(text: str, is_found: bool) -> None:
    linked = link_named_addresses(f"It weighs 142 kg ({URL}).", [CitedSource(1, text=f"See {text} for this.")])
    assert [source.url for source in linked] == [URL] * is_found


def test_words_of_the_model_that_a_tool_returns_are_no_material() -> None:
    write = call("write_file", {"path": "notes.md", "content": HANDBOOK})
    echoes = [f"Wrote notes.md: {HANDBOOK}", HANDBOOK, json.dumps({"text": HANDBOOK, "written": HANDBOOK})]
    for echo in echoes:
        assert not any(has_text for *_, has_text, _ in found(write, result(echo)))
    assert [text for *_, text, _ in found(result(HANDBOOK), call("note", {"text": HANDBOOK}, "c2"))] == [True]
    assert [text for *_, text, _ in found(call("read", {"path": "a.md"}), result(HANDBOOK))] == [True]


def test_long_arguments_of_many_calls_take_little_time() -> None:
    writes = [call("write", {"content": f"{number} " + "word and " * 2000}, "x") for number in range(100)]
    many = result(json.dumps([{"text": f"word and word and {number} word"} for number in range(19_000)]))
    began = time.process_time()
    collect_given([*writes, many, result("word and " * 100_000)])
    assert time.process_time() - began < 3


def test_equal_passages_without_number_take_little_time() -> None:
    """A passage that another one repeats is compared with the arguments of calls too, and the newest passages alone are."""
    write = call("write", {f"k{number}": "ab " * 330 + str(number) for number in range(100)}, "x")

    def collect(passages: int) -> None:
        assert len(collect_given([write, result(json.dumps([{"text": "ab " * 7 + "q"}] * passages))])) == 1

    assert is_linear(lambda: collect(given_material.MAX_PASSAGES), lambda: collect(10 * given_material.MAX_PASSAGES), 1)


def test_fields_before_the_text_of_an_element_cost_time_in_proportion_to_their_number() -> None:
    def collect(fields: int) -> None:
        text = f"<document>{'<id>1</id>' * fields}{HANDBOOK}</document>"
        assert [source.text for source in collect_given([user(text)])] == [HANDBOOK]

    assert is_linear(lambda: collect(15_000), lambda: collect(150_000), 10)


def test_a_file_is_read_up_to_the_limit_and_its_last_character_may_be_cut() -> None:
    content = "é" * 1_500_000
    file = {"filename": "a.txt", "file_data": f"data:text/plain;base64,{b64encode(content.encode()).decode()}"}
    parts = ({"type": "file", "file": file}, {"type": "file", "file": {"file_data": "data:,It%20is%20so."}})
    given = collect_given([ChatMessage(role="user", content="", parts=parts)])
    assert [(source.title, len(source.text)) for source in given] == [("a.txt", 200_000), ("", 9)]
