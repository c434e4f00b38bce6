"""The check of a language model's answer against what the request gave the model: the gateway of /v1 and /anthropic.

The header `X-Verify` of a request, or the setting VERIFY, chooses the mode: `annotate` adds evidence beside the text, `mark` also
marks the sentences that the material contradicts or does not have. See docs/howto/verifying-gateway.md.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

from fastapi import Request

from modules.llm_platform.application.research.events import Token
from modules.llm_platform.application.services.answer_check_service import (
    AnswerCheckService,
    AnswerEvidence,
    VerifyMode,
    describe_citation,
)
from modules.llm_platform.application.verification.given_material import collect_given
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.dtos.citation_dtos import Citation, TextSpan
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedSentence
from modules.llm_platform.domain.llm.reasoning_tags import ReasoningSplitter, TextPart
from modules.llm_platform.domain.text.sentences import split_sentences
from modules.llm_platform.presentation.rest.chat_routes import ChatDone, ChatEvent, ModelPart
from modules.llm_platform.presentation.rest.compat.chat_completions import EXTENSION
from modules.llm_platform.presentation.rest.http.access import HEADERS
from modules.llm_platform.presentation.rest.http.idempotency import VERIFY_HEADER
from modules.llm_platform.presentation.rest.http.problems import InvalidRequestError
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.verification_text import MARKS

EVIDENCE_HEADER: Final = "X-Evidence"
MODES: Final[dict[str, VerifyMode]] = {"off": "off", "annotate": "annotate", "mark": "mark"}
MARK_WAIT_S: Final = 0.025  # A stream waits at most so long for the verdict on a sentence, once at its end.
MAX_MARKERS_CHARS: Final = 200  # of markers that are still being written after a sentence
MAX_LINE_CHARS: Final = 4000  # A longer line has marks at its end alone.

STOPS: Final = re.compile(r"[.!?…。！？]")
_OPENING: Final = ("[", "【", "(", "<")
# What belongs to a sentence after its full stop: the target of a link that it ends, closing characters, and markers.
_AFTER: Final = re.compile(
    r"(?:\]\([^()\s]{0,500}\)|[.!?…。！？*_~\"'”’»`)\]]"
    r"|[ \t]?(?:[\[【(][^\[\]()【】\n]{1,60}[\])】](?:\([^()\s]{1,500}\))?|[¹²³⁰⁴-⁹]{1,3}))*"
)
_STOP_IN_LINK: Final = re.compile(r"[.!?…。！？]\]\([^()\s]{1,500}\)(?=\s)")  # a link whose words end a sentence
_TRAILING: Final = " \t|\r"
_CITATION: Final = re.compile(
    r"[\[【](?P<label>[^\[\]【】\n]{1,60})[\]】](?:\([^()\s]{1,500}\))?|(?<=[.!?,;:])[¹²³⁰⁴-⁹]{1,3}"
)
_FENCE: Final = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)", re.S)
_TICKS: Final = re.compile(r"`+")
_DATA: Final = ("{", "[")  # A text that begins so is JSON, which marks would break.


class VerifiedAnswer:
    """One answer while it is written. `evidence` is complete after `finish` or `check_whole`.

    Reasoning in the text is no part of the answer: it is passed on as it is, and neither checked nor marked.

    - `is_marked` is True in the mode `mark`.
    - `is_finished` is True after `finish`.

    The offsets of `evidence` count from the beginning of the text that the client gets, with its reasoning and its marks.
    """

    def __init__(self, service: AnswerCheckService, mode: VerifyMode, given: Awaitable[Sequence[CitedSource]]) -> None:
        self.evidence = AnswerEvidence()
        self.is_finished = False
        self._service, self._given = service, given
        self.is_marked = mode == "mark"
        self._splitter = ReasoningSplitter()
        self._sent = 0  # characters of a stream, in the mode `mark`
        self._sent_ahead = 0  # the number of last characters in `_sent` that may turn out to be reasoning
        self._taken_back = 0  # the first characters of `_sent`, which are reasoning
        self._reasoning: list[tuple[int, str]] = []  # with its places in the answer
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._parts: list[str] = []  # the answer as the model wrote it, without reasoning
        self._chars = 0  # of these parts
        self._line = ""  # the line that is being written, in the mode `mark`; of a long one the beginning
        self._line_start = 0
        self._marked_up_to = 0
        self._marks: list[tuple[int, str]] = []  # with their places in the answer
        self._fence = ""  # that the current line is in, in the mode `mark`
        self._is_data: bool | None = None  # True for an answer in JSON; None before its first non-blank character

    @property
    def has_text(self) -> bool:
        return bool(self._parts)

    async def check_whole(self, text: str) -> str:
        """Check a complete answer, and return its text, with marks in the mode `mark`."""
        self._take_whole(text)
        await self._check(is_streamed=False, is_marked=self.is_marked)
        return _insert("".join(self._parts), 0, self._list_insertions())

    async def add(self, text: str) -> str:
        """Take the next text of a stream, and return it, with marks after the sentences that it ends."""
        if not self.is_marked:
            self._add_answer(text)
            return text
        until = asyncio.get_running_loop().time() + MARK_WAIT_S
        shown, ahead = [], self._sent_ahead
        for part in self._split(text):
            sent = min(ahead, len(part.text))
            ahead -= sent
            if part.is_reasoning:
                self._reasoning.append((self._chars, part.text))
                shown.append(part.text[sent:])
            else:
                shown.append(await self._add_lines(part.text, sent, until))
        undecided = self._splitter.undecided
        self._sent_ahead = len(undecided)
        shown.append(undecided[ahead:])
        self._sent += sum(map(len, shown))
        return "".join(shown)

    def _split(self, text: str) -> list[TextPart]:
        """Return the parts of the next text. If all text before turns out to be reasoning, the answer begins again."""
        before = self._splitter.retractions
        parts = self._splitter.feed(text)
        if self._splitter.retractions > before:
            self._taken_back = self._sent - self._sent_ahead
            self._reasoning.clear()
            self._begin_answer()
        return parts

    def _take_whole(self, text: str) -> None:
        self._take([*self._split(text), *self._splitter.finish()])

    def _take(self, parts: Iterable[TextPart]) -> None:
        for part in parts:
            if part.is_reasoning:
                self._reasoning.append((self._chars, part.text))
            else:
                self._add_answer(part.text)

    def _add_answer(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._chars += len(text)

    async def _add_lines(self, text: str, ahead: int, until: float) -> str:
        """Take a part of the answer whose first `ahead` characters have been sent. Return the other characters with marks."""
        if self._is_data is None and (start := text.lstrip()):
            self._is_data = start.startswith(_DATA)
        shown = []
        for line in text.splitlines(keepends=True):
            sent = min(ahead, len(line))
            ahead -= sent
            shown.append(await self._add_line(line, sent, until))
        return "".join(shown)

    async def _add_line(self, text: str, ahead: int, until: float) -> str:
        """Take text of one line, with its end or without. A verdict is waited for `until` a time of the event loop."""
        sent = self._chars + ahead
        self._add_answer(text)
        if len(self._line) <= MAX_LINE_CHARS:
            self._line += text
        marks = await self._mark_sentences(sent, until)
        if text.endswith("\n"):
            self._fence = _read_fence(self._fence, self._line)
            self._line, self._line_start = "", self._chars
        return _insert(text[ahead:], sent, marks)

    async def finish(self, *, calls_tools: bool = False) -> str:
        """Check the whole answer when its stream has ended. Returns the mark of the last sentence.

        There is none if the answer `calls_tools`: a text after the calls would be a further part of the message.
        """
        self.is_finished = True
        if self.is_marked:
            self._take(self._splitter.finish())
        else:
            text = "".join(self._parts)
            self._begin_answer()
            self._take_whole(text)
        before = len(self._marks)
        if any(any(map(str.isalnum, part)) for part in self._parts):
            await self._check(is_streamed=True, is_marked=self.is_marked and not calls_tools)
        return "".join(mark for _, mark in self._marks[before:])

    def _list_insertions(self) -> list[tuple[int, str]]:
        """Return what the client gets beside the answer, with the places in the answer."""
        return sorted([*self._reasoning, *self._marks], key=itemgetter(0))

    def mark_text(self, text: str) -> str:
        """Return the answer without reasoning as the model wrote it, with the marks that its stream has."""
        return _insert(text, 0, self._marks)

    def headers(self) -> dict[str, str]:
        counts = self.evidence.counts._asdict()
        return {EVIDENCE_HEADER: ", ".join(f"{name}={count}" for name, count in counts.items())}

    def fields(self) -> dict[str, Any]:
        """Return the fields beside the message: the citations, the counts, and what was not checked and why."""
        sources = {source.index: source for source in self.evidence.sources}
        degraded = [entry.model_dump(mode="json") for entry in self.evidence.degraded]
        return {
            "evidence": [describe_citation(citation, sources) for citation in self.evidence.citations],
            EXTENSION: {"evidence_counts": self.evidence.counts._asdict(), "degraded": degraded},
        }

    def url_citations(self) -> Iterator[dict[str, Any]]:
        """Yield the citations of sources with an address, as annotations of OpenAI's Responses API."""
        sources = {source.index: source for source in self.evidence.sources}
        for citation in self.evidence.citations:
            source = sources.get(citation.source_index)
            if source is not None and source.url:
                yield {
                    "type": "url_citation",
                    "start_index": citation.start,
                    "end_index": citation.end,
                    "title": source.title,
                    "url": source.url,
                    EXTENSION: citation.model_dump(mode="json", exclude={"start", "end"}),
                }

    async def _check(self, *, is_streamed: bool, is_marked: bool) -> None:
        text = "".join(self._parts)
        evidence = await self._service.check(text, self._given)
        if is_marked and is_streamed:  # A mark can still follow only the last sentence.
            last = [sentence for sentence in evidence.sentences[-1:] if sentence.end > self._marked_up_to]
            made = _leave_code(text, _make_marks(text, last))
            self._marks += [(len(text), mark) for place, mark in made if not text[place:].strip()]
        elif is_marked:
            self._marks = _leave_code(text, _make_marks(text, evidence.sentences))
        inserted = [(place, len(text)) for place, text in self._list_insertions()]
        self.evidence = _shift(evidence, [(0, self._taken_back), *inserted])

    async def _mark_sentences(self, sent: int, until: float) -> list[tuple[int, str]]:
        """Return the marks of the sentences that have ended in the current line, at or after the place `sent`."""
        done, end = max(0, self._marked_up_to - self._line_start), self._find_end()
        if end <= done:
            return []
        line, at = self._line[:end], self._line_start
        self._marked_up_to = at + end
        try:
            async with asyncio.timeout_at(until):
                checked = await self._check_line(line)
        except TimeoutError:
            return []  # The evidence at the end has the verdict.
        last = [sentence for sentence in checked if sentence.end > done]
        marks = [
            (max(sent, at + place), mark)
            for place, mark in _make_marks(line, last)
            if not self._line[place : sent - at].strip(" \t")  # What has been sent stays before its sentence's mark.
        ]
        if self._line[: sent - at].endswith(" "):  # The blank before the mark has been sent.
            marks = [(place, f"{mark.lstrip()} " if place == sent else mark) for place, mark in marks]
        code = _find_code(self._line)
        marks = [mark for mark in marks if not any(start < mark[0] - at < end for start, end in code)]
        self._marks += marks
        return marks

    async def _check_line(self, line: str) -> list[VerifiedSentence]:
        """Return the sentences of a line, without findings that the rest of the answer may refute.

        A list of sources at the end of the answer may give its citation numbers another meaning. So a sentence that has no
        finding when its citations are ignored is left out.
        """
        checked = await self._service.check_part(line, self._given)
        bare = _blank_citations(line)
        if bare == line or not any(sentence.finding for sentence in checked):
            return list(checked)
        known = [one for one in await self._service.check_part(bare, self._given) if one.finding is None]
        return [
            sentence
            for sentence in checked
            if not any(one.start < sentence.end and sentence.start < one.end for one in known)
        ]

    def _find_end(self) -> int:
        """Return where the last complete sentence of the current line ends, with the markers after it, or 0."""
        line = self._line
        if self._is_data or self._fence or len(line) > MAX_LINE_CHARS or _FENCE.match(line):
            return 0
        if line.endswith(("\n", "\r")):
            return len(line.rstrip())
        complete = [end for _, end in split_sentences(line)[:-1]] if STOPS.search(line) else []
        complete += [link.end() for link in _STOP_IN_LINK.finditer(line)] if "](" in line else []
        if not complete:
            return 0
        end = _AFTER.match(line, max(complete)).end()  # type: ignore[union-attr]  # The pattern matches an empty text.
        following = line[end:].lstrip()
        is_open = not following or (following.startswith(_OPENING) and len(following) <= MAX_MARKERS_CHARS)
        return 0 if is_open else end


def declare_check(declared: dict[str, Any]) -> dict[str, Any]:
    """Return the declaration of a route with the request header of the mode, and the response header with the counts."""
    mode = {
        "name": VERIFY_HEADER,
        "in": "header",
        "required": False,
        "description": "How the answer of a language model is checked against what the request gave it. Without the header "
        "the setting VERIFY decides. A research model ignores it.",
        "schema": {"type": "string", "enum": list(MODES)},
    }
    counts = {
        "description": "The sentences of a checked answer by what the material says of them, such as `supported=3, "
        "contradicts=0, absent=1, unchecked=0`. A stream has them in its last chunk.",
        "schema": {"type": "string"},
    }
    known = declared["responses"]
    responses = {**known, 200: {**known.get(200, {}), "headers": {EVIDENCE_HEADER: counts}}}
    return {**declared, "responses": responses, "openapi_extra": {"parameters": [mode], **declared["openapi_extra"]}}


def read_mode(request: Request) -> VerifyMode:
    """Return the mode of the request. Raises InvalidRequestError for a header that is none of MODES."""
    sent = request.scope[HEADERS].get(VERIFY_HEADER.lower().encode())
    if sent is None:
        return get_services(request).answer_checks.default_mode
    mode = MODES.get(sent.decode("latin-1").strip().lower())
    if mode is None:
        raise InvalidRequestError.at(("header", VERIFY_HEADER), f"must be one of {', '.join(MODES)}", "enum")
    return mode


def open_check(request: Request, prompt: LLMRequest) -> VerifiedAnswer | None:
    """Return the check of the answer to a prompt, or None if it is off. An answer in JSON gets no marks, which would break it."""
    mode = read_mode(request)
    if mode == "off":
        return None
    answer_format = prompt.extra.get("response_format")
    if isinstance(answer_format, dict) and answer_format.get("type", "text") != "text":
        mode = "annotate"
    checks = get_services(request).answer_checks
    checks.warm_up()
    # The material is read beside the call of the model.
    given = asyncio.create_task(asyncio.to_thread(collect_given, prompt.messages))
    return VerifiedAnswer(checks, mode, given)


async def verify_events(
    events: AsyncGenerator[ChatEvent, None], answer: VerifiedAnswer | None
) -> AsyncGenerator[ChatEvent, None]:
    """Yield the events of a chat, with marks in its text. The check has ended before the last event."""
    async with aclosing(events):
        async for event in events:
            if answer is None:
                yield event
            elif isinstance(event, Token):
                yield event.model_copy(update={"text": await answer.add(event.text)})
            elif isinstance(event, ModelPart):
                is_first = event.part.choice == 0 and event.part.text
                text = await answer.add(event.part.text) if is_first else event.part.text
                yield event.model_copy(update={"part": event.part.model_copy(update={"text": text})})
            else:
                async for last in _end(event, answer):
                    yield last


async def _end(event: ChatDone, answer: VerifiedAnswer) -> AsyncGenerator[ChatEvent, None]:
    if marks := await answer.finish(calls_tools=bool(event.response.tool_calls)):
        yield Token(request_id=event.request_id, text=marks)
    content = answer.mark_text(event.response.content)
    yield event.model_copy(update={"response": event.response.model_copy(update={"content": content})})


def _make_marks(text: str, sentences: Sequence[VerifiedSentence]) -> list[tuple[int, str]]:
    """Return the marks of sentences, each with its place: after what belongs to the sentence, in its line and its cell."""
    marks = []
    for sentence in sentences:
        if sentence.finding is None:
            continue
        place = _AFTER.match(text, sentence.end).end()  # type: ignore[union-attr]  # The pattern matches an empty text.
        while place > sentence.start and text[place - 1] in _TRAILING:
            place -= 1
        marks.append((place, f" {MARKS[sentence.finding]}"))
    return marks


def _leave_code(text: str, marks: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the marks that are in no code. A text in JSON gets none."""
    if text.lstrip().startswith(_DATA):
        return []
    kept, waiting, at, fence = [], deque(marks), 0, ""
    for line in text.splitlines(keepends=True):
        here = []
        while waiting and waiting[0][0] < at + len(line):
            here.append(waiting.popleft())
        if here and not fence and not _FENCE.match(line):
            code = _find_code(line)
            kept += [mark for mark in here if not any(start < mark[0] - at < end for start, end in code)]
        fence, at = _read_fence(fence, line), at + len(line)
    return kept + ([] if fence else list(waiting))


def _read_fence(fence: str, line: str) -> str:
    """Return the fence of the code that continues after a line, or an empty text."""
    found = _FENCE.match(line)
    if found is None or (fence and not (found[1].startswith(fence) and not found[2].strip())):
        return fence
    return "" if fence else found[1]


def _find_code(line: str) -> list[tuple[int, int]]:
    """Return where code in a line begins and ends. Code that has no end yet reaches to the end of the line."""
    found, opened = [], None
    for ticks in _TICKS.finditer(line):
        if opened is None:
            opened = ticks
        elif opened[0] == ticks[0]:
            found.append((opened.start(), ticks.end()))
            opened = None
    return found if opened is None else [*found, (opened.start(), len(line) + 1)]


def _blank_citations(line: str) -> str:
    """Return the line with spaces instead of its citations, except for the words of its links."""
    return _CITATION.sub(_blank_citation, line)


def _blank_citation(found: re.Match[str]) -> str:
    label = found["label"] or ""
    words = label if " " in label else " " * len(label)
    return f" {words}".ljust(len(found[0]))


def _insert(text: str, start: int, marks: Sequence[tuple[int, str]]) -> str:
    """Return a text that begins at `start` with the marks at their places."""
    parts, done = [], 0
    for place, mark in marks:
        at = max(done, place - start)
        parts += [text[done:at], mark]
        done = at
    return "".join([*parts, text[done:]])


def _shift(evidence: AnswerEvidence, inserted: Sequence[tuple[int, int]]) -> AnswerEvidence:
    """Return the evidence with offsets in the text that the client gets. `inserted` has positions and inserted lengths."""
    if not any(chars for _, chars in inserted):
        return evidence

    places = [place for place, _ in inserted]
    sums = list(accumulate((chars for _, chars in inserted), initial=0))

    def move(span: TextSpan) -> TextSpan:
        before_start = sums[bisect_right(places, span.start)]
        before_end = sums[bisect_left(places, span.end)]
        return TextSpan(start=span.start + before_start, end=span.end + before_end)

    def move_citation(citation: Citation) -> Citation:
        span = move(TextSpan(start=citation.start, end=citation.end))
        cells = tuple(
            cell.model_copy(update=dict(move(TextSpan(start=cell.start, end=cell.end)))) for cell in citation.cells
        )
        difference = citation.difference
        if difference is not None:
            difference = difference.model_copy(update={"claimed": move(difference.claimed)})
        return citation.model_copy(update={**dict(span), "cells": cells, "difference": difference})

    sentences = tuple(
        sentence.model_copy(
            update={
                **dict(move(TextSpan(start=sentence.start, end=sentence.end))),
                "citations": tuple(map(move_citation, sentence.citations)),
            }
        )
        for sentence in evidence.sentences
    )
    return replace(evidence, sentences=sentences)
