"""Compare the sentences of one text with its sources while these are read, and send the sentences to the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from modules.llm_platform.application.verification import events
from modules.llm_platform.application.verification.sentence_check import SentenceCheck
from modules.llm_platform.application.verification.source_reading import ReadSource
from modules.llm_platform.domain.concurrency.stoppable import StopSignal, run_stoppable
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedSentence

SENTENCE_BATCH_SIZE: Final = 50  # the sentences sent before other tasks have their turn

Result = TypeVar("Result")


class TextComparison:
    """The sentences of one text, and the sources that were read for it so far.

    Slow methods of `check` run in a thread (`run`): comparing a long text takes seconds and would delay other requests.
    After `signal`, no sentence is compared any more.
    """

    def __init__(self, check: SentenceCheck, signal: StopSignal, request_id: str, emit: events.EmitEvent) -> None:
        self.check = check
        self._signal, self._request_id, self._emit = signal, request_id, emit
        self._sources: dict[int, ReadSource] = {}
        self._sent: dict[int, VerifiedSentence] = {}  # the last version of each sentence, by its position

    @property
    def sources(self) -> list[ReadSource]:
        """The sources, read or not readable, in the order of their numbers."""
        return [self._sources[index] for index in sorted(self._sources)]

    @property
    def sentences(self) -> tuple[VerifiedSentence, ...]:
        """All sentences as they were sent last, in the order of the text."""
        return tuple(self._sent[position] for position in range(len(self.check.answer.sentences)))

    async def run(self, work: Callable[[], Result]) -> Result:
        """Call `work` in a thread, and return its result."""
        return await run_stoppable(self._signal, work)

    async def add(self, read: Sequence[ReadSource]) -> list[int]:
        """Add sources, and compare the sentences that wait for no further source. Return the positions of these sentences."""
        self._sources |= {source.index: source for source in read}
        return await self.run(lambda: self.check.add_sources([source.make_source() for source in read]))

    async def send(self, positions: Sequence[int]) -> None:
        """Send the sentences that are new or have changed, and let other tasks run in between."""
        has_no_text = not any(source.text for source in self._sources.values())
        for count, position in enumerate(positions):
            if count and count % SENTENCE_BATCH_SIZE == 0:
                await asyncio.sleep(0)
            sentence = self.check.describe_sentence(position, has_no_text=has_no_text)
            if self._sent.get(position) != sentence:
                self._sent[position] = sentence
                self._emit(events.SentenceVerified(request_id=self._request_id, sentence=sentence))

    async def send_all(self) -> None:
        """Send the sentences whose last version was not sent."""
        await self.send(range(len(self.check.answer.sentences)))
