"""Confluent's wire format: a zero byte and the id of the schema (four bytes, big endian) before the JSON."""

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Final

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.dtos.retrieval_dtos import RagStage
from modules.llm_platform.domain.exceptions import SchemaRegistryError
from modules.llm_platform.domain.ports.schema_registry import ISchemaRegistry
from modules.llm_platform.presentation.kafka.contract import requests
from modules.llm_platform.presentation.kafka.contract.schemas import schemas

log = logging.getLogger(__name__)

MAGIC: Final = b"\0"
ID_BYTES: Final = 4
HEADER_BYTES: Final = len(MAGIC) + ID_BYTES
RETRY_WAITS_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)  # the last one repeats
DIALECT: Final = "http://json-schema.org/draft-07/schema#"  # every registry knows this draft


def without_header(value: bytes) -> bytes:
    """Return the JSON of a message with or without a header: no JSON begins with a zero byte."""
    return value[HEADER_BYTES:] if value[:1] == MAGIC and len(value) >= HEADER_BYTES else value


class MessageSchemas:
    """The ids of the schemas in a registry. Each is looked up once, and messages need no registry after `load`.

    Subjects are named `<topic>-value`. A missing schema is registered if `registers` is True, or else is an error.
    """

    def __init__(self, registry: ISchemaRegistry, topics: requests.Topics, *, registers: bool) -> None:
        self._registry, self._topics, self._registers = registry, topics, registers
        self._headers: dict[str, bytes] = {}  # keyed by topic
        self.error: str | None = "the schemas are not looked up yet"

    def encode(self, topic: str, body: bytes) -> bytes:
        return self._headers[topic] + body

    async def load(self, stages: Sequence[RagStage]) -> None:
        """Look up or register the schemas of the topics of these stages. Raises SchemaRegistryError."""
        for name, schema in self._list_schemas(stages):
            topic = self._topics.name_of(name)
            if topic not in self._headers:
                self._headers[topic] = MAGIC + (await self._register_schema(f"{topic}-value", schema)).to_bytes(
                    ID_BYTES
                )
        self.error = None

    async def load_until_done(self, stages: Sequence[RagStage]) -> None:
        """Try `load` until it works. `error` says why it does not."""
        for wait_s in chain(RETRY_WAITS_S, repeat(RETRY_WAITS_S[-1])):
            try:
                await self.load(stages)
            except SchemaRegistryError as error:
                if error.message != self.error:
                    log.error(
                        "no requests are consumed: the schemas cannot be looked up", extra={"reason": error.message}
                    )
                self.error = error.message
                await asyncio.sleep(wait_s)
            else:
                return

    async def check(self, stages: Sequence[RagStage]) -> list[CheckResult]:
        """Return for each schema whether it is registered, or could be. Registers nothing."""
        results = []
        for name, schema in self._list_schemas(stages):
            subject = f"{self._topics.name_of(name)}-value"
            try:
                verdict, text = await self._check(subject, schema)
            except SchemaRegistryError as error:
                verdict, text = "failed", error.message
            results.append(CheckResult(f"schema {subject}", verdict, text))  # type: ignore[arg-type]
        return results

    async def _check(self, subject: str, schema: str) -> tuple[str, str]:
        found = await self._registry.find(subject, schema)
        if found is not None:
            return "ok", f"registered with the id {found}"
        if not await self._registry.is_compatible(subject, schema):
            return "failed", "incompatible with the latest version of the subject: use another topic or subject"
        if self._registers:
            return "ok", "compatible; the worker registers it at its start"
        return (
            "failed",
            "not registered: register docs/reference/schemas, or set auto.register.schemas of KAFKA_CONFIG to true",
        )

    async def _register_schema(self, subject: str, schema: str) -> int:
        if self._registers:
            return await self._registry.register(subject, schema)
        found = await self._registry.find(subject, schema)
        if found is None:
            raise SchemaRegistryError(f"the schema of {subject} is not registered: see `llm-platform worker --check`")
        return found

    @staticmethod
    def _list_schemas(stages: Sequence[RagStage]) -> Iterator[tuple[str, str]]:
        found = schemas()
        for name in (
            *(topics[stage] for stage in stages for topics in (requests.REQUEST_TOPICS, requests.RESULT_TOPICS)),
            requests.FAILED_TOPIC,
        ):
            yield name, json.dumps({"$schema": DIALECT, "title": name, **found[name]}, sort_keys=True)
