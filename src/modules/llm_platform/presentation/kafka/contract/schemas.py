"""JSON Schemas of the five messages (requirements RC3 to RC7) and the AsyncAPI 3 document, from the limits of the parser.

The schemas use keywords that draft 7 and draft 2020-12 share. Unknown fields are allowed everywhere: a reader ignores them.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from modules.llm_platform.presentation.kafka.contract import requests as contract
from modules.llm_platform.presentation.kafka.contract.outcomes import REUSED_HEADER, ErrorCode

ASYNCAPI_VERSION: Final = "3.0.0"
CONTRACT_VERSION: Final = "1.0.0"
DESCRIPTION: Final = (
    "Searches and questions over indexed documents, through Kafka. Each request has exactly one outcome: a result, or a "
    "failure in rag_failed. A request_id that is sent again to the same stage gets its first outcome again, byte for byte. "
    "Delivery is at least once: readers of outcomes detect duplicates by request_id."
)

Schema = dict[str, Any]


def _object(description: str, properties: Schema, *required: str) -> Schema:
    requirement = {"required": list(required)} if required else {}
    return {"type": "object", "description": description, **requirement, "properties": properties}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _optional_text(description: str) -> Schema:
    return {"type": ["string", "null"], "description": description}


def _query(description: str) -> Schema:
    return {"type": "string", "minLength": 1, "pattern": r"\S", "description": f"{description} Not blank, without NUL."}


def _request(description: str, properties: Schema, *required: str) -> Schema:
    common = {
        "request_id": {
            "type": "string",
            "minLength": 1,
            "maxLength": contract.MAX_ID_CHARS,
            "not": {"pattern": f"^{contract.FALLBACK_ID_PREFIX}"},
            "description": "Identifies the request; the outcome repeats it.",
        },
        "trace_id": _optional_text("Repeated in the outcome unchanged."),
        "metadata": {"type": ["object", "null"], "description": "Repeated in the outcome unchanged."},
    }
    return _object(description, {**common, **properties}, "request_id", *required)


def _outcome(description: str, properties: Schema, *required: str) -> Schema:
    common = {
        "request_id": _text(
            f"The id of the request, or {contract.FALLBACK_ID_PREFIX}<topic>-<partition>-<offset> where it could not be read."
        ),
        "trace_id": _text("The trace_id of the request, if it had one."),
        "metadata": {"type": "object", "description": "The metadata of the request, if it had any and they fit."},
    }
    return _object(description, {**common, **properties}, "request_id", *required)


def _result(description: str, properties: Schema, *required: str) -> Schema:
    part = _object(
        "A component.", {"component": _text("Its name."), "reason": _text("The error.")}, "component", "reason"
    )
    common = {
        "latency_ms": {
            "type": "integer",
            "minimum": 0,
            "description": "Processing time in milliseconds, with retries.",
        },
        "degraded": {
            "type": "array",
            "items": part,
            "description": "Components that failed although there is a result.",
        },
    }
    return _outcome(description, {**properties, **common}, *required)


_FILTER_VALUES: Final = {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": contract.MAX_FILTER_VALUES}
_SEARCH_REQUEST: Final = _request(
    "A search.",
    {
        "query": _query("The search query. Text beyond the limit of the embedder is cut."),
        "top_k": {
            "type": ["integer", "null"],
            "minimum": 1,
            "description": "Maximum number of documents; default RAG_TOP_K.",
        },
        "filters": {
            "type": ["object", "null"],
            "maxProperties": contract.MAX_FILTERS,
            "additionalProperties": _FILTER_VALUES,
            "description": "Field to values: a document matches any of the values in every field. An empty list is ignored; a "
            "field that no document has matches nothing.",
        },
    },
    "query",
)
_CONTEXT_ITEM: Final = _object(
    "A piece of context: a text, or a URL to read.",
    {
        "doc_id": _optional_text("Id of an indexed document, whose title and URL are looked up."),
        "snippet": _optional_text("The text."),
        "url": _optional_text("URL to read where there is no text."),
    },
)
_ANSWER_REQUEST: Final = _request(
    "A question.",
    {
        "question": _query("The question."),
        "context": {
            "type": ["array", "null"],
            "maxItems": contract.MAX_CONTEXT_ITEMS,
            "items": _CONTEXT_ITEM,
            "description": "Used first; passages of the index are added up to RAG_TOP_K.",
        },
    },
    "question",
)
_HIT: Final = _object(
    "A document, with its best passage.",
    {
        "doc_id": _text("Id of the document."),
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "title": _text("Title of the document."),
        "snippet": _text("Its best passage."),
        "source": _text("Its source."),
        "url": _text("Its URL."),
    },
    "doc_id",
    "score",
)
_SEARCH_RESULT: Final = _result(
    "The result of a search.",
    {"hits": {"type": "array", "items": _HIT, "description": "Best document first, one entry per document."}},
    "hits",
)
_CITATION: Final = _object(
    "A document that a verified sentence of the answer cites.",
    {"doc_id": _text("Id of the document."), "title": _text("Its title."), "url": _text("Its URL.")},
)
_ANSWER_RESULT: Final = _result(
    "An answer.",
    {
        "answer": _text("The answer, or a statement that the documents contain none."),
        "citations": {"type": "array", "items": _CITATION},
    },
    "answer",
)
_FAILURE_DETAILS: Final = _object(
    "For debugging; programs may ignore it.",
    {
        "field": _text("The invalid field; `message` for the whole message."),
        "reason": _text("The reason."),
        "path": _text("The place inside the field."),
        "cause": _text("The platform's code of the error."),
    },
)
_FAILED: Final = _outcome(
    "A request that failed.",
    {
        "stage": {"type": "string", "enum": list(contract.REQUEST_TOPICS)},
        "error_type": {
            "type": "string",
            "enum": ["recoverable", "non_recoverable"],
            "description": "Recoverable: the same request under a new request_id may succeed.",
        },
        "error_code": {"type": "string", "enum": list(get_args(ErrorCode))},
        "error_message": _text("A message for people."),
        "details": _FAILURE_DETAILS,
    },
    "stage", "error_type", "error_code", "error_message",
)


def schemas() -> dict[str, Schema]:
    """Return the schema of each topic's messages."""
    return {
        contract.REQUEST_TOPICS["search"]: _SEARCH_REQUEST,
        contract.RESULT_TOPICS["search"]: _SEARCH_RESULT,
        contract.REQUEST_TOPICS["answer"]: _ANSWER_REQUEST,
        contract.RESULT_TOPICS["answer"]: _ANSWER_RESULT,
        contract.FAILED_TOPIC: _FAILED,
    }


_REQUEST_TRAIT: Final[Schema] = {
    "headers": {"type": "object", "description": "Any headers; the outcome carries them too."},
    "bindings": {
        "kafka": {
            "key": {"type": "string", "description": "Optional; outcomes of one key keep the order of their requests."}
        }
    },
}
_OUTCOME_TRAIT: Final[Schema] = {
    "headers": {
        "type": "object",
        "description": "The headers of the request.",
        "properties": {
            REUSED_HEADER: {
                "type": "string",
                "const": "true",
                "description": "The request_id was first used with another payload.",
            }
        },
    },
    "correlationId": {"description": "The id of the request.", "location": "$message.payload#/request_id"},
    "bindings": {"kafka": {"key": {"type": "string", "description": "The key of the request, or none."}}},
}


def asyncapi(names: contract.Topics = contract.CONTRACT_TOPICS) -> Schema:
    """Return the AsyncAPI document from the worker's point of view: it receives requests and sends outcomes.

    Channels have the names of the contract, and the topics of `names` as their addresses.

    AsyncAPI allows a reply on one channel only, so a reply names the topic of results; the description names rag_failed.
    """
    topics = schemas()
    requests, outcomes = contract.REQUEST_TOPICS.values(), (*contract.RESULT_TOPICS.values(), contract.FAILED_TOPIC)
    return {
        "asyncapi": ASYNCAPI_VERSION,
        "info": {"title": "rag-core", "version": CONTRACT_VERSION, "description": DESCRIPTION},
        "defaultContentType": "application/json",
        "channels": {
            topic: {
                "address": names.name_of(topic),
                "description": schema["description"],
                "messages": {topic: _ref("components", "messages", topic)},
            }
            for topic, schema in topics.items()
        },
        "operations": {
            **{
                f"receive_{topic}": {"action": "receive", **_channel(topic), "reply": _channel(contract.RESULT_TOPICS[stage])}
                for stage, topic in contract.REQUEST_TOPICS.items()
            },
            **{f"send_{topic}": {"action": "send", **_channel(topic)} for topic in outcomes},
        },
        "components": {
            "messages": {
                topic: {
                    "name": topic,
                    "payload": _ref("components", "schemas", topic),
                    "traits": [_ref("components", "messageTraits", "request" if topic in requests else "outcome")],
                }
                for topic in topics
            },
            "messageTraits": {"request": _REQUEST_TRAIT, "outcome": _OUTCOME_TRAIT},
            "schemas": topics,
        },
    }


def _channel(topic: str) -> Schema:
    return {"channel": _ref("channels", topic), "messages": [_ref("channels", topic, "messages", topic)]}


def _ref(*path: str) -> Schema:
    return {"$ref": "#/" + "/".join(path)}
