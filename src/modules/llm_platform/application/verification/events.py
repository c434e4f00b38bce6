"""The events of a verification, in order (docs/reference/http.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from pydantic import BaseModel

from modules.llm_platform.application.research.events import Failed, Read, Started
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedSentence, VerifiedText


class _Event(BaseModel, frozen=True):
    request_id: str


class SourcesNamed(_Event, frozen=True):
    """The sources that the text names, under its numbers, and how many sentences it has."""

    type: Literal["sources"] = "sources"
    sources: tuple[SourceRef, ...]
    sentences: int


class SentenceVerified(_Event, frozen=True):
    """A sentence whose sources are read; sent again if a later source or a model changes its verdict."""

    type: Literal["sentence"] = "sentence"
    sentence: VerifiedSentence


class TextVerified(_Event, frozen=True):
    """Last: all sentences with their final verdicts."""

    type: Literal["done"] = "done"
    response: VerifiedText


VerificationEvent = Started | SourcesNamed | Read | SentenceVerified | TextVerified | Failed
EmitEvent = Callable[[VerificationEvent], None]

VERIFICATION_EVENT_TYPES: Final[Mapping[str, type[VerificationEvent]]] = {
    event.model_fields["type"].default: event for event in get_args(VerificationEvent)
}
