"""Every text of all sets through all that reads texts: none may raise an error, or take time that its length does not explain.

The strings of each row are read as a source, as an answer, as a page to quote from, as a document to cut into chunks. A text
is too slow when it takes SLACK times what its reader takes for n log n characters on average, twice in a row: the first
time another process may have been at work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from scripts.public_sets.figures import Failures, read_rows, with_progress

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive.question import read_question
from modules.llm_platform.domain.extractive.selection import select_quotes
from modules.llm_platform.domain.markdown.sanitizer import sanitize
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.text.language import detect_language

SETS: Final = ("texts",)
MIN_CHARS: Final = 30
MAX_ROWS: Final = 60  # rows of one set, evenly spread over it
SLACK: Final = 20.0
MIN_SLOW_S: Final = 0.25  # a faster text is not too slow
CLAIM: Final = "In May 2021 the company sold 3,000 of its 12 ships at 9:30 pm, and did not say why [1]."
QUESTION: Final = "When was it opened, and by whom?"

Reader = Callable[[str], object]


async def measure(name: str, folder: Path, part: str) -> list[str]:
    """For each reader its exceptions, the texts that took too long, and its slowest text."""
    files = sorted(path.name.partition(".")[0] for path in (folder / part).glob("*.jsonl.gz"))
    texts = list(dict.fromkeys(text for file in files for text in _texts_of(folder, part, file)))
    return [f"n {len(texts)}", *(read_all(f"{name}, {reader}", READERS[reader], texts) for reader in READERS)]


def read_all(name: str, read: Reader, texts: list[str]) -> str:
    """Return what happened when all texts were read."""
    failures, spent, done, slow = Failures(), list[float](), list[str](), list[str]()
    for text in with_progress(name, texts):
        try:
            spent.append(_seconds(read, text))
            done.append(text)
        except Exception as error:  # noqa: BLE001  # each is told, none may happen
            failures.add(repr(text[:40]), error)
    usual = sum(spent) / max(1.0, sum(map(_work, done)))
    for text, seconds in zip(done, spent, strict=True):
        bound = max(MIN_SLOW_S, SLACK * usual * _work(text))
        if seconds > bound and _seconds(read, text) > bound:
            slow.append(f"{text[:40]!r} ({len(text):,})")
    return f"{name.partition(', ')[2]}: {failures}, {len(slow)} too slow {slow[:3] if slow else ''}".rstrip()


def _texts_of(folder: Path, part: str, name: str) -> Iterator[str]:
    rows = read_rows(folder, part, name)
    for row in rows[:: math.ceil(len(rows) / MAX_ROWS)]:
        yield from _strings(row)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if len(value) >= MIN_CHARS else []
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)


def _work(text: str) -> float:
    return len(text) * math.log2(len(text))


def _seconds(read: Reader, text: str) -> float:
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


def _source(text: str) -> Source:
    return Source(index=1, title=text[:60], url="https://example.org/1", text=text)


READERS: Final[dict[str, Reader]] = {
    "as a source": lambda text: CitationChecker([_source(text)], "en").check(CLAIM),
    "as an answer": lambda text: CitationChecker([_source(text)], detect_language(text) or "en").check(f"{text} [1]"),
    "quoted": lambda text: select_quotes(read_question(QUESTION, "en"), [_source(text)]),
    "sanitised": lambda text: sanitize(text, [_source(text)]),
    "in chunks": lambda text: list(split_chunks(text)),
    "its language": detect_language,
}
