"""Reads the citations of a text in the parser's process, which can be ended while a regular expression runs.

A request is JSON with `text` and `given`, an answer has `sources` and `pieces`, and the rewritten text as its content. The
texts of the given sources stay with the server: `has_text` says that there is one, and `text_of` of a source in the answer
is the position of the given source whose text it has.
"""

import json
import sys
from pathlib import Path
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import Answer

PACKAGE = "modules.llm_platform"


def read_citations(content: bytes) -> Answer:
    """Return the sources of a text, and its rewritten text with the pieces that map it to the text as sent."""
    _open_domain()
    from modules.llm_platform.domain.citations.forms.citation_forms import TooManyCitationsError, read_citations
    from modules.llm_platform.domain.citations.forms.cited_text import CitedSource

    request: dict[str, Any] = json.loads(content)
    given = [
        CitedSource(
            found["index"],
            found["url"],
            found["title"],
            str(position) if found["has_text"] else "",
            is_numbered=found["is_numbered"],
        )
        for position, found in enumerate(request["given"])
    ]
    try:
        cited = read_citations(request["text"], given)
    except TooManyCitationsError as error:
        return {"error": str(error)}
    sources = [
        {
            "index": source.index,
            "url": source.url,
            "title": source.title,
            "is_listed": source.is_listed,
            "is_numbered": source.is_numbered,
            "text_of": int(source.text) if source.text else None,
        }
        for source in cited.sources
    ]
    return {"text": cited.markdown, "sources": sources, "pieces": cited.pieces}


def _open_domain() -> None:
    """Let this process import the domain, which needs nothing else of the package. `__main__.py` hides both."""
    package = sys.modules[PACKAGE]
    if not list(package.__path__):
        package.__path__ = [str(Path(__file__).parents[2])]
