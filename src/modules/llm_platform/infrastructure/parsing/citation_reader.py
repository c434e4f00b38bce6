"""Reads the citations of foreign texts in the parsers' processes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from modules.llm_platform.domain.citations.forms.cited_text import CitedSource, CitedText, Piece
from modules.llm_platform.domain.exceptions import UNREADABLE_CITATIONS, VerificationError
from modules.llm_platform.infrastructure.parsing.async_parsers import AsyncParsers
from modules.llm_platform.infrastructure.parsing.decoding import UnreadableDocument


class ChildCitationReader(AsyncParsers):
    """Reads citations like `domain.citations.forms.citation_forms.read_citations`, in a process with a limit of CPU time."""

    async def __call__(self, text: str, given: Sequence[CitedSource]) -> CitedText:
        """Return the text with markers, and its sources. Raises VerificationError for a text that takes too long."""
        request = {"text": text, "given": [_describe_given(source) for source in given]}
        try:
            answer = await self.run(lambda parser: parser.citations(request))
        except UnreadableDocument as error:
            raise VerificationError(UNREADABLE_CITATIONS.format(reason=error)) from error
        pieces = [
            Piece(start, original, end, is_copied, (link[0], link[1]) if link else None)
            for start, original, end, is_copied, link in answer["pieces"]
        ]
        return CitedText(answer["text"], tuple(_to_source(source, given) for source in answer["sources"]), pieces)


def _describe_given(source: CitedSource) -> dict[str, Any]:
    return {
        "index": source.index,
        "url": source.url,
        "title": source.title,
        "has_text": bool(source.text),
        "is_numbered": source.is_numbered,
    }


def _to_source(answer: dict[str, Any], given: Sequence[CitedSource]) -> CitedSource:
    source = CitedSource(
        answer["index"],
        answer["url"],
        answer["title"],
        is_listed=answer["is_listed"],
        is_numbered=answer["is_numbered"],
    )
    if (position := answer["text_of"]) is None:
        return source
    sent = given[position]
    return replace(source, text=sent.text, pages=sent.pages, is_whole=sent.is_whole)
