"""Structured output on the wired platform: the text is written first, then the object, whose strings are checked
against the text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.report_world import stage_of

from modules.llm_platform import (
    ILLMProvider,
    IWebSearchProvider,
    LLMPlatform,
    LLMRequest,
    OutputSchemaError,
    ResearchRequest,
    ResearchResponse,
    WebSearchResultItem,
)
from modules.llm_platform.application.research.events import Done, Token
from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.llm_dtos import LLMStreamPart
from modules.llm_platform.domain.dtos.request_dtos import ShortMessage
from modules.llm_platform.domain.exceptions import LLMConnectionError, LLMProviderException
from modules.llm_platform.testing import FakeLLM, FakeWebSearch
from shared.config import Settings

QUESTION = "When was the Forth Bridge built, and how long is it?"
BUILT = "The Forth Bridge was opened in March 1890."
LONG = "The Forth Bridge has a total length of 2467 metres."
TEXT = f"{BUILT[:-1]} [1]. {LONG[:-1]} [2]."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "opened": {"type": ["integer", "null"]},
        "summary": {"type": "string"},
        "kind": {"enum": ["bridge", "<other> [7]"]},
        "source": {"type": "string"},
        "facts": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["opened", "summary"],
    "additionalProperties": False,
}
GOOD = {"opened": 1890, "summary": "The Forth Bridge was opened in March 1890 [1]."}
FIRST_URL = "https://docs.test/0"


class Model(FakeLLM):
    """Writes TEXT, and returns `outputs` in turn, which are objects or errors."""

    def __init__(self, *outputs: object, text: str = TEXT) -> None:
        super().__init__([text], name="scripted")
        said = [output if isinstance(output, Exception) else _said(output) for output in outputs or (GOOD,)]
        self.outputs = FakeLLM(said, name="scripted")

    async def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        source = self.outputs.stream(request) if stage_of(request) == "output" else super().stream(request)
        async for part in source:
            yield part


def _said(output: object) -> str:
    return output if isinstance(output, str) else json.dumps(output)


def platform(model: ILLMProvider | None, *, found: bool = True, **settings: Any) -> LLMPlatform:
    items = [
        WebSearchResultItem(title=f"Page {n}", url=f"https://docs.test/{n}", snippet=f"{text} It spans the firth.")
        for n, text in enumerate((BUILT, LONG))
    ]
    parts: dict[Any, Any] = {IWebSearchProvider: FakeWebSearch(items if found else [])}
    if model is not None:
        parts[ILLMProvider] = model
    return build_platform(
        Settings(**{"CITATION_JUDGE": "off", "READ_PAGES": 0, "STORE_TTL_DAYS": 0, **settings}), parts
    )


async def answer(model: Model, *, found: bool = True, **fields: Any) -> ResearchResponse:
    async with platform(model, found=found) as wired:
        request = {"query": QUESTION, "output_schema": SCHEMA, **fields}
        return await wired.research.research(ResearchRequest.model_validate(request))


def reasons(response: ResearchResponse) -> list[str]:
    return [degradation.reason for degradation in response.degraded if degradation.component == "output"]


@pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
async def test_the_text_is_written_first_and_then_put_into_the_schema(depth: str) -> None:
    """The model gets the text and the schema. The answer has text, citations and object, and the call is counted."""
    model = Model(text=TEXT)
    done = await answer(model, depth=depth)
    assert done.output == GOOD
    assert BUILT[:-1] in done.synthesis
    assert done.citations
    assert reasons(done) == []
    [asked] = model.outputs.requests
    assert done.synthesis.partition("\n")[0] in asked.messages[-1].content
    assert asked.json_schema == SCHEMA
    assert asked.is_callers_schema
    assert '"opened"' in asked.messages[0].content
    assert done.metadata.llm_calls == len(model.requests) + 1
    assert done.metadata.completion_tokens > 0


async def test_without_a_schema_nothing_is_asked() -> None:
    model = Model()
    done = await answer(model, output_schema=None)
    assert (done.output, model.outputs.requests, reasons(done)) == (None, [], [])


async def test_without_a_model_the_field_is_refused() -> None:
    """The request is refused before any search. The message names the field and the remedy."""
    async with platform(None) as wired:
        request = ResearchRequest(query=QUESTION, output_schema=SCHEMA)
        with pytest.raises(OutputSchemaError, match="LLM_API_KEY") as caught:
            await wired.research.research(request)
        with pytest.raises(OutputSchemaError):
            wired.research.check(request)
    assert (caught.value.status_code, caught.value.field) == (422, "output_schema")


async def test_an_object_that_does_not_fit_is_tried_again_with_its_errors() -> None:
    model = Model({"opened": "1890", "colour": "red"}, GOOD)
    done = await answer(model)
    assert done.output == GOOD
    first, second = model.outputs.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2].role == "assistant"
    for error in ('$: required ["opened","summary"]', "$.opened: type", "$: additionalProperties false"):
        assert error in second.messages[-1].content
    assert reasons(done) == []


@pytest.mark.parametrize("said", ["I cannot do that.", {"opened": "x"}, '{"opened": 1890', [GOOD["opened"]]])
async def test_after_two_tries_the_text_stays_and_degraded_says_why(said: object) -> None:
    model = Model(said)
    done = await answer(model)
    assert done.output is None
    assert done.synthesis
    assert done.citations
    assert len(model.outputs.requests) == 2
    [reason] = reasons(done)
    assert reason.startswith("llm_provider: its JSON does not fit the schema: $")


async def test_a_service_that_fails_with_the_schema_is_asked_without_it() -> None:
    """If a service fails with the schema, it is called without it. The prompt contains the schema, too."""
    model = Model(LLMProviderException("it failed"), GOOD)
    done = await answer(model)
    assert done.output == GOOD
    assert [request.json_schema for request in model.outputs.requests] == [SCHEMA, None]
    assert done.metadata.llm_calls == 3


async def test_an_unavailable_model_costs_one_attempt() -> None:
    model = Model(LLMConnectionError("the model is away"))
    done = await answer(model)
    assert (done.output, reasons(done)) == (None, ["llm_connection: the model is away"])
    assert len(model.outputs.requests) == 1


async def test_fences_reasoning_and_words_around_the_object_do_not_matter() -> None:
    said = f"<think>An object.</think>Here it is:\n```json\n{json.dumps(GOOD)}\n```"
    assert (await answer(Model(said))).output == GOOD


async def test_output_markers_match_the_text() -> None:
    """Invented and wrong markers are removed, and a sentence without a marker gets the one of the text."""
    output = {
        "opened": 1890,
        "summary": "The Forth Bridge was opened in March 1890 [1][9].",
        "facts": [
            "The Forth Bridge has a total length of 2467 metres.",
            "The Forth Bridge has a total length of 2467 metres [1].",
            "The Forth Bridge was opened in March 1940 [1].",
            "Queensferry",
        ],
    }
    done = await answer(Model(output))
    assert done.output == {
        "opened": 1890,
        "summary": "The Forth Bridge was opened in March 1890 [1].",
        "facts": [
            "The Forth Bridge has a total length of 2467 metres [2].",
            "The Forth Bridge has a total length of 2467 metres.",
            "The Forth Bridge was opened in March 1940.",
            "Queensferry",
        ],
    }
    assert reasons(done) == ["unsupported: the answer does not support 2 texts of the output; the markers were removed"]


async def test_texts_of_the_schema_and_of_sources_stay_as_they_are() -> None:
    """Constants of the schema and titles and addresses of sources are kept unchanged."""
    output = {**GOOD, "kind": "<other> [7]", "source": FIRST_URL, "facts": ["Page 0"]}
    assert (await answer(Model(output))).output == output


async def test_markers_leave_a_text_that_has_no_room_for_them() -> None:
    schema = {"properties": {"length": {"type": "string", "maxLength": len(LONG)}}, "required": ["length"]}
    done = await answer(Model({"length": LONG}), output_schema=schema)
    assert done.output == {"length": LONG}


@pytest.mark.parametrize(
    "address",
    ["https://evil.example/?q=1", "http://docs.test.evil.example/0", "javascript://x", f"{FIRST_URL}?steal=1"],
)
async def test_addresses_are_those_of_sources(address: str) -> None:
    """A string that is only an address must be a source's address. Within a sentence, another address is not a link."""
    model = Model({**GOOD, "source": address}, {**GOOD, "source": FIRST_URL})
    assert (await answer(model)).output == {**GOOD, "source": FIRST_URL}
    assert "$.source: only addresses of the sources" in model.outputs.requests[1].messages[-1].content
    done = await answer(Model({**GOOD, "facts": [f"See ![it]({address}) and <img src={address}>."]}))
    assert done.output is not None
    assert f"]({address}" not in json.dumps(done.output)
    assert "<img" not in json.dumps(done.output)


async def test_nothing_found_fills_nothing() -> None:
    """Without sources no object is filled, because a model would have to invent the values."""
    model = Model()
    done = await answer(model, found=False)
    assert (done.output, model.outputs.requests) == (None, [])
    assert reasons(done)[0].startswith("no_sources")


async def test_a_greeting_fills_nothing() -> None:
    """A greeting is answered in words. JSON clients find the reason in its field."""
    async with platform(Model()) as wired:
        done = await wired.research.research(ShortMessage(query="hi", output_schema=SCHEMA))
    assert (done.output, reasons(done)[0].partition(":")[0]) == (None, "short_message")


async def test_limits_of_a_report_hold_for_the_output() -> None:
    """The output call counts for max_llm_calls and is reserved. With a limit of one call there is only the text."""
    model = Model()
    done = await answer(model, depth="report", max_llm_calls=2)
    assert (done.output, reasons(done)) == (GOOD, [])
    assert done.metadata.llm_calls == 2
    model = Model()
    done = await answer(model, depth="report", max_llm_calls=1)
    assert (done.output, model.outputs.requests, done.metadata.llm_calls) == (None, [], 1)
    assert "max_llm_calls" in reasons(done)[0]


async def test_a_late_output_is_left_out() -> None:
    """The time limit of the research run also limits the output."""
    model = Model()
    model.outputs = FakeLLM([json.dumps(GOOD)], name="scripted", delay_s=3600)
    async with platform(model, RESEARCH_TIMEOUT_S=2) as wired:
        async with asyncio.timeout(60):
            done = await wired.research.research(ResearchRequest(query=QUESTION, output_schema=SCHEMA))
    assert done.output is None
    assert done.synthesis
    assert reasons(done)[0].startswith("llm_timeout")


async def test_a_stream_ends_with_the_output() -> None:
    """The tokens of the text come first, and the last event has the object."""
    async with platform(Model()) as wired:
        events = [event async for event in wired.research.stream(ResearchRequest(query=QUESTION, output_schema=SCHEMA))]
    assert "".join(event.text for event in events if isinstance(event, Token)) == TEXT
    assert isinstance(events[-1], Done)
    assert events[-1].response.output == GOOD
    assert sum(isinstance(event, Done) for event in events) == 1


async def test_a_text_that_does_not_fit_is_cut_and_a_schema_that_does_not_fit_is_not_tried() -> None:
    long_text = " ".join(f"{BUILT[:-1]} [1]." for _ in range(400))
    done = await answer_with_context(2048, Model(text=long_text))
    assert done.output == GOOD
    assert any(reason.startswith("cut:") for reason in reasons(done))
    done = await answer_with_context(1000, Model(), {**SCHEMA, "description": "It is long. " * 200})
    assert done.output is None
    assert "LLM_CONTEXT_TOKENS" in reasons(done)[0]


async def answer_with_context(tokens: int, model: Model, schema: Any = SCHEMA) -> ResearchResponse:
    async with platform(model, LLM_CONTEXT_TOKENS=tokens) as wired:
        return await wired.research.research(ResearchRequest(query=QUESTION, output_schema=schema))


@pytest.mark.parametrize(
    "said", ["[" * 5000, '{"a":' * 2000 + "1" + "}" * 2000, '{"opened": 1e999, "summary": "\\ud800"}']
)
async def test_hostile_objects_are_bounded(said: str) -> None:
    """Deep nesting, non-JSON numbers and lone surrogates end in a serialisable object or in none."""
    done = await answer(Model(said))
    assert ResearchResponse.model_validate_json(done.model_dump_json()).output == done.output


async def test_a_stored_report_is_put_into_any_schema(tmp_path: Path) -> None:
    """The report is replayed without cost. Only the object is made again, also for another schema."""
    model, other = Model(GOOD, {"facts": []}), {"properties": {"facts": {"type": "array"}}, "required": ["facts"]}
    settings = {"STORE_TTL_DAYS": 1, "LLM_PLATFORM_DATA_DIR": tmp_path, "DATABASE_URL": None}
    async with platform(model, **settings) as wired:
        asked = [
            ResearchRequest(query=QUESTION, depth="report", output_schema=schema) for schema in (None, SCHEMA, other)
        ]
        plain, filled, again = [await wired.research.research(request) for request in asked]
    assert (plain.output, filled.output, again.output) == (None, GOOD, {"facts": []})
    assert (filled.synthesis, again.synthesis) == (plain.synthesis, plain.synthesis)
    assert plain.metadata.stored_at is None
    assert filled.metadata.stored_at is not None
    assert (filled.metadata.llm_calls, again.metadata.llm_calls) == (1, 1)
