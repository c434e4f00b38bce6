"""Verify a text as a background run, which reads the sources of the text and writes no answer."""

from collections.abc import AsyncGenerator
from typing import Final

from modules.llm_platform.application.research.events import Done, Failed, Read, ResearchEvent, Started
from modules.llm_platform.application.research.run import StoreSources
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.verification.events import TextVerified
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import VERIFY, ClaimedJob, ResearchJobDetail
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerificationJob,
    VerificationRequest,
    VerifiedAgain,
    VerifiedText,
)
from modules.llm_platform.domain.text.counts import format_count

SUMMARY: Final = "{unsupported} of {sentences} {are} not supported by {their} sources."


def _summarize(unsupported: int, sentences: int) -> str:
    are, their = ("is", "its") if unsupported == 1 or sentences == 1 else ("are", "their")
    return SUMMARY.format(unsupported=unsupported, sentences=format_count(sentences, "sentence"), are=are, their=their)


class VerificationRunner:
    """Verifies a text for a background run. The `output` of its answer is the verified text."""

    def __init__(self, verification: VerificationService) -> None:
        self._verification = verification

    async def stream(self, job: ClaimedJob, store_sources: StoreSources) -> AsyncGenerator[ResearchEvent, None]:
        """Yield the events that a verification shares with a research run. Raises VerificationError."""
        request = VerificationRequest.model_validate(job.client_request[VERIFY])
        async for event in self._verification.stream(
            request, request_id=job.id, owner=job.owner, store_sources=store_sources
        ):
            if isinstance(event, Started | Read | Failed):
                yield event
            elif isinstance(event, TextVerified):
                yield Done(request_id=job.id, response=make_stored_response(job.request, event.response))


def make_stored_response(request: ResearchRequest, verified: VerifiedText) -> ResearchResponse:
    """Return the verified text in the answer of a research run, which is what is stored."""
    counts = verified.counts
    return ResearchResponse(
        query=request.query,
        depth=request.depth,
        synthesis=_summarize(counts.unsupported, counts.sentences),
        output=verified.model_dump(mode="json"),
        degraded=verified.degraded,
        metadata=ResearchMetadata.model_validate(
            {
                **verified.metadata.model_dump(),
                "pages_read": counts.read,
                "pages_failed": counts.dead + counts.refused + counts.no_text,
                "pages_late": counts.late,
            }
        ),
    )


def make_verification_job(job: ResearchJobDetail) -> VerificationJob:
    """Return a background run as a verification. `job` must be a verification job."""
    output = job.response.output if job.response else None
    kind = VerifiedAgain if output and "changed" in output else VerifiedText
    response = kind.model_validate(output) if output else None
    return VerificationJob(
        id=job.id,
        status=job.status,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        read=job.progress.read,
        webhook=job.webhook,
        response=response,
        problem=job.problem,
    )
