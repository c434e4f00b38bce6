"""Requests: from bytes to what is asked, or to what is wrong with them (requirements RC3 and RC5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters, RagQuestion, RagSearch, RagStage
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.presentation.kafka.contract.strict_json import Flaw, Members, UnreadableError, read_object

# What can be wrong with a request, in words for its sender that hold nothing of what was sent.


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
    return request_id(members.values.get("request_id"))


def _tenant(members: Members, tenant_field: str | None) -> str | None:
    """Whose request it is, whatever else is wrong with it; None where it does not say so in a way that can be read."""
    metadata = members.values.get("metadata")
    if tenant_field is None or type(metadata) is not dict:
        return None
    try:
        return tenant_id(metadata.get(tenant_field), tenant_field)
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
        query=question(members.values.get("query"), "query"),
        top_k=top_k(members.values.get("top_k")),
        filters=filters(members.values.get("filters")),
    )


def _question(members: Members) -> RagQuestion:
    return RagQuestion(
        question=question(members.values.get("question"), "question"),
        context=context(members.values.get("context")),
    )


def _of_tenant(asked: RagSearch | RagQuestion, field: str, metadata: Any) -> RagSearch | RagQuestion:
    """The same for one tenant's documents; a request that names none sees nothing, one that names another is refused."""
    tenant = tenant_id((metadata or {}).get(field), field)
    if tenant not in asked.filters.get(field, (tenant,)):
        raise RequestError("filters", "tenant_mismatch")
    return asked.model_copy(update={"filters": {**asked.filters, field: (tenant,)}})


# The rules of single fields: each takes a value as JSON gave it and returns what it means, or raises RequestError.
# None is what an optional field is when it was not given.


MAX_ID_CHARS: Final = 1000
MAX_TENANT_CHARS: Final = 1000
MAX_FILTERS: Final = 100  # keys
MAX_FILTER_VALUES: Final = 1000  # of one key
MAX_CONTEXT_ITEMS: Final = 1000
LARGEST_TOP_K: Final = 1_000_000  # what is larger means the same: as many as there may be

RESERVED_ID: Final = "unparsable:"

_CONTEXT_FIELDS: Final = tuple(ContextItem.model_fields)


def text(value: Any, field: str, path: str = "") -> str:
    """A string that can be written as UTF-8."""
    if type(value) is not str:
        raise RequestError(field, "wrong_type", path)
    if not value.isascii() and not _is_unicode(value):
        raise RequestError(field, "not_unicode", path)
    return value


def request_id(value: Any) -> str:
    """One to MAX_ID_CHARS characters that do not look like an id of ours."""
    if value is None or value == "":
        raise RequestError("request_id", "empty_or_missing")
    identity = text(value, "request_id")
    if len(identity) > MAX_ID_CHARS:
        raise RequestError("request_id", "too_long")
    if identity.startswith(RESERVED_ID):
        raise RequestError("request_id", "reserved")
    return identity


def tenant_id(value: Any, name: str) -> str:
    """Who is named in the field `name` of metadata: one to MAX_TENANT_CHARS characters."""
    path = f"metadata.{name}"
    if not value:
        raise RequestError("metadata", "tenant_missing", path)
    named = text(value, "metadata", path)
    if len(named) > MAX_TENANT_CHARS:
        raise RequestError("metadata", "too_long", path)
    return named


def question(value: Any, field: str) -> str:
    """A query or question without blanks around it: of any length, with something that can be seen."""
    if value is None:
        raise RequestError(field, "empty_or_missing")
    asked = text(value, field)
    if "\x00" in asked:
        raise RequestError(field, "nul_character")
    try:
        return clean_query(asked)
    except ValueError as error:
        raise RequestError(field, "empty_or_missing") from error


def top_k(value: Any) -> int | None:
    """A whole number from 1; 5.0 is one too, as JSON Schema has it, and true is not."""
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(min(value, LARGEST_TOP_K))
    if type(value) is not int:
        raise RequestError("top_k", "wrong_type")
    if value < 1:
        raise RequestError("top_k", "out_of_range")
    return min(value, LARGEST_TOP_K)


def filters(value: Any) -> Filters:
    """Key to values; a key without values is not given."""
    if value is None:
        return {}
    if type(value) is not dict:
        raise RequestError("filters", "wrong_type")
    if len(value) > MAX_FILTERS:
        raise RequestError("filters", "too_many")
    return {text(key, "filters"): _values(listed) for key, listed in value.items() if listed not in (None, [])}


def _values(listed: Any) -> tuple[str, ...]:
    if type(listed) is not list:
        raise RequestError("filters", "wrong_type")
    if len(listed) > MAX_FILTER_VALUES:
        raise RequestError("filters", "too_many")
    return tuple(text(value, "filters") for value in listed)


def context(value: Any) -> tuple[ContextItem, ...]:
    """The pieces in their order; one that says nothing is left out."""
    if value is None:
        return ()
    if type(value) is not list:
        raise RequestError("context", "wrong_type")
    if len(value) > MAX_CONTEXT_ITEMS:
        raise RequestError("context", "too_many")
    items = [_context_item(item, f"context[{number}]") for number, item in enumerate(value)]
    return tuple(item for item in items if item is not None)


def _context_item(value: Any, path: str) -> ContextItem | None:
    if type(value) is not dict:
        raise RequestError("context", "wrong_type", path)
    given = {
        name: text(value[name], "context", f"{path}.{name}")
        for name in _CONTEXT_FIELDS
        if value.get(name) not in (None, "")
    }
    return ContextItem(**given) if given else None


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


# The five topics of the contract (requirement RC2).


REQUEST_TOPICS: Final[dict[RagStage, str]] = {"search": "rag_search_request", "answer": "rag_answer_request"}
RESULT_TOPICS: Final[dict[RagStage, str]] = {"search": "rag_search_result", "answer": "rag_answer_result"}
FAILED_TOPIC: Final = "rag_failed"
STAGE_OF: Final[dict[str, RagStage]] = {topic: stage for stage, topic in REQUEST_TOPICS.items()}
