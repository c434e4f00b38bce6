"""Measure the verification of texts on real answers of public sets, and its CPU on a long text with pages on loopback.

    python scripts/verification_quality.py DIR      DIR has `open/lfqa.jsonl.gz`, `attributionbench.jsonl.gz`, `wice.jsonl.gz`
    python scripts/verification_quality.py --cpu    5,000 words that cite 60 pages of a server on loopback

The claims of one answer are written as a text in one of the usual citation forms, each set in turn; its sources are pages.
Printed for each set: answers, claims, the share that is found as a sentence, the share that is bound to its source, and the
agreement of the verdicts with those of people.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import resource
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from modules.llm_platform import (  # noqa: E402
    Settings,
    VerificationRequest,
    VerificationService,
    VerifiedSentence,
    VerifiedText,
    build_platform,
)
from modules.llm_platform.testing import FakePageReader, FakeWebSearch  # noqa: E402

SETS: Final = ("lfqa", "attributionbench", "wice")
MAX_ANSWERS: Final = 80  # of one set
CLAIMS_OF_AN_ANSWER: Final = 5  # of sets that do not say which claims are of one answer
CPU_WORDS: Final = 5000
CPU_PAGES: Final = 60
PAGE_WORDS: Final = 1200

_STOP = re.compile(r"[.!?]+[\"”')]*\s*\Z")
_NOT_SAID = re.compile(
    r"</s>|\s*\[\d+\]|\*+"
)  # what the sets left in claims: ends of model output, citations of their own


class Claim(NamedTuple):
    """A sentence of an answer, the text of its source, and the verdict of people."""

    text: str
    source: str
    label: str


Form = Callable[[Sequence[str], Sequence[str]], str]  # claims and addresses to a text


def _bare(claim: str) -> tuple[str, str]:
    """Return a claim without its stop, and the stop."""
    found = _STOP.search(claim)
    return (claim[: found.start()], found[0].strip()) if found else (claim.rstrip(), ".")


def _joined(claims: Sequence[str], mark: Callable[[int], str], below: Iterable[str] = ()) -> str:
    said = []
    for number, claim in enumerate(claims, 1):
        bare, stop = _bare(claim)
        said.append(f"{bare} {mark(number)}{stop}")
    return "\n\n".join([" ".join(said), *below])


FORMS: Final[dict[str, Form]] = {
    "numbers": lambda claims, urls: _joined(
        claims,
        lambda at: f"[{at}]",
        ["Sources:\n" + "\n".join(f"[{at}] Title {at} - {url}" for at, url in enumerate(urls, 1))],
    ),
    "links": lambda claims, urls: _joined(claims, lambda at: f"([Site {at}]({urls[at - 1]}?utm_source=chatgpt.com))"),
    "definitions": lambda claims, urls: _joined(
        claims,
        lambda at: f"([Site {at}][{at}])",
        ["\n".join(f'[{at}]: {url} "Title"' for at, url in enumerate(urls, 1))],
    ),
    "footnotes": lambda claims, urls: _joined(
        claims, lambda at: f"[^{at}]", ["\n".join(f"[^{at}]: Title, {url}" for at, url in enumerate(urls, 1))]
    ),
    "brackets": lambda claims, urls: _joined(
        claims,
        lambda at: f"【{at}†source】",
        ["## References\n" + "\n".join(f"{at}. {url}" for at, url in enumerate(urls, 1))],
    ),
    "authors": lambda claims, urls: _joined(
        claims,
        lambda at: f"(Author{at}, {2000 + at})",
        [
            "## References\n"
            + "\n".join(f"Author{at}, A. ({2000 + at}). Title. {url}" for at, url in enumerate(urls, 1))
        ],
    ),
}


def answers_of(folder: Path, name: str) -> list[list[Claim]]:
    """Return the answers of a set, each with its claims in their order."""
    with gzip.open(folder / "open" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    groups: dict[object, dict[str, Claim]] = defaultdict(dict)
    for position, row in enumerate(rows):
        key = (
            (row.get("kind"), row["group"])
            if "group" in row
            else row.get("question") or position // CLAIMS_OF_AN_ANSWER
        )
        claim = " ".join(_NOT_SAID.sub("", row["claim"]).split())
        if not any(map(str.isalnum, claim)):
            continue
        groups[key].setdefault(claim, Claim(claim, row["source"], row["label"]))
    answers = [list(group.values())[:40] for group in groups.values() if len(group) > 1]
    return answers[:MAX_ANSWERS]


async def measure(folder: Path, name: str) -> str:
    found = bound = count = 0
    verdicts: Counter[tuple[str, str]] = Counter()
    answers = answers_of(folder, name)
    for number, answer in enumerate(answers):
        write = list(FORMS.values())[number % len(FORMS)]
        urls = [f"https://s{at}.example.org/{number}" for at in range(1, len(answer) + 1)]
        text = write([claim.text for claim in answer], urls)
        pages = {
            f"{url}{tail}": claim.source
            for url, claim in zip(urls, answer, strict=True)
            for tail in ("", "?utm_source=chatgpt.com")
        }
        verified = await VerificationService(FakePageReader(pages), FakeWebSearch()).verify(text)
        at = 0
        for claim, url in zip(answer, urls, strict=True):
            count += 1
            at = text.index(_bare(claim.text)[0], at) + len(_bare(claim.text)[0])
            sentence = _sentence_of(at, verified)
            if sentence is None:
                continue
            found += 1
            numbers = {source.index for source in verified.sources if (source.url or "").split("?")[0] == url}
            cited = {citation.source_index for citation in sentence.citations}
            if cited == numbers:
                bound += 1
                verdicts[claim.label, sentence.verdict] += 1
    told = verdicts.total()
    agree = sum(
        times for (label, verdict), times in verdicts.items() if (label == "supported") == (verdict == "supported")
    )
    flagged = sum(times for (label, verdict), times in verdicts.items() if verdict != "supported")
    right = sum(times for (label, verdict), times in verdicts.items() if verdict != "supported" != label)
    wrong = sum(times for (label, _), times in verdicts.items() if label != "supported")
    return (
        f"{name}: {len(answers)} answers, {count} claims, found {found / count:.3f}, bound {bound / max(1, found):.3f}, "
        f"agreement {agree / told:.2f}, of the flagged {right / max(1, flagged):.2f} rightly, "
        f"of the unsupported {right / max(1, wrong):.2f} flagged"
    )


def _sentence_of(end: int, verified: VerifiedText) -> VerifiedSentence | None:
    """Return the sentence that ends where a claim ends, without its stop; None where no sentence does."""
    return next((found for found in verified.sentences if found.start < end <= found.end <= end + 3), None)


async def measure_cpu() -> str:
    sentence = "The station number {0} measured {1} millimetres of rain in the year {2} near the river."
    facts = [sentence.format(at, 300 + at * 7 % 900, 1950 + at % 70) for at in range(CPU_WORDS // 15 + 1)]
    filler = " ".join(
        f"Word{at} stands in a longer text about the weather of the valley." for at in range(PAGE_WORDS // 12)
    )
    pages = {
        f"/{page}": f"<html><title>Page {page}</title><body><article><p>{filler}</p><p>{' '.join(facts[page::CPU_PAGES])}</p>"
        f"</article></body></html>"
        for page in range(CPU_PAGES)
    }

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    said = " ".join(f"{fact[:-1]} [{at % CPU_PAGES + 1}]." for at, fact in enumerate(facts))
    text = said + "\n\nSources:\n" + "\n".join(f"[{page + 1}] {root}/{page}" for page in range(CPU_PAGES))
    settings = Settings.without_environment(READER_ALLOWED_HOSTS=f"127.0.0.1:{server.server_port}")
    async with build_platform(settings) as platform:
        await platform.verification.verify(f"Once [1].\n\n[1] {root}/0")  # what is loaded on first use
        before = _cpu_s()
        verified = await platform.verification.run(VerificationRequest(text=text))
    spent = _cpu_s() - before
    server.shutdown()
    return f"{len(text.split())} words, {verified.counts.model_dump(exclude_defaults=True)}: {spent:.2f} s of CPU"


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children; the server of the pages is included."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


async def main(folder: str) -> None:
    if folder == "--cpu":
        print(await measure_cpu())
        return
    for name in SETS:
        print(await measure(Path(folder), name), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: verification_quality.py DIR | --cpu")
    asyncio.run(main(sys.argv[1]))
