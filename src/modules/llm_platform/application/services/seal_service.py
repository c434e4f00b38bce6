"""Seal answers into files, and check such files (docs/howto/sealed-answers.md)."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from modules.llm_platform.application.seals.contents import RenderPage, read_members, select_sealed, write_members
from modules.llm_platform.application.seals.rederivation import LATE, TIMEOUT_S, rederive
from modules.llm_platform.application.services.research_job_service import ResearchJobService
from modules.llm_platform.application.services.research_service import ResearchService
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.sealed_dtos import (
    CheckedSeal,
    CheckerStamp,
    OpenedSeal,
    SealDescription,
    Sign,
    Signature,
    SignatureState,
    UnpackedSeal,
)
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.ports.support_model import ISupportModel

NO_ANSWER: Final = "the research run has no answer to seal: wait until it is done"
SECRET: Final = "the answer or one of its sources contains a secret of the settings, so it is not sealed"
NO_PACKAGE: Final = 'its signature was not checked, which needs: pip install "llm-platform[seal]"'


@dataclass(frozen=True, slots=True)
class SealTools:
    """The functions that pack, sign and render sealed answers.

    - `render_page` renders the HTML page that the file contains.
    - `pack` packs members into a file. `unpack` returns the members of an unchanged file; SealError for any other file.
    - `sign` signs a digest with the operator's key. It is None without a key.
    - `check_signer` raises SealConfigError if a key is set but cannot sign.
    - `is_signed` returns whether a signature is valid for a digest; None if the signature package is not installed.
    """

    render_page: RenderPage
    pack: Callable[[Mapping[str, bytes], Sign | None], bytes]
    unpack: Callable[[bytes], UnpackedSeal]
    sign: Sign | None
    is_signed: Callable[[str, Signature], bool | None]
    check_signer: Callable[[], None] = lambda: None


class SealService:
    """Seals answers and checks sealed ones.

    - `read_checker` describes the checker of this program. Each file records it.
    - `secrets` must not appear in a file: an answer that contains one is not sealed (SealError).
    """

    def __init__(
        self,
        research: ResearchService,
        jobs: ResearchJobService,
        tools: SealTools,
        read_checker: Callable[[], CheckerStamp],
        support_model: ISupportModel | None = None,
        secrets: Sequence[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._research, self._jobs, self._tools = research, jobs, tools
        self._read_checker, self._support_model = read_checker, support_model
        escaped = (json.dumps(secret, ensure_ascii=False)[1:-1] for secret in secrets)
        self._secrets = [secret.encode() for secret in {*secrets, *escaped}]
        self._now = now

    async def seal_stored(self, research_id: str, *, owner: str = "") -> bytes:
        """Return the file of a stored answer. Raises ResearchNotFoundError and SealError."""
        job = await self._jobs.get(research_id, owner=owner)
        if job.response is None or job.kind != "research":
            raise SealError(NO_ANSWER)
        stored = await self._jobs.get_sources(research_id, owner=owner)
        return await asyncio.to_thread(self._seal, job.response, stored.sources, job.finished_at)

    def check_signer(self) -> None:
        """Raise SealConfigError if a signing key is set but cannot be used. Call this before paying for an answer."""
        self._tools.check_signer()

    async def load_sources(self, response: ResearchResponse) -> tuple[Source, ...]:
        """Return the sources of an answer that this process wrote, with their texts; empty if they are no longer stored."""
        stored = await self._research.get_stored_sources(response.metadata.request_id)
        return stored.sources if stored else ()

    def seal(self, response: ResearchResponse, sources: tuple[Source, ...]) -> bytes:
        """Return the file of a new answer. Raises SealError."""
        return self._seal(response, sources, response.metadata.stored_at or self._now())

    def open(self, data: bytes) -> OpenedSeal:
        """Return the answer of an unchanged file. Raises SealError for any other file."""
        return read_members(self._tools.unpack(data))

    async def check(self, data: bytes, timeout_s: float = TIMEOUT_S) -> tuple[OpenedSeal, CheckedSeal]:
        """Derive the verdicts of a file again, without a network.

        Raises SealError for a file that was changed or takes longer than `timeout_s` seconds.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        seal = await asyncio.to_thread(self.open, data)
        signature, note = self._check_signature(seal)
        sentences = await rederive(seal, self._support_model, timeout_s)
        try:
            async with asyncio.timeout_at(until):
                page = await asyncio.to_thread(self._tools.render_page, seal.answer, seal.sources)
        except TimeoutError as error:
            raise SealError(LATE) from error
        sealed_by, here = seal.answer.checker, await asyncio.to_thread(self._read_checker)
        description = SealDescription(
            query=seal.answer.response.query,
            digest=seal.digest,
            created=seal.answer.answered_at,
            checker=sealed_by,
            signature=signature,
            public_key=seal.signature.public_key if seal.signature else None,
            note=note,
            is_same_checker=(sealed_by.rules, sealed_by.support_model) == (here.rules, here.support_model),
            is_same_page=page == seal.page,
            is_same_renderer=sealed_by.page == here.page,
        )
        return seal, CheckedSeal(sealed=description, sentences=sentences)

    def _seal(
        self,
        response: ResearchResponse,
        sources: tuple[Source, ...],
        answered_at: datetime | None,
    ) -> bytes:
        answer, texts = select_sealed(response, sources, self._read_checker(), answered_at)
        members = write_members(answer, texts, self._tools.render_page(answer, texts))
        if any(secret in data for secret in self._secrets for data in members.values()):
            raise SealError(SECRET)
        return self._tools.pack(members, self._tools.sign)

    def _check_signature(self, seal: OpenedSeal) -> tuple[SignatureState, str]:
        """Return the state of the signature, and why it was not checked."""
        if seal.signature is None:
            return "none", ""
        is_signed = self._tools.is_signed(seal.digest, seal.signature)
        if is_signed is None:
            return "none", NO_PACKAGE
        return ("valid" if is_signed else "invalid"), ""
