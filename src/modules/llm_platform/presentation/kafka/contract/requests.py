"""Name the topics, and parse the bytes of a request into a search or a question."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from modules.llm_platform.domain.dtos.retrieval_dtos import ContextItem, Filters, RagQuestion, RagSearch, RagStage
from modules.llm_platform.domain.dtos.web_search_dtos import clean_query
from modules.llm_platform.presentation.kafka.contract import strict_json

REQUEST_TOPICS: Final[dict[RagStage, str]] = {"search": "rag_search_request", "answer": "rag_answer_request"}
RESULT_TOPICS: Final[dict[RagStage, str]] = {"search": "rag_search_result", "answer": "rag_answer_result"}
FAILED_TOPIC: Final = "rag_failed"
STAGES: Final[tuple[RagStage, ...]] = tuple(REQUEST_TOPICS)

MAX_PARSED_BYTES: Final = (
    2_000_000  # An oversized message up to this size is parsed to find its id, in at most 0.4 s/MB.
)
KAFKA_ID_CHARS: Final = 1000
MAX_TENANT_CHARS: Final = 1000
MAX_FILTERS: Final = 100  # Keys of all filters.
KAFKA_FILTER_VALUES: Final = 1000  # Values of each key.
MAX_CONTEXT_ITEMS: Final = 1000
KAFKA_TOP_K: Final = 1_000_000  # Larger values are lowered to this one.

FALLBACK_ID_PREFIX: Final = "unparsable:"
WHOLE_MESSAGE: Final = "message"  # The field of an error that concerns no single field.

_KNOWN_FIELDS: Final = frozenset(
    {"request_id", "trace_id", "metadata", "query", "top_k", "filters", "question", "context"}
)
_CONTEXT_FIELDS: Final = tuple(ContextItem.model_fields)

Reason = Literal[
    strict_json.Flaw,
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

# A text follows the name of the field, and repeats nothing of the message.
REASON_TEXTS: Final[dict[Reason, str]] = {
    "tombstone": "has no value",
    "too_large": "is longer than this service accepts",
    "not_utf8": "is not UTF-8",
    "not_json": "is not JSON",
    "not_an_object": "is not a JSON object",
    "duplicate_key": "has a key more than once",
    "not_a_number": "contains NaN or Infinity, which JSON does not allow",
    "too_deep": f"is nested more than {strict_json.JSON_DEPTH} levels deep",
    "empty_or_missing": "is empty or missing",
    "wrong_type": "is of the wrong type",
    "out_of_range": "must be greater than 0",
    "too_long": "is too long",
    "too_many": "has too many entries",
    "not_unicode": "contains half of a surrogate pair",
    "nul_character": "contains a NUL character",
    "reserved": f"begins with {FALLBACK_ID_PREFIX}, which is reserved for requests without a readable id",
    "tenant_missing": "does not name the tenant",
    "tenant_mismatch": "selects another tenant than metadata names",
}


class Topics:
    """The topics. `names` has the names of topics on the brokers, by their names in the contract."""

    def __init__(self, names: Mapping[Any, str] | None = None) -> None:
        self._names = names or {}
        self.requests: dict[RagStage, str] = {stage: self.name_of(name) for stage, name in REQUEST_TOPICS.items()}
        self.results: dict[RagStage, str] = {stage: self.name_of(name) for stage, name in RESULT_TOPICS.items()}
        self.failed = self.name_of(FAILED_TOPIC)
        self.stage_of: dict[str, RagStage] = {topic: stage for stage, topic in self.requests.items()}

    def name_of(self, contract_name: str) -> str:
        return self._names.get(contract_name, contract_name)

    def read_by(self, stages: Iterable[RagStage]) -> list[str]:
        return [self.requests[stage] for stage in stages]

    def written_by(self, stages: Iterable[RagStage]) -> list[str]:
        return [*(self.results[stage] for stage in stages), self.failed]


CONTRACT_TOPICS: Final = Topics()


class RequestError(Exception):
    """An invalid request. `field` is a name of the contract or WHOLE_MESSAGE. `path` is the position inside the field."""

    def __init__(self, field: str, reason: Reason, path: str = "") -> None:
        self.field, self.reason, self.path = field, reason, path
        super().__init__(f"{path or field} {REASON_TEXTS[reason]}")

    def details(self) -> dict[str, str]:
        """Return the `details` object of the failure."""
        return {"field": self.field, "reason": self.reason, **({"path": self.path} if self.path else {})}


@dataclass(slots=True)
class EchoedFields:
    """Fields that the outcome repeats, as the JSON text that was sent. A field that is absent or invalid is None."""

    trace_id: str | None = None
    metadata: str | None = None


@dataclass(slots=True)
class ParsedRequest:
    """A parsed message.

    - `request_id` and `tenant` are None if they could not be read.
    - `content` is the first error if the message is invalid.
    """

    request_id: str | None
    echo: EchoedFields
    content: RagSearch | RagQuestion | RequestError
    tenant: str | None = None


def make_fallback_request_id(topic: str, partition: int, offset: int) -> str:
    """Return the id for the outcome of a request without a readable id."""
    return f"{FALLBACK_ID_PREFIX}{topic}-{partition}-{offset}"


def parse_request(
    stage: RagStage, value: bytes | None, max_bytes: int, tenant_field: str | None = None
) -> ParsedRequest:
    """Parse a message. Raises nothing.

    The id, the tenant and the echoed fields of an invalid message are read, too, so that its failure can have them.
    """
    parsed_id, tenant, echo = None, None, EchoedFields()
    try:
        members = _read_members(value, max_bytes)
        echo = EchoedFields(_read_source_text(members, "trace_id", str), _read_source_text(members, "metadata", dict))
        if "request_id" in members.flaws:
            raise RequestError("request_id", members.flaws["request_id"])
        parsed_id = _request_id(members.values.get("request_id"))
        tenant = _find_readable_tenant(members, tenant_field)
        if value is not None and len(value) > max_bytes:
            raise RequestError(WHOLE_MESSAGE, "too_large")
        _check_members(members)
        values = members.values
        content: RagSearch | RagQuestion
        if stage == "search":
            query, top_k = _check_query(values.get("query"), "query"), _check_top_k(values.get("top_k"))
            content = RagSearch(query=query, top_k=top_k, filters=_check_filters(values.get("filters")))
        else:
            question = _check_query(values.get("question"), "question")
            content = RagQuestion(question=question, context=parse_context(values.get("context")))
        if tenant_field is not None:
            content = _restrict_to_tenant(content, tenant_field, values.get("metadata"))
    except RequestError as error:
        return ParsedRequest(parsed_id, echo, error, tenant)
    return ParsedRequest(parsed_id, echo, content, tenant)


def _read_members(value: bytes | None, max_bytes: int) -> strict_json.Members:
    if value is None:
        raise RequestError(WHOLE_MESSAGE, "tombstone")
    if len(value) > max(max_bytes, MAX_PARSED_BYTES):
        raise RequestError(WHOLE_MESSAGE, "too_large")
    try:
        return strict_json.read_object(value, {"trace_id", "metadata"})
    except strict_json.UnreadableError as error:
        raise RequestError(WHOLE_MESSAGE, "too_large" if len(value) > max_bytes else error.flaw) from error


def _read_source_text(members: strict_json.Members, name: str, kind: type) -> str | None:
    return members.texts[name] if type(members.values.get(name)) is kind else None


def _find_readable_tenant(members: strict_json.Members, tenant_field: str | None) -> str | None:
    metadata = members.values.get("metadata")
    if tenant_field is None or type(metadata) is not dict:
        return None
    try:
        return _check_tenant_id(metadata.get(tenant_field), tenant_field)
    except RequestError:
        return None


def _check_members(members: strict_json.Members) -> None:
    """Raise RequestError for a flaw in any member, an unknown one included, and for an echoed field of the wrong type."""
    for name, flaw in members.flaws.items():
        raise RequestError(name if name in _KNOWN_FIELDS else WHOLE_MESSAGE, flaw)
    for name, kind in (("trace_id", str), ("metadata", dict)):
        if type(members.values.get(name)) not in (kind, type(None)):
            raise RequestError(name, "wrong_type")


def _restrict_to_tenant(content: RagSearch | RagQuestion, field: str, metadata: Any) -> RagSearch | RagQuestion:
    """Add the tenant as a filter. Raises RequestError without a tenant, or with a filter for another one."""
    tenant = _check_tenant_id((metadata or {}).get(field), field)
    if tenant not in content.filters.get(field, (tenant,)):
        raise RequestError("filters", "tenant_mismatch")
    return content.model_copy(update={"filters": {**content.filters, field: (tenant,)}})


# The parsers of fields take the decoded JSON value, or None if the field is absent, and raise RequestError.


def _request_id(value: Any) -> str:
    if value is None or value == "":
        raise RequestError("request_id", "empty_or_missing")
    request_id = _check_text(value, "request_id")
    if len(request_id) > KAFKA_ID_CHARS:
        raise RequestError("request_id", "too_long")
    if request_id.startswith(FALLBACK_ID_PREFIX):
        raise RequestError("request_id", "reserved")
    return request_id


def _check_tenant_id(value: Any, name: str) -> str:
    path = f"metadata.{name}"
    if not value:
        raise RequestError("metadata", "tenant_missing", path)
    tenant = _check_text(value, "metadata", path)
    if len(tenant) > MAX_TENANT_CHARS:
        raise RequestError("metadata", "too_long", path)
    return tenant


def _check_query(value: Any, field: str) -> str:
    """Return the stripped query. Only the size of the message limits its length."""
    if value is None:
        raise RequestError(field, "empty_or_missing")
    query = _check_text(value, field)
    if "\x00" in query:
        raise RequestError(field, "nul_character")
    try:
        return clean_query(query)
    except ValueError as error:
        raise RequestError(field, "empty_or_missing") from error


def _check_top_k(value: Any) -> int | None:
    """Return an integer from 1. A float without a fraction is one, as in JSON Schema. A boolean is not."""
    if value is None:
        return None
    if type(value) is float and value.is_integer():
        value = int(min(value, KAFKA_TOP_K))
    if type(value) is not int:
        raise RequestError("top_k", "wrong_type")
    if value < 1:
        raise RequestError("top_k", "out_of_range")
    return min(value, KAFKA_TOP_K)


def _check_filters(value: Any) -> Filters:
    """Return the keys with their values, without keys whose list is empty or null."""
    if value is None:
        return {}
    if type(value) is not dict:
        raise RequestError("filters", "wrong_type")
    if len(value) > MAX_FILTERS:
        raise RequestError("filters", "too_many")
    return {
        _check_text(key, "filters"): tuple(
            _check_text(text, "filters") for text in _list(values, "filters", KAFKA_FILTER_VALUES)
        )
        for key, values in value.items()
        if values not in (None, [])
    }


def parse_context(value: Any) -> tuple[ContextItem, ...]:
    """Return the context items in order, without empty ones."""
    if value is None:
        return ()
    items = [
        _check_context_item(item, f"context[{number}]")
        for number, item in enumerate(_list(value, "context", MAX_CONTEXT_ITEMS))
    ]
    return tuple(item for item in items if item is not None)


def _check_context_item(value: Any, path: str) -> ContextItem | None:
    if type(value) is not dict:
        raise RequestError("context", "wrong_type", path)
    texts = {
        name: _check_text(value[name], "context", f"{path}.{name}")
        for name in _CONTEXT_FIELDS
        if value.get(name) not in (None, "")
    }
    if not texts.get("doc_id", "").strip():  # names no document
        texts.pop("doc_id", None)
    return ContextItem(**texts) if texts else None


def _list(value: Any, field: str, max_items: int) -> list[Any]:
    if type(value) is not list:
        raise RequestError(field, "wrong_type")
    if len(value) > max_items:
        raise RequestError(field, "too_many")
    return value


def _check_text(value: Any, field: str, path: str = "") -> str:
    """Return the value if it is a string that UTF-8 can encode."""
    if type(value) is not str:
        raise RequestError(field, "wrong_type", path)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RequestError(field, "not_unicode", path) from error
    return value
