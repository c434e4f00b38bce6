"""Check the text of a run that its reader stopped before the end. Only words are compared."""

import json
from collections.abc import Sequence

from modules.llm_platform.application.research.events import Verified
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.research_job_dtos import JobEvent
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.text.language import detect_language


def check_stopped_text(
    request_id: str, events: Sequence[JobEvent], sources: Sequence[Source], language: str | None
) -> Verified | None:
    """Return the verdicts on the text in these events; None if the text has no citations.

    `language` is the language of the request. If it is None, the language of the text is detected.
    """
    text = _join_tokens(events)
    checked = CitationChecker(sources, language or detect_language(text) or "en").check(text)
    return Verified(request_id=request_id, citations=checked.citations) if checked.citations else None


def _join_tokens(events: Sequence[JobEvent]) -> str:
    """Return the tokens since the last reset."""
    parts: list[str] = []
    for event in events:
        if event.type == "reset":
            parts.clear()
        elif event.type == "token":
            parts.append(json.loads(event.data)["text"])
    return "".join(parts)
