"""JSON Schemas of the five messages (requirements RC3 to RC7), from the limits that the reader keeps to.

They use what draft 7 and draft 2020-12 have in common, so that every validator reads them. Unknown fields are allowed
everywhere: whoever reads a message ignores what it does not know.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.contract.outcomes import REUSED_HEADER, ErrorCode
from modules.llm_platform.presentation.kafka.contract.requests import (
    FAILED_TOPIC,
    MAX_CONTEXT_ITEMS,
    MAX_FILTER_VALUES,
    MAX_FILTERS,
    MAX_ID_CHARS,
    REQUEST_TOPICS,
    RESERVED_ID,
    RESULT_TOPICS,
)

Schema = dict[str, Any]

_ID: Final = "Given back in the outcome, by which the request is known."


def schemas() -> dict[str, Schema]:
    """Topic to the schema of its messages."""
    return {
        REQUEST_TOPICS["search"]: _search_request(),
        RESULT_TOPICS["search"]: _search_result(),
        REQUEST_TOPICS["answer"]: _answer_request(),
        RESULT_TOPICS["answer"]: _answer_result(),
        FAILED_TOPIC: _failed(),
    }


def _search_request() -> Schema:
    values = {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": MAX_FILTER_VALUES}
    fields = {
        "query": _asked("What to look for. What is longer than the embedder reads is cut."),
        "top_k": {
            "type": ["integer", "null"],
            "minimum": 1,
            "description": "Documents at most; RAG_TOP_K if not given.",
        },
        "filters": {
            "type": ["object", "null"],
            "maxProperties": MAX_FILTERS,
            "additionalProperties": values,
            "description": "Field to values: any of the values, all of the fields. An empty list is not given; a field "
            "that no document has finds nothing.",
        },
    }
    return _request("A search.", fields, "query")


def _answer_request() -> Schema:
    item = _object(
        "A piece of context: words, or an address that is read.",
        {
            "doc_id": _optional("Id of an indexed document; its title and address are looked up."),
            "snippet": _optional("The words."),
            "url": _optional("Address to read where there are no words."),
        },
    )
    fields = {
        "question": _asked("What to answer."),
        "context": {
            "type": ["array", "null"],
            "maxItems": MAX_CONTEXT_ITEMS,
            "items": item,
            "description": "Comes first; the index fills up to RAG_TOP_K.",
        },
    }
    return _request("A question.", fields, "question")


def _search_result() -> Schema:
    hit = _object(
        "A document, with its best passage.",
        {
            "doc_id": _text("Id of the document."),
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "title": _text("Its title."),
            "snippet": _text("Its best passage."),
            "source": _text("Where it is from."),
            "url": _text("Its address."),
        },
        "doc_id",
        "score",
    )
    hits = {"type": "array", "items": hit, "description": "Best first, one for each document."}
    return _outcome("What was found.", {"hits": hits, **_of_results()}, "hits")


def _answer_result() -> Schema:
    citation = _object(
        "A document that a checked sentence of the answer cites.",
        {"doc_id": _text("Its id."), "title": _text("Its title."), "url": _text("Its address.")},
    )
    fields = {
        "answer": _text("The answer, or the plain words that there is none."),
        "citations": {"type": "array", "items": citation},
        **_of_results(),
    }
    return _outcome("An answer.", fields, "answer")


def _failed() -> Schema:
    details = _object(
        "For people who look into it; programs may pass it over.",
        {
            "field": _text("Which field is wrong; `message` for none of them."),
            "reason": _text("What is wrong with it."),
            "path": _text("The place inside the field."),
            "cause": _text("Our name of the error."),
        },
    )
    fields = {
        "stage": {"type": "string", "enum": list(REQUEST_TOPICS)},
        "error_type": {
            "type": "string",
            "enum": ["recoverable", "non_recoverable"],
            "description": "Recoverable: the same request under a new request_id may succeed.",
        },
        "error_code": {"type": "string", "enum": list(get_args(ErrorCode))},
        "error_message": _text("For people."),
        "details": details,
    }
    return _outcome("A request that could not be carried out.", fields, *list(fields)[:4])


def _request(description: str, fields: Schema, *required: str) -> Schema:
    identity = {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_ID_CHARS,
        "not": {"pattern": f"^{RESERVED_ID}"},
        "description": _ID,
    }
    common = {
        "request_id": identity,
        "trace_id": _optional("Given back as it is."),
        "metadata": {"type": ["object", "null"], "description": "Given back as it is."},
    }
    return _object(description, {**common, **fields}, "request_id", *required)


def _outcome(description: str, fields: Schema, *required: str) -> Schema:
    common = {
        "request_id": _text(f"The request's, or {RESERVED_ID}<topic>-<partition>-<offset> where none could be read."),
        "trace_id": _text("The request's, if it had one."),
        "metadata": {"type": "object", "description": "The request's, if it had any and it fits."},
    }
    return _object(description, {**common, **fields}, "request_id", *required)


def _of_results() -> Schema:
    part = _object("A part.", {"component": _text("Who."), "reason": _text("Why.")}, "component", "reason")
    return {
        "latency_ms": {"type": "integer", "minimum": 0, "description": "Milliseconds that it took, retries included."},
        "degraded": {"type": "array", "items": part, "description": "What did not go as asked, though this came."},
    }


def _object(description: str, properties: Schema, *required: str) -> Schema:
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "description": description, **needed, "properties": properties}


def _asked(description: str) -> Schema:
    return {"type": "string", "minLength": 1, "pattern": r"\S", "description": f"{description} No NUL, and not blank."}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _optional(description: str) -> Schema:
    return {"type": ["string", "null"], "description": description}


# The contract as an AsyncAPI 3 document.


ASYNCAPI_VERSION: Final = "3.0.0"
CONTRACT_VERSION: Final = "1.0.0"
ABOUT: Final = (
    "Searches and questions over indexed documents, through Kafka. Each request has exactly one outcome: a result, or a "
    "failure in rag_failed. A request_id that comes again, per stage, gets its first outcome again, byte for byte. "
    "Delivery is at least once: readers of outcomes tell repeated ones by request_id."
)

Part = dict[str, Any]


def asyncapi() -> Part:
    """The document, from the worker's point of view: it receives requests and sends outcomes."""
    found = schemas()
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {"title": "rag-core", "version": CONTRACT_VERSION, "description": ABOUT},
        "defaultContentType": "application/json",
        "channels": {topic: _channel(topic, schema) for topic, schema in found.items()},
        "operations": {**_receiving(), **_sending()},
        "components": {
            "messages": {topic: _message(topic) for topic in found},
            "messageTraits": {"request": _request_trait(), "outcome": _outcome_trait()},
            "schemas": found,
        },
    }


def _channel(topic: str, schema: Part) -> Part:
    return {
        "address": topic,
        "description": schema["description"],
        "messages": {topic: _ref("components", "messages", topic)},
    }


def _message(topic: str) -> Part:
    trait = "request" if topic in REQUEST_TOPICS.values() else "outcome"
    return {
        "name": topic,
        "payload": _ref("components", "schemas", topic),
        "traits": [_ref("components", "messageTraits", trait)],
    }


def _request_trait() -> Part:
    key = {"type": "string", "description": "Optional; the request_id keeps the order of requests about one thing."}
    headers = {"type": "object", "description": "Any; they are passed on to the outcome."}
    return {"headers": headers, "bindings": {"kafka": {"key": key}}}


def _outcome_trait() -> Part:
    key = {"type": "string", "description": "The key of the request, or none."}
    reused = {"type": "string", "const": "true", "description": "The request_id came before, with another payload."}
    headers = {"type": "object", "description": "Those of the request.", "properties": {REUSED_HEADER: reused}}
    correlation = {"description": "The request that this is about.", "location": "$message.payload#/request_id"}
    return {"headers": headers, "correlationId": correlation, "bindings": {"kafka": {"key": key}}}


def _receiving() -> Part:
    return {
        f"receive_{topic}": _operation("receive", topic) | {"reply": _reply(stage)}
        for stage, topic in REQUEST_TOPICS.items()
    }


def _sending() -> Part:
    return {f"send_{topic}": _operation("send", topic) for topic in (*RESULT_TOPICS.values(), FAILED_TOPIC)}


def _reply(stage: RagStage) -> Part:
    """AsyncAPI lets a reply come on one channel; that a failure comes on another one is said in words."""
    topic = RESULT_TOPICS[stage]
    return {"channel": _ref("channels", topic), "messages": [_ref("channels", topic, "messages", topic)]}


def _operation(action: str, topic: str) -> Part:
    return {
        "action": action,
        "channel": _ref("channels", topic),
        "messages": [_ref("channels", topic, "messages", topic)],
    }


def _ref(*path: str) -> Part:
    return {"$ref": "#/" + "/".join(path)}
