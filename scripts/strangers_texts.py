"""Read every text of the public sets with all that reads texts: none may raise an error, or take time that its length does not explain.

    python scripts/strangers_texts.py DIR [PART]      PART: open (the default) or held

Prints one line for each reader: how many texts it read, how many raised an error and which ones, and its slowest text.
`make strangers` calls it too. A text is too slow when it takes more than `SLACK` times what the reader takes for a character
on average, for n log n. Each text is read twice, and the shorter time counts: another process may have taken the first.
"""

from __future__ import annotations

import asyncio
import gzip
import html
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from modules.llm_platform.domain.citations.checker import CitationChecker  # noqa: E402
from modules.llm_platform.domain.dtos.research_dtos import Source  # noqa: E402
from modules.llm_platform.domain.markdown.sanitizer import sanitize  # noqa: E402
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest  # noqa: E402
from modules.llm_platform.domain.retrieval.chunking import split_chunks  # noqa: E402
from modules.llm_platform.domain.text.language import detect  # noqa: E402
from modules.llm_platform.infrastructure.adapters.extractive_synthesizer import ExtractiveSynthesizer  # noqa: E402

MIN_CHARS: Final = 30
MAX_TEXTS: Final = 400  # of one set, evenly spread over it
SLACK: Final = 20.0
MIN_SLOW_S: Final = 0.25  # below it a text is not too slow, whatever its length
CLAIM: Final = "In May 2021 the company sold 3,000 of its 12 ships at 9:30 pm, and did not say why [1]."
QUESTION: Final = "When was it opened, and by whom?"


def source_of(text: str) -> Source:
    return Source(index=1, title=text[:60], url="https://example.org/1", text=text)


def extract(text: str) -> None:
    asyncio.run(ExtractiveSynthesizer().write(SynthesisRequest(QUESTION, [source_of(text)], "en")))


READERS: Final[dict[str, Callable[[str], object]]] = {
    "verdicts on a sentence": lambda text: CitationChecker([source_of(text)], "en").check(CLAIM),
    "verdicts on a text": lambda text: CitationChecker([source_of(text)], detect(text) or "en").check(f"{text} [1]"),
    "extraction": extract,
    "sanitizer": lambda text: sanitize(text, [source_of(text)]),
    "chunks": lambda text: list(split_chunks(text)),
    "language": detect,
}


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Texts of all sets with their names: every string of a row, pages as HTML too."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8", errors="surrogatepass") as lines:
            rows = lines.readlines()
        for number in range(0, len(rows), math.ceil(len(rows) / MAX_TEXTS)):
            for text in strings_of(json.loads(rows[number])):
                yield f"{path.name.partition('.')[0]}:{number + 1}", html.unescape(text)


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) >= MIN_CHARS:
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings_of(each)


def work_of(text: str) -> float:
    return len(text) * math.log2(len(text))


def seconds(read: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


def measure(name: str, read: Callable[[str], object], texts: list[tuple[str, str]]) -> str:
    """The line of a reader."""
    failures, times = Counter[str](), list[tuple[float, str, str]]()
    for place, text in texts:
        try:
            times.append((seconds(read, text), place, text))
        except Exception as error:  # noqa: BLE001  # each is told, none may happen
            failures[f"{type(error).__name__} at {place}"] += 1
    usual = sum(spent for spent, _, _ in times) / max(1.0, sum(work_of(text) for _, _, text in times))
    slow = [
        place
        for spent, place, text in times
        if spent > max(MIN_SLOW_S, SLACK * usual * work_of(text))
        and seconds(read, text) > max(MIN_SLOW_S, SLACK * usual * work_of(text))
    ]
    spent, place, text = max(times, key=lambda each: each[0])
    return (
        f"{name}: {len(texts)} texts · {failures.total()} exceptions {dict(failures.most_common(3)) if failures else ''} · "
        f"{len(slow)} too slow {slow[:3] if slow else ''} · slowest {spent:.2f} s for {len(text):,} characters ({place})"
    )


def main() -> None:
    folder = Path(sys.argv[1]) / (sys.argv[2] if len(sys.argv) > 2 else "open")
    texts = list(dict.fromkeys(texts_of(folder)))
    for name, read in READERS.items():
        print(measure(name, read, texts), flush=True)


if __name__ == "__main__":
    main()
