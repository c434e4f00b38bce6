"""JSON Schemas of the five messages (rag-core.md §4), from the limits that the reader keeps to.

They use what draft 7 and draft 2020-12 have in common, so that every validator reads them. Unknown fields are allowed
everywhere: whoever reads a message ignores what it does not know.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from modules.llm_platform.presentation.kafka.failures import ErrorCode
from modules.llm_platform.presentation.kafka.fields import (
    MAX_CONTEXT_ITEMS,
    MAX_FILTER_VALUES,
    MAX_FILTERS,
    MAX_ID_CHARS,
    RESERVED_ID,
)
from modules.llm_platform.presentation.kafka.topics import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS

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
