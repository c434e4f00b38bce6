"""A schema registry in memory, and the contract of `ISchemaRegistry`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from modules.llm_platform.domain.exceptions import SchemaRegistryError
from modules.llm_platform.domain.ports.schema_registry import ISchemaRegistry
from modules.llm_platform.testing.waiting import error_of

FIRST, SECOND = '{"type": "object"}', '{"type": "object", "title": "second"}'
SUBJECTS: Final = ("rag_failed-value", "acme.result/ü-value", "a b-value", "%2F-value", "versions")


class MemorySchemaRegistry(ISchemaRegistry):
    """Schemas of this process: `subjects` has the id of each by subject.

    `incompatible`: subjects that accept no further version. `is_broken`: every call fails.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, dict[str, int]] = {}
        self.incompatible: set[str] = set()
        self.is_broken = False

    async def find(self, subject: str, schema: str) -> int | None:
        return self._versions(subject).get(schema)

    async def register(self, subject: str, schema: str) -> int:
        known = self._versions(subject)
        if schema not in known:
            if not await self.is_compatible(subject, schema):
                raise SchemaRegistryError("the schema is incompatible with an earlier version")
            self.subjects[subject] = known | {schema: 1 + sum(map(len, self.subjects.values()))}
        return self.subjects[subject][schema]

    async def is_compatible(self, subject: str, schema: str) -> bool:
        return not self._versions(subject) or subject not in self.incompatible

    def _versions(self, subject: str) -> dict[str, int]:
        if self.is_broken:
            raise SchemaRegistryError("the schema registry is not available")
        return self.subjects.get(subject, {})


class SchemaRegistryContract:
    """Subclass it and add these fixtures.

    `registry`: an empty ISchemaRegistry · `refuse`: makes a subject incompatible with every further version · `fail`: makes
    every further call fail.
    """

    async def test_unknown_subject_has_no_schema_and_accepts_any(self, registry: ISchemaRegistry) -> None:
        """The check registers nothing."""
        for _ in range(2):
            assert await registry.find(SUBJECTS[0], FIRST) is None
            assert await registry.is_compatible(SUBJECTS[0], FIRST)

    async def test_schema_has_one_id(self, registry: ISchemaRegistry) -> None:
        """The id is that of its first registration, whatever is registered later."""
        first = await registry.register(SUBJECTS[0], FIRST)
        second = await registry.register(SUBJECTS[0], SECOND)
        assert first != second
        for number, schema in ((first, FIRST), (second, SECOND)):
            assert await registry.find(SUBJECTS[0], schema) == number
            assert await registry.register(SUBJECTS[0], schema) == number

    async def test_subjects_are_independent(self, registry: ISchemaRegistry) -> None:
        """Names of subjects may contain any characters."""
        for position, subject in enumerate(SUBJECTS):
            await registry.register(subject, FIRST)
            for other in SUBJECTS[position + 1 :]:
                assert await registry.find(other, FIRST) is None
            assert await registry.find(subject, SECOND) is None

    async def test_incompatible_version_is_refused(
        self, registry: ISchemaRegistry, refuse: Callable[[str], None]
    ) -> None:
        """The check reports the conflict, nothing is registered, and the known version is unchanged."""
        first = await registry.register(SUBJECTS[0], FIRST)
        refuse(SUBJECTS[0])
        assert not await registry.is_compatible(SUBJECTS[0], SECOND)
        await error_of(registry.register(SUBJECTS[0], SECOND), SchemaRegistryError)
        assert await registry.find(SUBJECTS[0], SECOND) is None
        assert await registry.register(SUBJECTS[0], FIRST) == first

    async def test_failure_is_never_a_missing_schema(self, registry: ISchemaRegistry, fail: Callable[[], None]) -> None:
        """Otherwise a worker would register a schema again, or call an unchecked schema compatible."""
        await registry.register(SUBJECTS[0], FIRST)
        fail()
        for call in (registry.find, registry.register, registry.is_compatible):
            await error_of(call(SUBJECTS[0], FIRST), SchemaRegistryError)
