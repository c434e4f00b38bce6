"""Tasks about a transcript are recognised by their form, and questions of users never are.

The prompts imitate those of chat programs in our own words. The first half of each list existed before the rules were
written, and the second half was added afterwards. The programs' own prompts are not part of this repository.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.research.transcript_task import MAX_TASK_CHARS, answer_by_rules, transcript_task

CHAT = "USER: What is Python asyncio?\nASSISTANT: A library to write **concurrent** code.\nMore?\nUSER: And tasks?"
HISTORY = f"<chat_history>\n{CHAT}\n</chat_history>"
MAX_CPU_S = 1.0  # quadratic matching takes more than five
ASKED = [("user", "What is Python asyncio?"), ("assistant", "A library.")]

TITLE = (
    f'### Task:\nCreate a brief title that sums up the chat.\n### Output:\nJSON: {{ "title": "the title" }}\n{HISTORY}'
)
TASKS = [
    ([("user", TITLE)], "title", '{"title": "What is Python asyncio"}'),
    ([("user", f'Give 1-3 tags for the themes of the chat.\nJSON: {{ "tags": ["one", "two"] }}\n{HISTORY}')],
     "tags", '{"tags": ["Python", "Asyncio", "Tasks"]}'),
    ([("user", f'Suggest what the user may ask next.\nJSON: {{ "follow_ups": ["Question 1?", "Question 2?"] }}\n{HISTORY}')],
     "follow_ups", '{"follow_ups": []}'),
    ([("user", f'Generate search queries, in JSON: {{ "queries": ["one"] }}. If none: {{ "queries": [] }}\n{HISTORY}')],
     "queries", '{"queries": ["Python asyncio: And tasks?"]}'),
    ([("user", "Return a concise title for the conversation, 5 words.\n\nConversation:\nHuman: Is tea healthy?\nAI: Yes.")],
     "title", "Is tea healthy"),
    ([("system", "Write a short title which captures the essence of the conversation. No punctuation."),
      ("user", "user: Is tea healthy?\nassistant: In moderation.")], "title", "Is tea healthy"),
    # Held back
    ([("user", f'Describe a picture of it. Return it in JSON format: {{ "prompt": "the description" }}\n{HISTORY}')],
     "other", '{"prompt": ""}'),
    ([("user", f"---BEGIN Conversation---\n{CHAT}\n---END Conversation---\nSummarize the conversation in 4 words or less:")],
     "title", "What is Python asyncio"),
    ([*ASKED, ("user", "Please write a 5-word title for the conversation, without dots.")],
     "title", "What is Python asyncio"),
    ([("system", f"Rephrase the follow-up to be a standalone question.\n<chatHistory>\n{CHAT}\n</chatHistory>"),
      ("user", "Follow-up: and tasks, standalone question:")], "queries", "Python asyncio: And tasks?"),
    ([("user", "Analyze this conversation and provide:\n1. its language\n2. A concise title in it (5 words or less)\n\n"
               "Human: Ist Tee gesund?\nAI: Ja.")], "title", "Ist Tee gesund"),
    ([("system", "Create tags for the conversation, as JSON."),
      ("user", f'{{ "tags": ["a"] }}\n<transcript>\n{CHAT}\n</transcript>')],
     "tags", '{"tags": ["Python", "Asyncio", "Tasks"]}'),
]  # fmt: skip

DEBATE = "User: Is tea healthy?\nAssistant: Yes, it lowers blood pressure by 30%."
QUESTIONS = [
    "Suggest a good title for my article about solar sails in 5 words or less.",
    "What tags do video sites recommend for cooking?",
    "Generate a list of search queries for heat pumps.",
    "How do chat programs generate titles and tags of a conversation?",
    f"{DEBATE}\n\nIs what the assistant says true?",
    f"Check the claims in this conversation and write a report with a title and sources.\n\n{DEBATE}",
    f"<conversation>\n{DEBATE}\n</conversation>\nWhich of these claims do studies support?",
    "<transcript>\nThe bank raised its rates.\n</transcript>\nCompare every statement with the news.",
    # Held back
    "### Task:\nRespond to the query from the context, with citations as [id].\n### Output:\nA direct response.\n"
    "<context>\nUser: title of the conversation\nAssistant: tags\n</context>\n<user_query>\nWhat is asyncio?\n</user_query>",
    "Summarize the discussion about nuclear power in Germany in 5 words or fewer and cite sources.",
    'Write a report on how chats are stored, in JSON: { "title": "x" }',
    f"Here is a chat. Write a summary of the evidence on its topic.\n{DEBATE}",
    "Create a title for the conversation between Einstein and Bohr, from their letters.",
    f"Fact-check this dialogue and return a table.\n\nConversation:\n{DEBATE}",
]
LATER = [
    "Write a title for my blog post about tea.",
    "Give me the titles of the books that were mentioned in the conversation between Einstein and Bohr.",
    "Suggest follow-up questions for my discussion group on tea.",
    "Write a summary of the discussion about its title in PEPs.",
    "And its tags?",
]


@for_each(("messages", "product", "answer"), TASKS)
def test_a_task_is_recognised_and_answered_by_rules(messages: list[tuple[str, str]], product: str, answer: str) -> None:
    """The output has the requested content and format."""
    task = transcript_task(messages)
    assert task is not None
    assert (task.product, answer_by_rules(task)) == (product, answer)


@for_each("question", QUESTIONS)
def test_a_question_is_no_task(question: str) -> None:
    """It is researched, whatever it says of titles, tags and chats."""
    assert transcript_task([("user", question)]) is None


@for_each("question", LATER)
def test_a_later_question_is_no_task(question: str) -> None:
    """A continued conversation has another topic than itself."""
    assert transcript_task([*ASKED, ("user", question)]) is None


@pytest.mark.parametrize("name", ["manual_questions.txt", "blind_questions.txt", "model_questions.jsonl"])
def test_no_question_of_the_sets_is_a_task(name: str) -> None:
    """Those with which answers are measured."""
    lines = [line for line in (Path(__file__).parents[4] / "scripts" / name).read_text().splitlines() if line.strip()]
    texts = [" ".join(map(str, json.loads(line).values())) if name.endswith("jsonl") else line for line in lines]
    assert texts
    assert not [text for text in texts if transcript_task([("user", text)])]


PARTS = [HISTORY, CHAT, TITLE, "{", '{"title": "', "</chat_history>"]


@given(st.text(max_size=300), st.lists(st.sampled_from(PARTS), max_size=4))
def test_any_text_is_safe(text: str, parts: list[str]) -> None:
    """A task or none; an answer in JSON where the task names a key."""
    task = transcript_task([("user", text.join(parts) + text)])
    if task is not None and task.key:
        assert list(json.loads(answer_by_rules(task))) == [task.key]


@for_each(
    "text", ["<chat_history>" * 10_000, "User: " * 30_000, "\n" * 150_000, '{ "title": ' * 10_000, "USER:\n" * 30_000]
)
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    """Repeated openings of a transcript, of roles and of objects: none of them is a task, and each is read once."""
    began = time.process_time()
    assert transcript_task([("user", text)]) is None
    assert time.process_time() - began < MAX_CPU_S


def test_a_long_message_is_no_task() -> None:
    """Its transcript would not fit a model."""
    assert transcript_task([("user", f"{TITLE}{'x' * MAX_TASK_CHARS}")]) is None
    assert transcript_task([]) is None
    assert transcript_task([("assistant", TITLE)]) is None
