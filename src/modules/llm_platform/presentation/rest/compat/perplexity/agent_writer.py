"""The response object of Perplexity's Agent API and the events of its stream.

Reference of the vendor: https://docs.perplexity.ai/api-reference/responses-post
"""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from modules.llm_platform.application.research.events import (
    FoundResult,
    Planned,
    Read,
    RoundStarted,
    Searched,
    SourcesNumbered,
)
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.presentation.rest.chat_routes import ModelPart
from modules.llm_platform.presentation.rest.compat import chat_completions
from modules.llm_platform.presentation.rest.compat.responses.writer import Envelope, Object, ResponseWriter, Step


class AgentResponseWriter(ResponseWriter):
    """The items are the numbered sources, the pages that were read, and the message: [n] in the text is the result n."""

    def __init__(self, response_id: str, envelope: Envelope) -> None:
        super().__init__(response_id, envelope)
        self._queries: list[str] = []
        self._found: dict[str, FoundResult] = {}  # Keyed by address.
        self._sources: tuple[SourceRef, ...] = ()
        self._excerpts: dict[str, str] = {}  # Excerpts of the stored texts, keyed by address.
        self._read: list[str] = []  # The addresses of pages.
        self._thought: Object = {}  # The thought of a round that has no query yet.

    def _create(self) -> Iterator[Object]:
        yield self._part("created", response=self.response("queued" if self.envelope.background else "in_progress"))

    def _start(self) -> Iterator[Object]:
        yield self._part("in_progress", response=self.response("in_progress"))
        yield self._part("reasoning.started")

    def _step(self, event: Step) -> Iterator[Object]:
        match event:
            case Searched():
                self._found |= {result.url: result for result in event.results if result.url not in self._found}
                if event.query not in self._queries:  # A run that was interrupted repeats its steps.
                    self._queries.append(event.query)
                    thought, self._thought = self._thought, {}
                    yield self._part("reasoning.search_queries", queries=[event.query], **thought)
            case Read():
                if event.chars and event.url not in self._read:
                    self._read.append(event.url)
                    yield self._part("reasoning.fetch_url_queries", urls=[event.url])
                    yield self._part("reasoning.fetch_url_results", contents=[self._make_content(event.url)])
            case RoundStarted():
                self._thought = {"thought": event.summary()}  # It is sent with the first query of the round.
            case SourcesNumbered():
                self._sources = event.sources
                urls = (source.url for source in event.sources)
                self._excerpts = dict(zip(urls, event.excerpts, strict=False))  # An older version stored none.
                yield self._part("reasoning.search_results", results=self._list_results())
            case Planned() | ModelPart():
                return  # The API has no plan, and no language model answers its requests.
            case _:
                assert_never(event)

    def _finish_call(self, arguments: str, answer: ResearchResponse) -> Iterator[Object]:
        yield from self._stop_reasoning()
        call = {"id": f"fc_{self.id}", "call_id": f"call_{self.id}", "name": self.envelope.tool, "arguments": arguments}
        yield from self._write_item({"type": "function_call", "status": "completed", **call})
        yield from self._end(answer)

    def _stop_reasoning(self) -> Iterator[Object]:
        yield self._part("reasoning.stopped")
        for item in self._make_tool_items():
            yield from self._write_item(item)

    def _open_text(self) -> Iterator[Object]:
        yield from self._stop_reasoning()
        item = self.message("in_progress")
        self._position = self._add_item(item)
        yield self._part("output_item.added", output_index=self._position, item=item)

    def _close(self, text: str, answer: ResearchResponse | LLMResponse) -> Iterator[Object]:
        assert isinstance(answer, ResearchResponse)  # noqa: S101  a language model answers no request of this API
        item = self.message("completed", self.part(text, self._make_annotations(answer)))
        self.output[self._position or 0] = item
        yield self._text_part("output_text.done", text=text)
        yield self._part("output_item.done", output_index=self._position, item=item)
        yield from self._end(answer)

    def _end(self, answer: ResearchResponse) -> Iterator[Object]:
        for tool_item in self._make_tool_items():  # Pages are also read while the text is written.
            yield from self._update(tool_item)
        extension = chat_completions.make_extension(answer, has_citations=False)
        self.final = self.response("completed", self.output, usage=self._make_usage(answer), **extension)
        yield self._part("completed", response=self.final)

    def _fail(self, problem: Mapping[str, Any]) -> Iterator[Object]:
        self.final = self.failed(problem)
        error = {"message": problem.get("detail", ""), "code": problem.get("code"), "type": problem.get("title")}
        yield self._part("failed", error=error)

    def _make_tool_items(self) -> Iterator[Object]:
        if self._queries or self._sources:
            yield {"type": "search_results", "queries": list(self._queries), "results": self._list_results()}
        if self._read:
            yield {"type": "fetch_url_results", "contents": [self._make_content(url) for url in self._read]}

    def _update(self, item: Object) -> Iterator[Object]:
        for position, known in enumerate(self.output):
            if known["type"] == item["type"]:
                self.output[position] = item
                return
        yield from self._write_item(item)

    def _write_item(self, item: Object) -> Iterator[Object]:
        position = self._add_item(item)
        yield self._part("output_item.added", output_index=position, item=item)
        yield self._part("output_item.done", output_index=position, item=item)

    def _list_results(self) -> list[Object]:
        results = []
        for source in self._sources:
            snippet, found = self._find_snippet(source.url), self._found.get(source.url)
            result = {"id": source.index, "title": source.title, "url": source.url, "source": "web", "snippet": snippet}
            results.append({**result, "date": found.published} if found else result)
        return results

    def _make_content(self, url: str) -> Object:
        found = self._found.get(url)
        title = next((source.title for source in self._sources if source.url == url), found.title if found else "")
        return {"url": url, "title": title, "snippet": self._find_snippet(url)}

    def _find_snippet(self, url: str) -> str:
        """Return the text of the search result. For a page that no search found, return the beginning of its text."""
        found = self._found.get(url)
        return (found.snippet if found else "") or self._excerpts.get(url, "")

    def _make_usage(self, answer: ResearchResponse) -> Object:
        meta = answer.metadata
        tools = {"search_web": {"invocation": len(self._queries)}, "fetch_url": {"invocation": len(self._read)}}
        usage: Object = {
            "input_tokens": meta.prompt_tokens,
            "output_tokens": meta.completion_tokens,
            "total_tokens": meta.tokens_used,
            "tool_calls_details": tools,
        }
        if meta.cost_usd is not None:
            usage["cost"] = {"currency": "USD", "input_cost": 0.0, "output_cost": 0.0, "total_cost": meta.cost_usd}
        return usage
