"""The response object of OpenAI's Responses API and the events of its stream.

Reference of the vendor: https://platform.openai.com/docs/api-reference/responses/object and …/responses-streaming
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

from modules.llm_platform.application.research.events import Planned, Read, RoundStarted, Searched, SourcesNumbered
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse
from modules.llm_platform.presentation.rest.chat_routes import ModelPart
from modules.llm_platform.presentation.rest.compat import chat_completions
from modules.llm_platform.presentation.rest.compat.responses.writer import Envelope, Object, ResponseWriter, Step
from modules.llm_platform.presentation.rest.compat.verified_answers import VerifiedAnswer

SOURCES: Final = "web_search_call.action.sources"  # A value of `include`.
# The reasons of an incomplete response, by the finish reason of the model.
INCOMPLETE: Final[Mapping[str, str]] = {"length": "max_output_tokens", "content_filter": "content_filter"}
# Fields that clients expect, with what they have until the end, or without a use for them.
UNUSED: Final[Mapping[str, Any]] = {
    "error": None,
    "usage": None,
    "completed_at": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "parallel_tool_calls": False,
    "presence_penalty": 0.0,
    "prompt_cache_key": None,
    "reasoning": None,
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}


class OpenaiResponseWriter(ResponseWriter):
    """Writes a response of OpenAI's API.

    A search is an item `web_search_call`, and a further round an item `reasoning`. The message after them has the citations as
    annotations. The call of a client's tool, by a language model or by a research run whose tool was forced, is an item
    `function_call`.
    """

    unused = UNUSED
    checked: VerifiedAnswer | None = None  # the check of a language model's answer, if there is one

    def __init__(self, response_id: str, envelope: Envelope) -> None:
        super().__init__(response_id, envelope)
        self._calls: dict[int, int] = {}  # The position in the output, keyed by the index of the call.

    def part(self, text: str, annotations: Sequence[Mapping[str, Any]] = ()) -> Object:
        return {**super().part(text, annotations), "logprobs": []}

    def _create(self) -> Iterator[Object]:
        if self.envelope.background:
            yield self._part("created", response=self.response("queued"))
            yield self._part("queued", response=self.response("queued"))
        else:
            yield self._part("created", response=self.response("in_progress"))

    def _start(self) -> Iterator[Object]:
        yield self._part("in_progress", response=self.response("in_progress"))

    def _step(self, event: Step) -> Iterator[Object]:
        match event:
            case ModelPart():
                yield from self._delta(event.part.text) if event.part.text else ()
                for call in event.part.tool_calls:
                    yield from self._call_part(call)
            # A run that was interrupted repeats its steps, which have items already.
            case Searched():
                if not any(item.get("action", {}).get("query") == event.query for item in self.output):
                    yield from self._search(event)
            case RoundStarted():
                text = event.summary()
                if not any(item.get("summary", [{}])[0].get("text") == text for item in self.output):
                    yield from self._add_reasoning(text)
            case Planned() | Read() | SourcesNumbered():
                return  # Searches and reasoning are the only steps of this API.
            case _:
                assert_never(event)

    def _search(self, event: Searched) -> Iterator[Object]:
        action: Object = {"type": "search", "query": event.query, "queries": [event.query]}
        if SOURCES in self.envelope.includes:
            action["sources"] = [{"type": "url", "url": result.url} for result in event.results]
        name = f"ws_{self.id}_{len(self.output)}"
        item = {"id": name, "type": "web_search_call", "status": "completed", "action": action}
        position = self._add_item(item)
        yield self._part("output_item.added", output_index=position, item={**item, "status": "in_progress"})
        for step in ("in_progress", "searching", "completed"):
            yield self._part(f"web_search_call.{step}", output_index=position, item_id=item["id"])
        yield self._part("output_item.done", output_index=position, item=item)

    def _add_reasoning(self, text: str) -> Iterator[Object]:
        part = {"type": "summary_text", "text": text}
        item = {"id": f"rs_{self.id}_{len(self.output)}", "type": "reasoning", "summary": [part], "status": "completed"}
        position = self._add_item(item)
        place = {"output_index": position, "item_id": item["id"], "summary_index": 0}
        begun = {**item, "summary": [], "status": "in_progress"}
        yield self._part("output_item.added", output_index=position, item=begun)
        yield self._part("reasoning_summary_part.added", **place, part={**part, "text": ""})
        yield self._part("reasoning_summary_text.delta", **place, delta=text)
        yield self._part("reasoning_summary_text.done", **place, text=text)
        yield self._part("reasoning_summary_part.done", **place, part=part)
        yield self._part("output_item.done", output_index=position, item=item)

    def _open_text(self) -> Iterator[Object]:
        item = self.message("in_progress")
        self._position = self._add_item(item)
        yield self._part("output_item.added", output_index=self._position, item=item)
        yield self._text_part("content_part.added", part=self.part(""))

    def _delta(self, text: str) -> Iterator[Object]:
        for part in super()._delta(text):
            yield {**part, "logprobs": []} if part["type"] == "response.output_text.delta" else part

    def _call_part(self, part: Mapping[str, Any]) -> Iterator[Object]:
        """Yield the events of a part of a call, in the form of chat completions."""
        function = part.get("function") or {}
        position = self._calls.get(part["index"])
        if position is None:
            item = {
                "id": f"fc_{self.id}_{part['index']}",
                "type": "function_call",
                "status": "in_progress",
                "call_id": part.get("id") or f"call_{self.id}_{part['index']}",
                "name": function.get("name") or "",
                "arguments": "",
            }
            position = self._calls[part["index"]] = self._add_item(item)
            yield self._part("output_item.added", output_index=position, item=dict(item))
        if arguments := function.get("arguments"):
            item = self.output[position]
            item["arguments"] += arguments
            yield self._part(
                "function_call_arguments.delta", output_index=position, item_id=item["id"], delta=arguments
            )

    def _finish_call(self, arguments: str, answer: ResearchResponse) -> Iterator[Object]:
        yield from self._call_part({"index": 0, "function": {"name": self.envelope.tool, "arguments": arguments}})
        yield from self._end(answer)

    def _finish(self, text: str, answer: ResearchResponse | LLMResponse) -> Iterator[Object]:
        if isinstance(answer, LLMResponse) and answer.tool_calls and not self._calls:
            if rest := text[len(self._text) :]:  # The text precedes the calls, as in a stream.
                yield from self._delta(rest)
            for index, call in enumerate(answer.tool_calls):
                yield from self._call_part({"index": index, **call})
        yield from super()._finish(text, answer) if text or not self._calls else self._end(answer)

    def _close(self, text: str, answer: ResearchResponse | LLMResponse) -> Iterator[Object]:
        status, _ = _choose_status(answer)
        annotations = self._make_annotations(answer) if isinstance(answer, ResearchResponse) else []
        if self.checked is not None:
            annotations = list(self.checked.url_citations())
        part = self.part(text, annotations)
        item = self.message(status, part)
        self.output[self._position or 0] = item
        for number, annotation in enumerate(annotations):
            yield self._text_part("output_text.annotation.added", annotation_index=number, annotation=annotation)
        yield self._text_part("output_text.done", text=text, logprobs=[])
        yield self._text_part("content_part.done", part=part)
        yield self._part("output_item.done", output_index=self._position, item=item)
        yield from self._end(answer)

    def _end(self, answer: ResearchResponse | LLMResponse) -> Iterator[Object]:
        status, reason = _choose_status(answer)
        for position in self._calls.values():
            item = self.output[position] = {**self.output[position], "status": "completed"}
            whole = {name: item[name] for name in ("name", "arguments")}
            yield self._part("function_call_arguments.done", output_index=position, item_id=item["id"], **whole)
            yield self._part("output_item.done", output_index=position, item=item)
        ended_at = self._get_end(answer) if status == "completed" else None
        extension = (
            chat_completions.make_extension(answer, has_citations=False) if isinstance(answer, ResearchResponse) else {}
        )
        if self.checked is not None and self.checked.has_text:
            extension = self.checked.fields()
        self.final = self.response(
            status,
            self.output,
            completed_at=ended_at,
            usage=sum_usage(answer),
            incomplete_details=reason,
            **extension,
        )
        yield self._part(status, response=self.final)

    def _get_end(self, answer: ResearchResponse | LLMResponse) -> int:
        """Return the time in seconds since 1970: the same each time that a stored response is read."""
        if self.ended_at is not None or isinstance(answer, LLMResponse):
            return self.ended_at or int(time.time())
        return self.envelope.created_at + round(answer.metadata.latency_ms / 1000)

    def _fail(self, problem: Mapping[str, Any]) -> Iterator[Object]:
        self.final = self.failed(problem)
        yield self._part("failed", response=self.final)


def _choose_status(answer: ResearchResponse | LLMResponse) -> tuple[str, Object | None]:
    """Return the status of a finished answer. It is `incomplete`, with a reason, if the service ended it early."""
    reason = INCOMPLETE.get(answer.finish_reason) if isinstance(answer, LLMResponse) else None
    return ("completed", None) if reason is None else ("incomplete", {"reason": reason})


def sum_usage(answer: ResearchResponse | LLMResponse) -> Object:
    """Return the tokens of all model calls."""
    if isinstance(answer, ResearchResponse):
        return make_token_usage(answer.metadata.prompt_tokens, answer.metadata.completion_tokens)
    usage = answer.usage
    return make_token_usage(
        usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens or 0, usage.reasoning_tokens or 0
    )


def make_token_usage(prompt_tokens: int, completion_tokens: int, cached: int = 0, reasoning: int = 0) -> Object:
    return {
        "input_tokens": prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": completion_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt_tokens + completion_tokens,
    }
