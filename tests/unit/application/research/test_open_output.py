"""JSON without a schema: the caller's description of the object reaches the model that writes it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from modules.llm_platform.application.research import structured_output
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.research.long_message import split_message
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.testing.llm import FakeLLM

CONTEXT_TOKENS = 16_000
WAIT_S = 60.0
QUESTION = "When was the Forth Bridge opened?"
SHAPE = {"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}
# The words of the libraries: instructor (Mode.JSON), pydantic-ai (PromptedOutput), DSPy (JSONAdapter).
INSTRUCTOR = (
    "As a genius expert, your task is to understand the content and provide the parsed objects in json that match the "
    f"following json_schema:\n\n{json.dumps(SHAPE, indent=2)}\n\n"
    "Make sure to return an instance of the JSON, not the schema itself"
)
PYDANTIC_AI = (
    f"Always respond with a JSON object that's compatible with this schema:\n\n{json.dumps(SHAPE)}\n\n"
    "Don't include any text or Markdown fencing before or after."
)
DSPY = (
    "Your input fields are:\n1. `question` (str):\nYour output fields are:\n1. `year` (int):\n"
    "All interactions will be structured in the following way, with the appropriate values filled in.\n\n"
    "Inputs will have the following structure:\n\n[[ ## question ## ]]\n{question}\n\n"
    'Outputs will be a JSON object with the following fields.\n\n{\n  "year": "{year}        # note: must be an int"\n}'
)


def answered() -> ResearchResponse:
    source = SourceRef(index=1, title="Forth Bridge", url="https://example.org/")
    return ResearchResponse(
        query=QUESTION,
        depth="shallow",
        synthesis="It was opened in 1890 [1].",
        sources=(source,),
        metadata=ResearchMetadata(latency_ms=0),
    )


async def prompts_for(**fields: Any) -> list[str]:
    """Return the texts that the model read."""
    llm = FakeLLM(['{"year": 1890}'])
    structured = structured_output.StructuredOutput(llm, context_tokens=CONTEXT_TOKENS)
    request = ResearchRequest(query=QUESTION, **fields)
    until = asyncio.get_running_loop().time() + WAIT_S
    response = await structured.complete_response(answered(), request, has_sources=True, until=until)
    assert response.output == {"year": 1890}
    return [message.content for message in llm.requests[0].messages]


@pytest.mark.parametrize("words", [INSTRUCTOR, PYDANTIC_AI, DSPY], ids=["instructor", "pydantic-ai", "dspy"])
async def test_words_of_a_library_reach_the_writer_of_the_object(words: str) -> None:
    system, _ = await prompts_for(output_schema={"type": "object"}, instructions=words)
    assert words in system


async def test_words_beyond_the_instructions_reach_it_too_and_are_bounded() -> None:
    """What does not fit into instructions travels as context; an endless text leaves room for the answer."""
    system, _ = await prompts_for(output_schema={"type": "object"}, instructions="Be brief.", context=PYDANTIC_AI)
    assert PYDANTIC_AI in system
    system, user = await prompts_for(output_schema={"type": "object"}, context="word " * 6000)
    assert count_tokens(system) < structured_output.MAX_FORM_TOKENS + 1000
    assert "1890" in user


async def test_a_schema_says_all_of_the_form() -> None:
    """Wishes for the text are none for the object."""
    system, _ = await prompts_for(output_schema=SHAPE, instructions="Write in German.")
    assert "German" not in system


def test_question_of_a_filled_template_is_searched() -> None:
    """DSPy writes the question below a mark, and lists the requested fields after it."""
    message = (
        f"[[ ## question ## ]]\n{QUESTION}\n\nRespond with a JSON object in the following order of fields: `year`."
    )
    question, _ = split_message(message)
    assert QUESTION in question
