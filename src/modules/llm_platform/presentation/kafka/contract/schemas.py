"""Build the AsyncAPI 3 document of the contract, and the JSON Schemas of its five messages.

`asyncapi.json` is written from the worker's point of view: it receives requests and sends outcomes. AsyncAPI allows a reply
on one channel only, so a reply names the topic of results, and the description names rag_failed. The schemas use keywords that
draft 7 and draft 2020-12 share. Unknown fields are allowed everywhere, and readers ignore them.
"""

import json
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

from modules.llm_platform.presentation.kafka import contract
from modules.llm_platform.presentation.kafka.contract.requests import CONTRACT_TOPICS, Topics

Schema = dict[str, Any]


@cache
def _load_document() -> Schema:
    document: Schema = json.loads(files(contract).joinpath("asyncapi.json").read_text(encoding="utf-8"))
    return document


def schemas() -> dict[str, Schema]:
    """Return the schema of each topic's messages. Callers share them and must not change them."""
    found: dict[str, Schema] = _load_document()["components"]["schemas"]
    return found


def asyncapi(names: Topics = CONTRACT_TOPICS) -> Schema:
    """Return the document. Channels have the names of the contract, and the topics of `names` as their addresses."""
    document = deepcopy(_load_document())
    for topic, channel in document["channels"].items():
        channel["address"] = names.name_of(topic)
    return document
