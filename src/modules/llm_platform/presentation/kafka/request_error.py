"""What can be wrong with a request, in words for its sender that hold nothing of what was sent."""

from __future__ import annotations

from typing import Final, Literal

from modules.llm_platform.presentation.kafka.strict_json import Flaw

Reason = Literal[
    Flaw,
    "tombstone",
    "too_large",
    "empty_or_missing",
    "wrong_type",
    "out_of_range",
    "too_long",
    "too_many",
    "not_unicode",
    "nul_character",
    "reserved",
    "tenant_missing",
    "tenant_mismatch",
]

WHOLE_MESSAGE: Final = "message"  # the field of a reason that belongs to none

MEANINGS: Final[dict[Reason, str]] = {
    "tombstone": "has no value",
    "too_large": "is longer than this service accepts",
    "not_utf8": "is not UTF-8",
    "not_json": "is not JSON",
    "not_an_object": "is not a JSON object",
    "duplicate_key": "has a key more than once",
    "not_a_number": "holds NaN or Infinity, which JSON does not know",
    "too_deep": "is nested more than 64 levels deep",
    "empty_or_missing": "is empty or missing",
    "wrong_type": "is of the wrong type",
    "out_of_range": "must be greater than 0",
    "too_long": "is too long",
    "too_many": "has too many entries",
    "not_unicode": "holds half of a surrogate pair",
    "nul_character": "holds a NUL character",
    "reserved": "begins with a word that is reserved for requests without a readable id",
    "tenant_missing": "does not name the tenant",
    "tenant_mismatch": "asks for another tenant than metadata names",
}


class RequestError(Exception):
    """The request cannot be carried out as it is. `field` is one of the contract's own names; `path` the place inside it."""

    def __init__(self, field: str, reason: Reason, path: str = "") -> None:
        self.field, self.reason, self.path = field, reason, path
        super().__init__(f"{path or field} {MEANINGS[reason]}")

    def details(self) -> dict[str, str]:
        """`details` of the failure."""
        return {"field": self.field, "reason": self.reason, **({"path": self.path} if self.path else {})}
