"""Requests: from bytes to what is asked, or to what is wrong with them (rag-core.md §§4.1, 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import RagQuestion, RagSearch, RagStage
from modules.llm_platform.presentation.kafka import fields
from modules.llm_platform.presentation.kafka.request_error import WHOLE_MESSAGE, RequestError
from modules.llm_platform.presentation.kafka.strict_json import Members, UnreadableError, read_object

READ_AT_MOST_BYTES: Final = (
    2_000_000  # of a message that is too large anyway, to find its id; 0.4 s a megabyte at worst
)

_ECHOED: Final = frozenset({"trace_id", "metadata"})
_KNOWN_FIELDS: Final = frozenset(
    {"request_id", "trace_id", "metadata", "query", "top_k", "filters", "question", "context"}
)


@dataclass(slots=True)
class Echo:
    """What an outcome repeats: JSON texts as they were sent. None is what was not given, or cannot be repeated."""

    trace_id: str | None = None
    metadata: str | None = None


@dataclass(slots=True)
class Message:
    """A request as far as it could be read. `request_id` None: there was none to be read. `tenant` is the one that it names
    where requests must name one; None: there was none to be read.
    """

    request_id: str | None
    echo: Echo
    asked: RagSearch | RagQuestion | RequestError
    tenant: str | None = None


def read_message(stage: RagStage, value: bytes | None, max_bytes: int, tenant_field: str | None = None) -> Message:
    """What the bytes ask, or the first thing that is wrong with them; nothing is raised.

    What can be read is there also when the rest is wrong: the sender gets the failure under the id that it knows.
    """
    identity, tenant, echo = None, None, Echo()
    try:
        members = _members(value, max_bytes)
        echo = Echo(_as_sent(members, "trace_id", str), _as_sent(members, "metadata", dict))
        identity = _identity(members)
        tenant = _tenant(members, tenant_field)
        if value is not None and len(value) > max_bytes:
            raise RequestError(WHOLE_MESSAGE, "too_large")
        _check(members)
        asked = _search(members) if stage == "search" else _question(members)
        if tenant_field is not None:
            asked = _of_tenant(asked, tenant_field, members.values.get("metadata"))
    except RequestError as error:
        return Message(identity, echo, error, tenant)
    return Message(identity, echo, asked, tenant)


def _members(value: bytes | None, max_bytes: int) -> Members:
    if value is None:
        raise RequestError(WHOLE_MESSAGE, "tombstone")
    if len(value) > max(max_bytes, READ_AT_MOST_BYTES):
        raise RequestError(WHOLE_MESSAGE, "too_large")
    try:
        return read_object(value, _ECHOED)
    except UnreadableError as error:
        reason = "too_large" if len(value) > max_bytes else error.flaw
        raise RequestError(WHOLE_MESSAGE, reason) from error


def _as_sent(members: Members, name: str, kind: type) -> str | None:
    """The JSON text of a member of this kind; a flawed one cannot be repeated."""
    return members.texts[name] if type(members.values.get(name)) is kind else None


def _identity(members: Members) -> str:
    if "request_id" in members.flaws:
        raise RequestError("request_id", members.flaws["request_id"])
    return fields.request_id(members.values.get("request_id"))


def _tenant(members: Members, tenant_field: str | None) -> str | None:
    """Whose request it is, whatever else is wrong with it; None where it does not say so in a way that can be read."""
    metadata = members.values.get("metadata")
    if tenant_field is None or type(metadata) is not dict:
        return None
    try:
        return fields.tenant(metadata.get(tenant_field), tenant_field)
    except RequestError:
        return None


def _check(members: Members) -> None:
    """What holds for both stages: no flaw anywhere, also where nobody reads, and what is echoed is of its type."""
    for name, flaw in members.flaws.items():
        raise RequestError(name if name in _KNOWN_FIELDS else WHOLE_MESSAGE, flaw)
    if type(members.values.get("trace_id")) not in (str, type(None)):
        raise RequestError("trace_id", "wrong_type")
    if type(members.values.get("metadata")) not in (dict, type(None)):
        raise RequestError("metadata", "wrong_type")


def _search(members: Members) -> RagSearch:
    return RagSearch(
        query=fields.question(members.values.get("query"), "query"),
        top_k=fields.top_k(members.values.get("top_k")),
        filters=fields.filters(members.values.get("filters")),
    )


def _question(members: Members) -> RagQuestion:
    return RagQuestion(
        question=fields.question(members.values.get("question"), "question"),
        context=fields.context(members.values.get("context")),
    )


def _of_tenant(asked: RagSearch | RagQuestion, field: str, metadata: Any) -> RagSearch | RagQuestion:
    """The same for one tenant's documents; a request that names none sees nothing, one that names another is refused."""
    tenant = fields.tenant((metadata or {}).get(field), field)
    if tenant not in asked.filters.get(field, (tenant,)):
        raise RequestError("filters", "tenant_mismatch")
    return asked.model_copy(update={"filters": {**asked.filters, field: (tenant,)}})
