"""The contract as an AsyncAPI 3 document."""

from __future__ import annotations

from typing import Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.presentation.kafka.outcomes import REUSED_HEADER
from modules.llm_platform.presentation.kafka.schemas import schemas
from modules.llm_platform.presentation.kafka.topics import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS

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
