"""The notes of the terminal about what deviates from the request."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.presentation.cli.render.terminal import describe_degradations


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
