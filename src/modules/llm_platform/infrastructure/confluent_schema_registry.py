"""A schema registry with Confluent's API, which Karapace, Apicurio and Redpanda offer too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from modules.llm_platform.domain.exceptions import SchemaRegistryError
from modules.llm_platform.domain.ports.schema_registry import ISchemaRegistry
from modules.llm_platform.infrastructure.http.client import Reply, Upstream
from modules.llm_platform.infrastructure.http.errors import ErrorFamily, Rule

if TYPE_CHECKING:
    import httpx2

TIMEOUT_S: Final = 10.0
NOT_FOUND: Final = 404
MAX_ID: Final = 2**31 - 1
_ERRORS: Final = ErrorFamily(*[SchemaRegistryError] * 5)
_RULES: Final = {
    409: Rule("error", "refuses a schema, which is incompatible with an earlier version (409): see `worker --check`"),
    422: Rule("error", "refuses a schema as invalid (422): does it support JSON Schema?"),
}


class ConfluentSchemaRegistry(ISchemaRegistry):
    """The registry at `base_url`. `auth` has the user name and password, or the API key and secret."""

    def __init__(
        self, base_url: str, auth: tuple[str, str] | None = None, client: httpx2.AsyncClient | None = None
    ) -> None:
        self._upstream = Upstream(
            "the schema registry",
            base_url,
            setting="schema.registry.url of KAFKA_CONFIG",
            timeout=TIMEOUT_S,
            client=client,
            auth=auth,
            rules=_RULES,
            errors=_ERRORS,
        )

    async def find(self, subject: str, schema: str) -> int | None:
        reply = await self._post(f"/subjects/{quote(subject, safe='')}", schema)
        return None if self._is_missing(reply) else self._read_id(reply)

    async def register(self, subject: str, schema: str) -> int:
        return self._read_id(await self._post(f"/subjects/{quote(subject, safe='')}/versions", schema))

    async def is_compatible(self, subject: str, schema: str) -> bool:
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest"
        reply = await self._post(path, schema)
        return self._is_missing(reply) or self._upstream.json_object(reply).get("is_compatible") is True

    async def _post(self, path: str, schema: str) -> Reply:
        # The schemas come from the documentation: nothing of a user is sent.
        return await self._upstream.post_json(path, {"schemaType": "JSON", "schema": schema}, sent_kind=None)

    @staticmethod
    def _is_missing(reply: Reply) -> bool:
        """Return whether the registry, and no other server, answers that it has no such subject, version or schema."""
        return reply.status == NOT_FOUND and any(code in reply.body for code in (b"40401", b"40402", b"40403"))

    def _read_id(self, reply: Reply) -> int:
        value: Any = self._upstream.json_object(reply).get("id")
        if type(value) is not int or not 0 <= value <= MAX_ID:
            raise SchemaRegistryError("the schema registry answered without the id of the schema: check KAFKA_CONFIG")
        return value
