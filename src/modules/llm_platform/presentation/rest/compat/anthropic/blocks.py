"""An answer as the content blocks of Anthropic's Messages API: searches, their results, and text with citations.

Reference of the vendor: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, Final, assert_never

from pydantic_core import from_json

from modules.llm_platform.application.research import events
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation
from modules.llm_platform.domain.dtos.llm_dtos import LLMResponse
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.urls.canonical_url import canonical_url, page_url
from modules.llm_platform.presentation.rest.compat import structured
from modules.llm_platform.presentation.rest.compat.chat_completions import EXTENSION
from modules.llm_platform.presentation.rest.compat.verified_answers import VerifiedAnswer

OPAQUE_CHARS: Final = 24

_MARKERS = re.compile(r"(?:[^\S\n]*\[\d{1,4}\])*[.!?…。！？]*\s*")  # markers and stops after a cited sentence

Block = dict[str, Any]


class MessageBlocks:
    """The blocks of one answer, from the events of its research run in their order.

    Each search is a `server_tool_use` with its results. Sources that no search found, such as sources of an earlier answer,
    are in a pair of their own. The text comes last, when its citations are verified: they belong inside its blocks.

    - `is_json` is True if the text is the `output` as JSON, in one block.
    - `tool` is the client's tool that is called with that `output` as input, or empty.
    - `shows_thinking` is True if each further round is a block of thinking.
    """

    def __init__(
        self, request_id: str, question: str, *, is_json: bool = False, tool: str = "", shows_thinking: bool = False
    ) -> None:
        self._request_id = request_id
        self._question = question
        self._is_json = is_json
        self._shows_thinking = shows_thinking
        self.tool = tool
        self._searches = 0
        self._found: set[str] = set()

    def of(self, event: events.ResearchEvent) -> Iterator[Block]:
        if isinstance(event, events.PlatformEvent):
            return
        match event:
            case events.Searched():
                yield from self._search(event.query, event.results)
            case events.RoundStarted():
                if self._shows_thinking:  # a client that did not ask for such blocks may not know them
                    yield {"type": "thinking", "thinking": event.summary(), "signature": ""}
            case events.SourcesNumbered():
                others = [source for source in event.sources if canonical_url(source.url) not in self._found]
                if others:
                    yield from self._search(self._question, others)
            case events.Done():
                yield from self.text(event.response)
            case events.Planned() | events.Read():
                return  # searches and thinking are the only steps of a message
            case events.Token() | events.Reset():
                return  # the text follows when its citations are verified
            case events.Failed():
                return  # an error is not a block
            case _:
                assert_never(event)

    def text(self, response: ResearchResponse) -> Iterator[Block]:
        """Yield the text in blocks that together are the synthesis, each cited sentence with its markers as one block.

        Raises OutputError if the text is JSON, and the schema was not filled.
        """
        if self.tool:
            called = json.loads(structured.write_json(response))  # raises for a schema that was not filled
            yield {"type": "tool_use", "id": f"toolu_{self._request_id}", "name": self.tool, "input": called}
            return
        if self._is_json:
            yield {"type": "text", "text": structured.write_json(response)}
            return
        text, done = response.synthesis, 0
        sources = {source.index: source for source in response.sources}
        for start, end, citations in _split_sentences(response):
            before = text[done:start]
            if any(map(str.isalnum, before)):  # otherwise it is a bullet, which stays with its sentence
                yield {"type": "text", "text": before}
                done = start
            if end > done:
                yield _build_cited_block(text[done:end], citations, sources, self._request_id)
                done = end
        if done < len(text):
            yield {"type": "text", "text": text[done:]}

    def _search(self, query: str, results: Sequence[events.FoundResult | SourceRef]) -> Iterator[Block]:
        self._searches += 1
        self._found.update(canonical_url(result.url) for result in results)
        use_id = f"srvtoolu_{self._request_id}_{self._searches}"
        yield {"type": "server_tool_use", "id": use_id, "name": "web_search", "input": {"query": query}}
        yield {
            "type": "web_search_tool_result",
            "tool_use_id": use_id,
            "content": [
                {
                    "type": "web_search_result",
                    "url": result.url,
                    "title": result.title,
                    "encrypted_content": _make_opaque(self._request_id, result.url),
                    "page_age": getattr(result, "published", None),
                }
                for result in results
            ],
        }


def make_model_blocks(
    answer: LLMResponse, request_id: str, *, shows_thinking: bool, checked: VerifiedAnswer | None = None
) -> Iterator[Block]:
    """Yield the blocks of a language model's answer: what it thought, its text, its calls of tools.

    A text that was `checked` has the citations that its material supports.
    """
    if shows_thinking and answer.reasoning:
        yield {"type": "thinking", "thinking": answer.reasoning, "signature": ""}
    if answer.content:
        citations = list_checked_citations(checked, request_id)
        yield {"type": "text", "text": answer.content, **({"citations": citations} if citations else {})}
    for number, call in enumerate(answer.tool_calls):
        function = call["function"]
        yield {
            **call_block(request_id, number, call.get("id"), function["name"]),
            "input": parse_arguments(function["arguments"]),
        }


def list_checked_citations(checked: VerifiedAnswer | None, request_id: str) -> list[Block]:
    """Return the citations of the API: those with a supporting quote from a source with an address."""
    if checked is None:
        return []
    sources = {source.index: source for source in checked.evidence.sources}
    return [
        _locate(citation, source.url, source.title, request_id)
        for citation in checked.evidence.citations
        if citation.verdict in SUPPORTING_VERDICTS
        and citation.quote
        and (source := sources.get(citation.source_index)) is not None
        and source.url
    ]


def call_block(request_id: str, number: int, call_id: str | None, name: str) -> Block:
    """Return a call of a tool of the client, as it begins a stream."""
    return {"type": "tool_use", "id": call_id or f"toolu_{request_id}_{number}", "name": name, "input": {}}


def parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call, or none if they are not a JSON object."""
    try:
        value = from_json(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _split_sentences(response: ResearchResponse) -> Iterator[tuple[int, int, list[Citation]]]:
    """Yield the cited sentences in their order, each up to the next text, with their citations."""
    in_order = sorted(response.citations, key=lambda citation: (citation.start, citation.end))
    for (start, end), citations in groupby(in_order, key=lambda citation: (citation.start, citation.end)):
        markers = _MARKERS.match(response.synthesis, end)
        yield start, markers.end() if markers else end, list(citations)


def _build_cited_block(
    text: str, citations: Iterable[Citation], sources: Mapping[int, SourceRef], request_id: str
) -> Block:
    """Return a sentence. Only citations with a supporting quote are citations of the API. The extension has all."""
    described = [citation.model_dump(mode="json", exclude={"start", "end"}) for citation in citations]
    located = [
        _locate(citation, source.url, source.title, request_id)
        for citation in citations
        if citation.verdict in SUPPORTING_VERDICTS and citation.quote and (source := sources.get(citation.source_index))
    ]
    block: Block = {"type": "text", "text": text, EXTENSION: {"citations": described}}
    return {**block, "citations": located} if located else block


def _locate(citation: Citation, url: str, title: str, request_id: str) -> Block:
    return {
        "type": "web_search_result_location",
        "url": page_url(url, citation.page),
        "title": title,
        "cited_text": citation.quote,
        "encrypted_index": _make_opaque(request_id, url, str(citation.quote_start), str(citation.quote_end)),
    }


def _make_opaque(*parts: str) -> str:
    """Return a value that clients send back and nobody reads: this server stores what it has read itself."""
    return sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:OPAQUE_CHARS]
