"""Check the answer of a language model against what the model was given, for the gateway (docs/howto/verifying-gateway.md)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.verification.given_material import link_named_addresses
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.dtos.citation_dtos import SUPPORTING_VERDICTS, Citation
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.verification_dtos import (
    MAX_VERIFIED_CHARS,
    VerificationRequest,
    VerifiedSentence,
    VerifiedSource,
)
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.domain.ports.tracing import traced
from modules.llm_platform.domain.telemetry.metrics import ANSWER_CHECK_DURATION, CHECKED_SENTENCES
from modules.llm_platform.domain.telemetry.spans import CHECK_SPAN, DEGRADED, SOURCES
from modules.llm_platform.domain.text.scripts import replace_surrogates
from modules.llm_platform.domain.text.sentences import split_sentences
from shared.exceptions import AppException

log = logging.getLogger(__name__)

VerifyMode = Literal["off", "annotate", "mark"]

CHECK_TIMEOUT_S: Final = 1.0  # After the last word, a client waits at most this long for the evidence.
COMPARING_SHARE: Final = 0.8  # of this time, after which the comparison ends and leaves the rest unchecked
WARM_UP_TIMEOUT_S: Final = 5.0  # The first check of a process waits at most this long for everything to load.
MAX_CONCURRENT_CHECKS: Final = 4
BROKEN: Final = "internal error: the answer was not compared with the conversation"
LATE: Final = "timeout: the answer was not compared with the conversation in time"
NO_MATERIAL: Final = "nothing to check against: the conversation has no tool results, documents or passages"
TOO_LONG: Final = f"the first {MAX_VERIFIED_CHARS:,} characters of the answer are checked"
COMPONENT: Final = "verify"
WARM_UP: Final = "The platform checks this sentence first."


class EvidenceCounts(NamedTuple):
    """Counts of sentences by what the material says about them. Questions and the like, which state nothing, do not count.

    `supported` includes sentences that the material supports in part. `unchecked` includes all that were not reached.
    """

    supported: int = 0
    contradicts: int = 0
    absent: int = 0
    unchecked: int = 0


NOTHING_COUNTED: Final = EvidenceCounts()


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """What the material of a conversation says about an answer. Offsets are code points of the answer."""

    counts: EvidenceCounts = NOTHING_COUNTED
    sentences: tuple[VerifiedSentence, ...] = ()
    sources: tuple[VerifiedSource, ...] = ()
    degraded: tuple[Degraded, ...] = ()

    @property
    def citations(self) -> list[Citation]:
        return [citation for sentence in self.sentences for citation in sentence.citations]


class AnswerCheckService:
    """Checks answers by word comparison and with the support model. It calls no language model and opens no address.

    - `verification` reads no pages and has no judge. Its timeout is shorter than `timeout_s` (seconds), so that a long answer
      is checked in part instead of not at all.
    - `default_mode` applies to requests that do not choose a mode.
    """

    def __init__(
        self,
        verification: VerificationService,
        default_mode: VerifyMode = "off",
        metrics: IMetrics = NO_METRICS,
        timeout_s: float = CHECK_TIMEOUT_S,
    ) -> None:
        self._verification = verification
        self.default_mode = default_mode
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)
        self._warming: asyncio.Task[None] | None = None

    def warm_up(self) -> None:
        """Begin to load what the first check needs, once, while the model reads its prompt."""
        if self._warming is None:
            self._warming = asyncio.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        request = VerificationRequest.model_construct(text=WARM_UP, sources=(), find_sources=False, language=None)
        with suppress(AppException):
            await self._verification.run(request, given=[CitedSource(1, text=WARM_UP)])

    async def check(self, answer: str, material: Awaitable[Sequence[CitedSource]]) -> AnswerEvidence:
        """Return the evidence for an answer. What cannot be compared within the time is `unchecked`. Never raises.

        `material` is a future that several calls may wait for.
        """
        began = time.perf_counter()
        with traced(CHECK_SPAN, CHECK_SPAN.name) as checking:
            evidence = await self._compare(answer, material)
            checking.span.set(SOURCES, len(evidence.sources))
            checking.span.set(DEGRADED, len(evidence.degraded))
        self._metrics.observe(ANSWER_CHECK_DURATION, time.perf_counter() - began)
        for name, count in evidence.counts._asdict().items():
            if count:
                self._metrics.count(CHECKED_SENTENCES, name, by=count)
        return evidence

    async def check_part(self, text: str, material: Awaitable[Sequence[CitedSource]]) -> Sequence[VerifiedSentence]:
        """Return the sentences of a part of an answer that is still being written. They are not counted."""
        return (await self._compare(text, material)).sentences

    async def _compare(self, answer: str, material: Awaitable[Sequence[CitedSource]]) -> AnswerEvidence:
        answer = replace_surrogates(answer).replace("\x00", " ")
        evidence = await self._compare_text(answer[:MAX_VERIFIED_CHARS], material)
        if len(answer) <= MAX_VERIFIED_CHARS:
            return evidence
        unread = len(await asyncio.to_thread(split_sentences, answer[MAX_VERIFIED_CHARS:]))
        counts = evidence.counts._replace(unchecked=evidence.counts.unchecked + unread)
        degraded = (*evidence.degraded, Degraded(component=COMPONENT, reason=TOO_LONG))
        return replace(evidence, counts=counts, degraded=degraded)

    async def _compare_text(self, text: str, material: Awaitable[Sequence[CitedSource]]) -> AnswerEvidence:
        if not any(map(str.isalnum, text)):
            return AnswerEvidence()
        request = VerificationRequest.model_construct(text=text, sources=(), find_sources=False, language=None)
        if self._warming is not None and not self._warming.done():
            await asyncio.wait({self._warming}, timeout=WARM_UP_TIMEOUT_S)
        try:
            async with asyncio.timeout(self._timeout_s), self._turns:
                given = await asyncio.shield(material)
                if not given:
                    return _leave_unchecked(text, NO_MATERIAL)
                sources = (*given, *await asyncio.to_thread(link_named_addresses, text, given))
                verified = await self._verification.run(request, given=sources)
        except TimeoutError:
            return _leave_unchecked(text, LATE)
        except AppException as error:
            return _leave_unchecked(text, f"{error.code}: {error.message}")
        except Exception:  # the outermost handler of the check: the answer is paid for, and the client gets it
            log.exception("an answer was not checked")
            return _leave_unchecked(text, BROKEN)
        counts = count_evidence(verified.sentences, is_late=verified.late_sentences > 0)
        return AnswerEvidence(counts, verified.sentences, verified.sources, verified.degraded)


def count_evidence(sentences: Sequence[VerifiedSentence], *, is_late: bool = False) -> EvidenceCounts:
    """Count sentences by their verdicts. If time ran out, sentences that were not reached count too, even questions."""
    counts: dict[str, int] = dict.fromkeys(EvidenceCounts._fields, 0)
    for sentence in sentences:
        if sentence.verdict in SUPPORTING_VERDICTS:
            counts["supported"] += 1
        elif sentence.finding is not None:
            counts[sentence.finding] += 1
        elif is_late or sentence.is_cited or sentence.citations:
            counts["unchecked"] += 1
    return EvidenceCounts(**counts)


def _leave_unchecked(text: str, reason: str) -> AnswerEvidence:
    counts = EvidenceCounts(unchecked=len(split_sentences(text)))
    return AnswerEvidence(counts, degraded=(Degraded(component=COMPONENT, reason=reason),))


def describe_citation(citation: Citation, sources: dict[int, VerifiedSource]) -> dict[str, Any]:
    """Return a citation as in the answer of POST /research, with the title and the address of its source."""
    source = sources.get(citation.source_index)
    named = {"title": source.title, "url": source.url} if source else {"title": "", "url": None}
    return {**citation.model_dump(mode="json"), **named}
