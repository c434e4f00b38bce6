"""The question in a message that is longer than a question, by rules."""

from __future__ import annotations

import json
import re
import time

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.request_dtos import MAX_CONTEXT_CHARS, ResearchRequest
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.llm.context_budget import MIDDLE_CUT
from modules.llm_platform.domain.research.long_message import (
    MAX_MESSAGE_CHARS,
    find_question,
    is_excerpt,
    join_context,
    split_message,
)

AGENT = """\
You are a senior research analyst who works for a climate policy team.

## Task
Compare the efficiency of air-source heat pumps with that of gas boilers in cold winters, and tell which of them is cheaper
to run over ten years in Norway.

## Context
- The team publishes a monthly report for municipalities.
- Readers are engineers; they know what a coefficient of performance is.
- Earlier drafts quoted vendor brochures, which the editor did not accept.

## Output
- Use short paragraphs.
- Give figures with units and name the source of each.
- Do not use tables.
- Answer in English. Keep the answer under 300 words.
"""
CANAL = "The canal opened in 1869 after ten years of work. " * (MAX_QUERY_CHARS // 25)
NOTES = "The old server is slow. " * (MAX_QUERY_CHARS // 12)


@for_each(
    "text, question",
    [
        (
            AGENT,
            "Compare the efficiency of air-source heat pumps with that of gas boilers in cold winters, and tell which of them "
            "is cheaper to run over ten years in Norway.",
        ),
        (f"{NOTES}\n\nWhy does PostgreSQL scan tables? Can you help?", "Why does PostgreSQL scan tables?"),
        (f"What is photosynthesis?\n{NOTES}", "What is photosynthesis?"),
        (
            f"{NOTES}\nWhat are the main\ndifferences of TCP\nand QUIC?",
            "What are the main differences of TCP and QUIC?",
        ),
        (f"Please explain the log.\n```\nwhat is null? why?\n```\n{NOTES}", "Please explain the log."),
        (f"Desert plants\n\n{NOTES}", "Desert plants"),
        (f"{NOTES}\n1. **Welche Wärmepumpe passt zu einem Altbau?**", "Welche Wärmepumpe passt zu einem Altbau?"),
        (
            "Das Haus ist alt und kalt. " * MAX_QUERY_CHARS + "Bitte vergleiche Wärmepumpen und Gasheizungen. Danke!",
            "Bitte vergleiche Wärmepumpen und Gasheizungen.",
        ),
        ("我有一个问题。" * MAX_QUERY_CHARS + "请解释光合作用的过程。谢谢。", "请解释光合作用的过程。"),
        (
            "Мой дом старый. " * MAX_QUERY_CHARS + "Пожалуйста, сравни тепловой насос и газовый котёл.",
            "Пожалуйста, сравни тепловой насос и газовый котёл.",
        ),
    ],
)
def test_the_last_question_else_the_last_instruction_else_the_first_line(text: str, question: str) -> None:
    """A polite final question without a topic and text in code are not the question."""
    found, context = split_message(text)
    assert found.strip("*") == question
    assert context == text.strip()
    assert is_excerpt(found, context)


@for_each(
    "text, question",
    [
        (
            f'Information: """{CANAL}"""\n\nUsing the above information, answer the following query or task: "When did the Suez '
            'Canal open?" in a detailed report --\nThe report should be well structured.\nPlease do your best.',
            "When did the Suez Canal open?",
        ),
        (f'Write 3 search queries from the following task: "canals of Europe"\nContext: {CANAL}', "canals of Europe"),
        (
            f"<context>\n{CANAL}\n</context>\n\n<question>\nwhat did the canal cost\n</question>",
            "what did the canal cost",
        ),
        (
            f"<user_query>opening of the canal</user_query>\n<docs>{CANAL} Who paid for it?</docs>",
            "opening of the canal",
        ),
        (f"{NOTES}\n\nTopic: heat pumps in cold climates", "heat pumps in cold climates"),
        (f"{NOTES}\n\n**Research task:** size of the canal\n\nFinal answer:", "size of the canal"),
        (f"{NOTES}\n\n## Question\nsize of the canal", "size of the canal"),
        (
            f"Question: the input question\nThought: think\n{NOTES}\nBegin!\n\nQuestion: Who built the canal\nThought:",
            "Who built the canal",
        ),
        (f"{NOTES}\nFrage: Größe des Suezkanals", "Größe des Suezkanals"),
        (f"{NOTES}\n用户问题：苏伊士运河何时开通", "苏伊士运河何时开通"),
        (json.dumps({"task": "opening of the canal", "context": CANAL}), "opening of the canal"),
        ("```json\n" + json.dumps({"notes": CANAL, "query": 'Größe des "Kanals"'}) + "\n```", 'Größe des "Kanals"'),
        (
            f"{CANAL}\nWhat is the longest canal that he asked for?...",
            "What is the longest canal that he asked for?...",
        ),
    ],
)
def test_a_text_that_is_marked_as_the_question_is_the_question(text: str, question: str) -> None:
    """Prompts of agents name it: in a quotation, a tag, a last line, or a field; also where it has no question mark."""
    assert len(text) > MAX_QUERY_CHARS
    assert find_question(text) == question


@for_each(
    "text, question",
    [
        (f"Question: what is tea made of\n{NOTES}\nWhich server is the fastest?", "Which server is the fastest?"),
        (
            f'The question: "Is Pluto a planet?" divided them. {NOTES}\nWhat is the largest moon of Pluto?',
            "What is the largest moon of Pluto?",
        ),
        (f"What is the longest canal?\n{NOTES}\nTask: Answer the question above.", "What is the longest canal?"),
        (f'```\n{{"query": "red shoes"}}\n```\n{NOTES}\nWhy does this request fail?', "Why does this request fail?"),
        (f"<context>\n{CANAL}\n</context>\nSummarize the history of the canal.", "Summarize the history of the canal."),
        (f"<question>\n{CANAL}", "The canal opened in 1869 after ten years of work."),
    ],
)
def test_other_marks_are_not_the_question(text: str, question: str) -> None:
    """Lists what follows other markers, what they refer to, or a single tag."""
    assert find_question(text) == question


@for_each("text", ["x" * MAX_QUERY_CHARS, "  What is tea?\n"])
def test_a_short_message_is_its_own_question(text: str) -> None:
    """Nothing is left for the context, and nothing is cut."""
    assert split_message(text) == (text.strip(), None)


@for_each(
    "text",
    [
        "x" * (MAX_QUERY_CHARS + 1),
        "y " * (MAX_MESSAGE_CHARS // 2),
        "?" * MAX_MESSAGE_CHARS,
        "\n" * 2 * MAX_QUERY_CHARS + "a",
        "e\u0301" * 5000,
        "<|im_start|>" * 2000,
        "- " * 9000,
        'task: "' * 4000,
        "<question>x" * 2900,
        "Question: " * 3000,
        "{" * 9000,
        "Question:" + "*" * 30_000 + "\nTea\nand milk",
        '{"task": "' * 3000 + "}",
        "a b:\n" * 6000,
        "<a>" * 9000,
    ],
)
def test_any_message_of_the_longest_length_makes_a_request(text: str) -> None:
    """Whatever it consists of: the question is a query, and the context is one of a request."""
    assert len(text) <= MAX_MESSAGE_CHARS
    question, context = split_message(text)
    assert 1 <= len(question) <= MAX_QUERY_CHARS
    assert len(context or "") <= MAX_CONTEXT_CHARS
    assert find_question(text) == question


@for_each("line", ["a\n", "ab cd\n", "a   \n", "> a\n", "\u00e4\r\n"])
def test_a_sentence_of_many_lines_takes_linear_time(line: str) -> None:
    """The event loop waits for it: ten times the lines take no hundred times the CPU time."""
    began = time.process_time()
    assert len(find_question((line * MAX_MESSAGE_CHARS)[:MAX_MESSAGE_CHARS])) <= MAX_QUERY_CHARS
    assert time.process_time() - began < 2  # 0.01 s; with the whole text looked at for each line 11 s


def test_what_is_cut_says_so() -> None:
    """A context that was too long lacks its middle, with a mark there, which also a model reads."""
    cut = join_context("a" * 20_000 + "b" * 20_000)
    assert cut is not None
    assert len(cut) == MAX_CONTEXT_CHARS
    assert re.fullmatch(rf"a+{re.escape(MIDDLE_CUT)}b+", cut)
    assert join_context("a\x00b", "") == "ab"
    assert join_context(None, "a") == join_context("a", " ") == "a"
    assert join_context(None, " ") is None
    assert ResearchRequest(query="What is tea?", context=cut).context == cut


@for_each("length", [10, 20_000, 31_980, MAX_CONTEXT_CHARS - len(MIDDLE_CUT) - 2])
def test_the_message_is_kept_whole_after_the_shortened_text(length: int) -> None:
    """The user's own words are never cut for a long text. They come last, next to the question."""
    message = "w" * length
    cut = join_context(message, "b" * 20_000 + "e" * 20_000)
    assert cut is not None
    assert len(cut) == MAX_CONTEXT_CHARS
    assert re.fullmatch(rf"b*{re.escape(MIDDLE_CUT)}e*\n\n{message}", cut)


@for_each("length", [MAX_CONTEXT_CHARS - 5, MAX_CONTEXT_CHARS, MAX_MESSAGE_CHARS])
def test_a_message_without_room_beside_it_says_what_is_missing(length: int) -> None:
    """The mark for the missing text is present even if none of it fits."""
    cut = join_context("w" * length, "b" * 100)
    assert cut is not None
    assert len(cut) == MAX_CONTEXT_CHARS
    assert MIDDLE_CUT.strip() in cut
    assert cut.count("w") >= MAX_CONTEXT_CHARS - 2 * len(MIDDLE_CUT) - 2
