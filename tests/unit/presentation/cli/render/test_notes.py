"""The notes of the terminal about what deviates from the request."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.presentation.cli.render.terminal import GO_DEEPER, describe_degradations, render_sources


@for_each(
    ("reason", "note"),
    [
        ("store: the answer could not be stored", "store: the answer could not be stored"),
        ("web_search_timeout: no answer within 10 s", "store: no answer within 10 s"),
        ("not stored: the disk is full", "store: not stored: the disk is full"),
        ("PostgreSQL: check DATABASE_URL", "store: PostgreSQL: check DATABASE_URL"),
        ("timeout: store: no answer", "store: store: no answer"),
    ],
)
def test_a_note_has_no_error_code(reason: str, note: str) -> None:
    """A code of one word or of several is left out, once. Other words before a colon stay."""
    assert describe_degradations([Degraded(component="store", reason=reason)]) == [note]


@for_each("language", ["en", "de", "zh"])
def test_an_offer_of_a_deeper_search_names_the_option(language: str) -> None:
    """The text names the field of a request, which a reader of the terminal does not know."""
    messages = get_messages(language)
    metadata = ResearchMetadata(latency_ms=1, language=language)
    refusal = ResearchResponse(query="Why?", depth="shallow", synthesis=messages.not_answered, metadata=metadata)
    offer = refusal.model_copy(update={"synthesis": f"{messages.not_answered}\n\n{messages.go_deeper}"})
    shown = [[line.text for line in render_sources(response)] for response in (refusal, offer)]
    assert [f"Note: {GO_DEEPER}" in lines for lines in shown] == [False, True]
