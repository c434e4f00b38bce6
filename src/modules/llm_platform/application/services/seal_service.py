"""Seal answers into files, and check such files (docs/howto/sealed-answers.md)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from modules.llm_platform.application.seals.checker_stamp import describe_checker
from modules.llm_platform.application.seals.contents import RenderPage, read_members, select_sealed, write_members
from modules.llm_platform.application.seals.rederivation import rederive
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.sealed_dtos import (
    CheckedSeal,
    CheckerStamp,
    OpenedSeal,
    Signature,
    SignatureState,
    UnpackedSeal,
)
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.ports.support_model import ISupportModel

NO_ANSWER: Final = "the research has no answer to seal: wait until it is done"
NO_SOURCES: Final = "its sources are not stored any more: ask again, and seal the new answer"
SECRET: Final = "the answer or one of its sources contains a secret of the settings, so it is not sealed"
FORGED: Final = "the signature does not belong to the file: it was made for another one, or changed"

Sign = Callable[[str], Signature]


@dataclass(frozen=True, slots=True)
class SealTools:
    """How files are packed, signed and shown.

    - `render_page` makes the page of HTML inside.
    - `pack` makes a file of members, and `unpack` returns those of an unchanged file or raises SealError.
    - `sign` signs a digest with the key of the operator; None without a key.
    - `is_signed` returns whether a signature belongs to a digest; None if the package for it is not installed.
    """

    render_page: RenderPage
    pack: Callable[[Mapping[str, bytes], Sign | None], bytes]
    unpack: Callable[[bytes], UnpackedSeal]
    sign: Sign | None
    is_signed: Callable[[str, Signature], bool | None]


class SealService:
    """Seals answers and checks sealed ones.

    - `settings` are the settings of the checker by name, which each file names.
    - `secrets` are never written into a file.
    """

    def __init__(
        self,
        research: ResearchService,
        jobs: ResearchJobService,
        tools: SealTools,
        support_model: ISupportModel | None = None,
        settings: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._research, self._jobs, self._tools = research, jobs, tools
        self._support_model = support_model
        self._settings = settings or {}
        self._secrets = [secret.encode() for secret in secrets]
        self._now = now

    async def seal_stored(self, research_id: str, *, owner: str = "") -> bytes:
        """Return the file of a stored answer. Raises ResearchNotFoundError and SealError."""
        job = await self._jobs.get(research_id, owner=owner)
        if job.response is None or job.kind != "research":
            raise SealError(NO_ANSWER)
        stored = await self._jobs.sources(research_id, owner=owner)
        return await asyncio.to_thread(self._seal, job.response, stored.sources, job.finished_at)

    async def load_sources(self, response: ResearchResponse) -> tuple[Source, ...]:
        """Return the texts of the sources of an answer of this process. Raises SealError if they are not stored any more."""
        stored = await self._research.stored_sources(response.metadata.request_id)
        if stored is None and response.sources:
            raise SealError(NO_SOURCES)
        return stored.sources if stored else ()

    def seal(self, response: ResearchResponse, sources: tuple[Source, ...]) -> bytes:
        """Return the file of a new answer. Raises SealError."""
        return self._seal(response, sources, response.metadata.stored_at or self._now())

    def open(self, data: bytes) -> OpenedSeal:
        """Return the answer of an unchanged file. Raises SealError for any other file."""
        return read_members(self._tools.unpack(data))

    async def check(self, data: bytes) -> tuple[OpenedSeal, CheckedSeal]:
        """Derive the verdicts of a file again, without a network. Raises SealError for a changed or forged file."""
        seal = await asyncio.to_thread(self.open, data)
        signature, sealed_by = self._check_signature(seal), seal.answer.checker
        sentences = await rederive(seal, self._support_model)
        here = self._describe_checker()
        return seal, CheckedSeal(
            query=seal.answer.response.query,
            digest=seal.digest,
            answered_at=seal.answer.answered_at,
            signature=signature,
            public_key=seal.signature.public_key if seal.signature else None,
            is_same_checker=(sealed_by.rules, sealed_by.support_model) == (here.rules, here.support_model),
            is_same_page=self._tools.render_page(seal.answer, seal.sources) == seal.page,
            sealed_by=sealed_by,
            sentences=sentences,
        )

    def _seal(
        self,
        response: ResearchResponse,
        sources: tuple[Source, ...],
        answered_at: datetime | None,
    ) -> bytes:
        answer, texts = select_sealed(response, sources, self._describe_checker(), answered_at)
        members = write_members(answer, texts, self._tools.render_page(answer, texts))
        if any(secret in data for secret in self._secrets for data in members.values()):
            raise SealError(SECRET)
        return self._tools.pack(members, self._tools.sign)

    def _describe_checker(self) -> CheckerStamp:
        return describe_checker(self._support_model, self._settings)

    def _check_signature(self, seal: OpenedSeal) -> SignatureState:
        if seal.signature is None:
            return "none"
        is_signed = self._tools.is_signed(seal.digest, seal.signature)
        if is_signed is None:
            return "not_checked"
        if not is_signed:
            raise SealError(FORGED)
        return "valid"
