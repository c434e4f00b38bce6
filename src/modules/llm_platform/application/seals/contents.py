"""The members of a sealed answer: what is written into them, and how they are read back.

JSON is canonical: sorted keys, no white space, UTF-8. The same answer gives the same members on every machine.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from modules.llm_platform.domain.citations.compare.alignment import MAX_TEXT_CHARS
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.degraded import Degraded, deduplicate_degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote
from modules.llm_platform.domain.dtos.sealed_dtos import (
    MAX_CITED_CHARS,
    MAX_SEALED_CHARS,
    MAX_SEALED_CITATIONS,
    MAX_SEALED_QUOTES,
    MAX_SEALED_SOURCES,
    MAX_SEALED_UNCITED,
    MAX_SEALED_VALUES,
    CheckerStamp,
    OpenedSeal,
    SealedAnswer,
    SealedSource,
    UnpackedSeal,
)
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.urls.canonical_url import canonical_url, remove_userinfo

ANSWER: Final = "answer.json"
PAGE: Final = "index.html"
TEXT: Final = "sources/{index}.txt"
NOT_STORED: Final = "the texts of the sources are not stored any more: ask again, and seal the new answer"
TOO_LONG: Final = (
    f"the answer has more than {MAX_SEALED_CHARS:,} characters, {MAX_SEALED_CITATIONS:,} citations or "
    f"{MAX_SEALED_QUOTES:,} quotes, or cites more than {MAX_SEALED_SOURCES:,} sources"
)
UNREADABLE: Final = "the file is not a sealed answer of a version that this program reads"
OTHER_VALUE: Final = (
    "answer.json has a value of `{name}` that no answer has beside its other fields: the file is refused"
)
OTHER_LEDGER: Final = "a quote of the ledger is not in the text of its source"
TOO_MANY_VALUES: Final = f"answer.json has more than {MAX_SEALED_VALUES:,} values, which no sealed answer has"
# Matches up to the next opening bracket or comma of JSON outside of strings. Reads each byte once, also if it is not JSON.
VALUE_START: Final = re.compile(rb'(?:[^"\[{,]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+(?:[\[{,]|\Z)', re.DOTALL)
MAX_NUMBER: Final = 2**53  # this program writes no larger number
NOT_SEALED: Final = {"topic": None, "files": (), "request_id": "", "standalone_query": None}  # of the metadata
COMPONENTS_WITH_NAMES: Final = frozenset({"files", DOCUMENTS, "source", "read"})  # of `degraded`: `files/report.pdf`
YEARS: Final = range(1900, 9999)  # other times cannot be shown in every time zone
OTHER_TEXT: Final = "the text of source {index} is not the one that the answer names"

Value = TypeVar("Value", bound=BaseModel)
RenderPage = Callable[[SealedAnswer, tuple[Source, ...]], str]


def write_canonical_json(value: Any) -> bytes:
    """Return the one JSON of a value. Halves of surrogate pairs, which UTF-8 cannot express, become question marks."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def select_sealed(
    response: ResearchResponse, sources: tuple[Source, ...], checker: CheckerStamp, answered_at: datetime | None
) -> tuple[SealedAnswer, tuple[Source, ...]]:
    """Return what is sealed of an answer: its cited sources alone, without user names and passwords in addresses.

    Raises SealError if the text of a cited source is missing.
    """
    cited = {source.index for source in response.sources} | {citation.source_index for citation in response.citations}
    texts = tuple(_cut(_strip_address(source, "url")) for source in sources if source.index in cited)
    if cited - {source.index for source in texts}:
        raise SealError(NOT_STORED)
    _require_bounded(response, len(texts))
    answer = SealedAnswer(
        answered_at=answered_at,
        checker=checker,
        response=_strip_response(response, texts),
        sources=tuple(map(SealedSource.of, texts)),
    )
    return answer, texts


def _cut(source: Source) -> Source:
    """Return the source with the part of its text that the checker reads."""
    return source.model_copy(update={"text": source.text[:MAX_TEXT_CHARS]})


def _strip_response(response: ResearchResponse, texts: tuple[Source, ...]) -> ResearchResponse:
    """Return the answer without other results, the earlier conversation, and names of files and in the store of the operator.

    The ledger keeps the quotes of sealed sources. An offset that does not point to its quote is left out.
    """
    by_index = {source.index: source for source in texts}
    by_url = _group_by_url(texts)
    return response.model_copy(
        update={
            "raw_results": None,
            "sources": tuple(
                ref.model_copy(update={"url": by_index[ref.index].url, "title": by_index[ref.index].title})
                for ref in response.sources
            ),
            "citations": tuple(_strip_address(citation, "quote_url") for citation in response.citations),
            "evidence": tuple(
                row.model_copy(update={"quotes": tuple(_select_quotes(row.quotes, by_url))})
                for row in response.evidence
            ),
            "degraded": _strip_names(response.degraded),
            "metadata": response.metadata.model_copy(update=NOT_SEALED),
        }
    )


def _strip_names(degraded: tuple[Degraded, ...]) -> tuple[Degraded, ...]:
    """Return the entries without the names of files, documents and pages behind the name of a component."""
    return deduplicate_degraded(
        entry.model_copy(update={"component": kind}) if kind in COMPONENTS_WITH_NAMES else entry
        for entry in degraded
        for kind in (entry.component.partition("/")[0],)
    )


def _group_by_url(sources: tuple[Source, ...]) -> dict[str, dict[str, None]]:
    """Return the texts of the sources by their canonical addresses, equal texts once."""
    texts: dict[str, dict[str, None]] = {}
    for source in sources:
        texts.setdefault(canonical_url(source.url), {})[source.text] = None
    return texts


def _select_quotes(quotes: tuple[EvidenceQuote, ...], texts: Mapping[str, Collection[str]]) -> Iterator[EvidenceQuote]:
    for quote in (_strip_address(quote, "url") for quote in quotes):
        if canonical_url(quote.url) in texts:
            yield quote if _is_in_place(quote, texts) else quote.model_copy(update={"start": 0, "end": 0})


def _is_in_place(quote: EvidenceQuote, texts: Mapping[str, Collection[str]]) -> bool:
    """Return whether a quote of the ledger is at its offsets in a sealed source; True without offsets."""
    if not quote.end and not quote.start:
        return True
    if not 0 <= quote.start < quote.end or quote.end - quote.start != len(quote.text):
        return False
    return any(text.startswith(quote.text, quote.start) for text in texts.get(canonical_url(quote.url), ()))


def _strip_address(value: Value, field: str) -> Value:
    """Return the value without user name and password in the address of this field."""
    address = getattr(value, field)
    return value.model_copy(update={field: remove_userinfo(address)}) if address else value


def write_members(answer: SealedAnswer, sources: tuple[Source, ...], page: str) -> dict[str, bytes]:
    """Return the members of the file by their names. Raises SealError for an answer of too many values."""
    texts = {TEXT.format(index=source.index): source.text.encode("utf-8", "surrogatepass") for source in sources}
    written = write_canonical_json(answer.model_dump(mode="json"))
    _require_few_values(written)
    return {
        ANSWER: written,
        PAGE: page.encode("utf-8", "replace"),
        **texts,
    }


def read_members(seal: UnpackedSeal) -> OpenedSeal:
    """Return the answer and its sources. Raises SealError if the members do not fit together."""
    try:
        answer = _read_answer(seal.members[ANSWER])
        page = seal.members[PAGE].decode("utf-8")
        _require_bounded(answer.response, len(answer.sources))
        _require_numbers(answer.model_dump(exclude={"response": {"output"}}))  # a schema of the user allows any number
        _require_sources(answer)
        _require_places(answer.response, {source.index: source.chars for source in answer.sources})
        sources = tuple(_read_source(source, seal.members) for source in answer.sources)
    except (KeyError, UnicodeDecodeError, ValidationError, RecursionError) as error:
        raise SealError(UNREADABLE) from error
    texts = _group_by_url(sources)
    if not all(_is_in_place(quote, texts) for row in answer.response.evidence for quote in row.quotes):
        raise SealError(OTHER_LEDGER)
    names = {ANSWER, PAGE, *(TEXT.format(index=source.index) for source in sources)}
    if names != set(seal.members) or len(sources) != len(seal.members) - 2:
        raise SealError(UNREADABLE)
    return OpenedSeal(answer, sources, page, seal.digest, seal.signature)


def _require_bounded(response: ResearchResponse, sources: int) -> None:
    chars = sum(abs(citation.end - citation.start) for citation in response.citations)
    chars += sum(abs(span.end - span.start) for span in response.metadata.uncited)
    if (
        len(response.synthesis) > MAX_SEALED_CHARS
        or sources > MAX_SEALED_SOURCES
        or len(response.citations) > MAX_SEALED_CITATIONS
        or len(response.metadata.uncited) > MAX_SEALED_UNCITED
        or sum(len(row.quotes) for row in response.evidence) > MAX_SEALED_QUOTES
        or chars > MAX_CITED_CHARS
    ):
        raise SealError(TOO_LONG)


def _require_few_values(data: bytes) -> None:
    """Raise SealError for JSON of more values than an answer has, before any of them becomes an object."""
    if sum(1 for _ in islice(VALUE_START.finditer(data), MAX_SEALED_VALUES + 1)) > MAX_SEALED_VALUES:
        raise SealError(TOO_MANY_VALUES)


def _read_answer(data: bytes) -> SealedAnswer:
    """Return the answer. Raises SealError for JSON that is not canonical, and for a field that contradicts the others.

    Duplicate keys are not canonical. They must be refused, because two readers may take different values.
    """
    _require_few_values(data)
    try:
        value = json.loads(data)
        if write_canonical_json(value) != data:
            raise SealError(UNREADABLE)
    except ValueError as error:
        raise SealError(UNREADABLE) from error
    answer = SealedAnswer.model_validate(value)  # pydantic would copy JSON into each of its errors
    if name := _find_other_value(value, answer.model_dump(mode="json")):
        raise SealError(OTHER_VALUE.format(name=name))
    return answer


def _find_other_value(written: Any, read: Any, name: str = "") -> str:
    """Return the name of a field that is not written as this program reads it, such as `finding`; empty without one.

    Fields of one side alone belong to another version.
    """
    match written, read:
        case dict(), dict():
            shared = ((f"{name}.{key}".lstrip("."), written[key], read[key]) for key in written if key in read)
        case list(), list() if len(written) == len(read):
            shared = ((name, *items) for items in zip(written, read, strict=True))
        case _:
            return "" if written == read else name
    return next(filter(None, (_find_other_value(one, other, field) for field, one, other in shared)), "")


def _require_numbers(value: Any) -> None:
    """Raise SealError for a number or a time that no answer has, and that could not be shown."""
    match value:
        case dict():
            for one in value.values():
                _require_numbers(one)
        case list() | tuple():
            for one in value:
                _require_numbers(one)
        case int() | float():
            if not (math.isfinite(value) if isinstance(value, float) else abs(value) <= MAX_NUMBER):
                raise SealError(UNREADABLE)
        case datetime():
            if value.year not in YEARS:
                raise SealError(UNREADABLE)


def _require_sources(answer: SealedAnswer) -> None:
    """Raise SealError if the answer cites or lists a source that the file does not have, or names it otherwise."""
    sealed = {source.index: (source.url, source.title) for source in answer.sources}
    listed = {source.index: (source.url, source.title) for source in answer.response.sources}
    cited = {citation.source_index for citation in answer.response.citations}
    if not cited <= set(sealed) or not listed.items() <= sealed.items() or len(sealed) != len(answer.sources):
        raise SealError(UNREADABLE)
    if any(source.chars > MAX_TEXT_CHARS for source in answer.sources):
        raise SealError(TOO_LONG)


def _require_places(response: ResearchResponse, chars: Mapping[int, int]) -> None:
    """Raise SealError for a place outside the answer, or outside the source of `chars` code points."""
    said, places = len(response.synthesis), [(span.start, span.end) for span in response.metadata.uncited]
    quoted: list[tuple[int, int, int]] = []
    for citation in response.citations:
        size = chars[citation.source_index]
        places += [(citation.start, citation.end), *((cell.start, cell.end) for cell in citation.cells)]
        quoted.append((citation.quote_start, citation.quote_end, size))
        if difference := citation.difference:
            places.append((difference.claimed.start, difference.claimed.end))
            quoted.append((difference.found.start, difference.found.end, size))
    bounded = [*((start, end, said) for start, end in places), *quoted]
    if not all(0 <= start <= end <= size for start, end, size in bounded):
        raise SealError(UNREADABLE)


def _read_source(sealed: SealedSource, members: Mapping[str, bytes]) -> Source:
    text = members[TEXT.format(index=sealed.index)].decode("utf-8", "surrogatepass")
    source = sealed.with_text(text)
    if (source.sha256, len(text)) != (sealed.sha256, sealed.chars):
        raise SealError(OTHER_TEXT.format(index=sealed.index))
    return source
