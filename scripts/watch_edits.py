"""Compare the answers to a watched question before and after its page was edited, without a language model.

    python scripts/watch_edits.py                   recall on real edits, false alarms on cosmetic ones
    python scripts/watch_edits.py --variants 3      the same with three cosmetic variants of each page
    python scripts/watch_edits.py --show            and each edit that is missed, each false alarm
    python scripts/watch_edits.py --set last        the pages that were written after the rules and read once

A page is answered by the writer of quotes, then again after the edit. A real edit changes a number, a name, a date, or turns a
sentence into its opposite; it must be the only change that is reported. The same edits are made once more amid cosmetic ones.
A cosmetic edit changes the layout, the order, the wording, the advertisements and the dates of the day, and nothing may be
reported.
"""

from __future__ import annotations

import argparse
import asyncio
import calendar
import random
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer  # noqa: E402
from modules.llm_platform.domain.citations.checker import CitationChecker  # noqa: E402
from modules.llm_platform.domain.dtos.source_dtos import Source  # noqa: E402
from modules.llm_platform.domain.dtos.watch_dtos import WatchChange, WatchReading  # noqa: E402
from modules.llm_platform.domain.evidence.ledger import LedgerBuilder  # noqa: E402
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest  # noqa: E402
from modules.llm_platform.domain.watches.compare import compare_readings  # noqa: E402
from modules.llm_platform.domain.watches.ledger_facts import read_facts  # noqa: E402

PAGES = ROOT / "tests" / "quality" / "watches"
VARIANTS: Final = {"first": 25, "second": 15, "last": 20}  # cosmetic variants of each page
FIRST_DAY: Final = datetime(2026, 11, 25, 6, tzinfo=UTC)
NEXT_DAY: Final = FIRST_DAY + timedelta(days=1)
WRITER: Final = ExtractiveSynthesizer()


@dataclass(frozen=True)
class Edit:
    kind: str
    old: str
    new: str


@dataclass
class Page:
    """A page with a question, real edits, and pairs of sentences that say the same."""

    id: str
    language: str
    title: str
    question: str
    text: str = ""
    edits: list[Edit] = field(default_factory=list)
    rewordings: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    page: Page
    kind: str
    after: str
    changes: tuple[WatchChange, ...]
    is_right: bool


def read_pages(name: str) -> list[Page]:
    """Return the pages of a file. A line with `~` has another wording of a sentence, and a line with `!` a real edit."""
    return [
        _read_page(block) for block in re.split(r"(?m)^# ", (PAGES / f"{name}.txt").read_text(encoding="utf-8"))[1:]
    ]


def _read_page(block: str) -> Page:
    head, _, rest = block.partition("\n")
    page_id, language, title, question = (part.strip() for part in head.split("|"))
    page = Page(page_id, language, title, question)
    text: list[str] = []
    for line in rest.splitlines():
        if line.startswith("~ "):
            old, new = line[2:].split(" => ")
            page.rewordings.append((old, new))
        elif line.startswith("! "):
            kind, _, sentences = line[2:].partition(" | ")
            page.edits.append(Edit(kind.strip(), *sentences.split(" => ")))
        else:
            text.append(line)
    page.text = "\n".join(text).strip()
    assert all(old in page.text for old, _ in page.rewordings), page.id
    assert all(edit.old in page.text for edit in page.edits), page.id
    return page


async def read_answer(page: Page, text: str, at: datetime) -> WatchReading:
    """Answer the question of a page from this text, as a deep run does, and return the facts of its ledger."""
    source = Source(index=1, title=page.title, url=f"https://example.org/{page.id}", text=text)
    rows = tuple(read.row for read in LedgerBuilder([page.question], page.language).build_rows([source], {}))
    request = SynthesisRequest(page.question, [source], page.language, evidence=rows)
    written = await WRITER.synthesize(request)
    citations = CitationChecker([source], page.language).check(written.text).citations if written.answered else ()
    facts = read_facts(rows, citations, [source], page.language)
    return WatchReading(at=at, language=page.language, facts=facts, sources=(source,))


async def measure_edits(pages: Sequence[Page], *, amid_cosmetic: bool) -> list[Outcome]:
    """Return the outcome of each real edit: right if the later sentence, or the loss of the earlier one, is reported."""
    found: list[Outcome] = []
    for page in pages:
        for number, edit in enumerate(page.edits):
            before, after = dress(page, page.text, 0), page.text.replace(edit.old, edit.new)
            kept = (edit.old, edit.new)
            after = vary(page, after, number, kept) if amid_cosmetic else dress(page, after, 0)
            was, now = await read_answer(page, before, FIRST_DAY), await read_answer(page, after, NEXT_DAY)
            changes = compare_readings(was, now)
            found.append(Outcome(page, edit.kind, edit.new, changes, _reports(edit, changes)))
    return found


def _reports(edit: Edit, changes: Sequence[WatchChange]) -> bool:
    """Return whether one change is reported, and it is this edit. Layout may have cut what is quoted."""
    if len(changes) != 1 or changes[0].was is None or changes[0].now is None:
        return False
    return _overlap(changes[0].now.quote, edit.new) and _overlap(changes[0].was.quote, edit.old)


def _overlap(quote: str, sentence: str) -> bool:
    return _bare(quote) in _bare(sentence) or _bare(sentence) in _bare(quote)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).strip().casefold()


async def measure_cosmetic(pages: Sequence[Page], variants: int) -> list[Outcome]:
    """Return the outcome of each cosmetic edit: right if nothing is reported."""
    found: list[Outcome] = []
    for page in pages:
        was = await read_answer(page, dress(page, page.text, 0), FIRST_DAY)
        for number in range(variants):
            after = vary(page, page.text, number)
            changes = compare_readings(was, await read_answer(page, after, NEXT_DAY))
            found.append(Outcome(page, "cosmetic", after, changes, not changes))
    return found


# --- cosmetic edits ------------------------------------------------------------------------------------------------------

ADS: Final = (
    "Advertisement: save 20 percent on your next order at Brightly.",
    "Subscribe to our newsletter and join 12,431 readers.",
    "Book now: {title} from only 19 euros!",
    "You may also like: 7 things about {title} that nobody tells you.",
    "Sponsored: compare 48 offers for {title} in two minutes.",
    "Our readers rate {title} with 4.6 of 5 stars.",
    "Download our app and never miss news about {title}.",
    "We use cookies to improve your visit.",
    "Share this page with your friends.",
    "Only 3 days left: half price on all guides.",
    "People also ask: {question}",
    "{question} Find out in 3 minutes with our free guide.",
    "{title}: 25 photos that will surprise you.",
    "Related: {title} – the 10 most read articles of the week.",
)


def _stamps(at: datetime, chance: random.Random) -> list[str]:
    day, month = (
        f"{at.day} {calendar.month_name[at.month]} {at.year}",
        f"{calendar.month_name[at.month]} {at.day}, {at.year}",
    )
    return [
        f"Last updated: {day}",
        f"Today is {calendar.day_name[at.weekday()]}, {month}.",
        f"Page viewed {chance.randint(1000, 99_999):,} times.",
        f"{chance.randint(2, 59)} minutes ago",
        f"{chance.randint(2, 200)} comments",
        f"All information as of {at:%Y-%m-%d}.",
        f"Printed on {at:%d.%m.%Y} at {at.hour}:{chance.randint(10, 59)}.",
    ]


def dress(page: Page, text: str, day: int) -> str:
    """Return the page as its site shows it on a day: a stamp above, an advertisement below."""
    at = FIRST_DAY + timedelta(days=day)
    stamps = _stamps(at, random.Random(f"{page.id} {day}"))
    return f"{stamps[0]}\n\n{date_answer(page, text, day)}\n\n{_fill(ADS[len(page.id) % len(ADS)], page)}"


def date_answer(page: Page, text: str, day: int) -> str:
    """Return the text with the date of the day before its first sentence that answers, on every third page."""
    at = FIRST_DAY + timedelta(days=day)
    if len(page.title) % 3 or page.language != "en":
        return text
    return re.sub(
        r"(?<=\n\n)The (?=\w)", f"As of {at.day} {calendar.month_name[at.month]} {at.year}, the ", text, count=1
    )


def _fill(line: str, page: Page) -> str:
    return line.format(title=page.title, question=page.question)


def vary(page: Page, text: str, number: int, kept: Sequence[str] = ()) -> str:
    """Return a cosmetic variant of a page on the next day. Sentences in `kept` are not reworded."""
    chance = random.Random(f"{page.id} {number}")
    rewordings = [pair for pair in page.rewordings if pair[0] not in kept]
    for old, new in chance.sample(rewordings, chance.randint(0 if kept else 1, len(rewordings))):
        text = text.replace(old, new)
    paragraphs = [_order(paragraph, chance) for paragraph in date_answer(page, text, 1).split("\n\n")]
    if chance.random() < 0.5:
        chance.shuffle(paragraphs)
    paragraphs = [_lay_out(paragraph, chance) for paragraph in paragraphs]
    for line in chance.sample(ADS, 2):
        paragraphs.insert(chance.randint(0, len(paragraphs)), _fill(line, page))
    for stamp in chance.sample(_stamps(NEXT_DAY, chance), 2):
        paragraphs.insert(chance.choice((0, len(paragraphs))), stamp)
    return _write_otherwise("\n\n".join(paragraphs), chance)


def _order(paragraph: str, chance: random.Random) -> str:
    """Return the paragraph with its last sentence first, if no sentence refers to the one before."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-ZÀ-Ý])", paragraph)
    refers = any(
        re.match(r"(?:It|They|Its|She|He|Es|Er|Sie|Il|Elle|The rate|But|On other|Versions)\b", one) for one in sentences
    )
    if not refers and len(sentences) > 1 and chance.random() < 0.4:
        sentences = [sentences[-1], *sentences[:-1]]
    return " ".join(sentences)


def _lay_out(paragraph: str, chance: random.Random) -> str:
    kind = chance.choice(("plain", "plain", "list", "lines", "heading", "bold"))
    sentences = re.split(r"(?<=[.!?]) (?=[A-ZÀ-Ý])", paragraph)
    if kind == "list":
        return "\n".join(f"- {sentence}" for sentence in sentences)
    if kind == "lines":
        return "\n\n".join(sentences)
    if kind == "heading":
        return f"## {chance.choice(('Overview', 'Details', 'Good to know', 'At a glance'))}\n\n{paragraph}"
    if kind == "bold":
        return re.sub(r"\b[^\W\d]+ [^\W\d]+\b", lambda found: f"**{found[0]}**", paragraph, count=1)
    return paragraph


def _write_otherwise(text: str, chance: random.Random) -> str:
    """Return the text with other characters: typographic quotes and spaces, figures with and without a separator."""
    if chance.random() < 0.3:
        text = text.replace("'", "’").replace(" - ", " – ")
    if chance.random() < 0.3:
        text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    if chance.random() < 0.2:
        text = re.sub(r"(?<=\d) (?=(?:euros?|Euro|km|percent|GB|mg)\b)", "\u00a0", text)
    return text


# --- report --------------------------------------------------------------------------------------------------------------


def share(outcomes: Sequence[Outcome]) -> float:
    """Return the share of right outcomes."""
    return sum(outcome.is_right for outcome in outcomes) / len(outcomes)


def _describe(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        if not outcome.is_right:
            yield f"\n{outcome.page.id} ({outcome.kind}): {outcome.page.question}\n    {outcome.after}"
            for change in outcome.changes:
                yield f"    {change.kind}: {change.was and change.was.quote!r} -> {change.now and change.now.quote!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=tuple(VARIANTS), default="first")
    parser.add_argument("--variants", type=int)
    parser.add_argument("--show", action="store_true")
    a = parser.parse_args()
    pages, began = read_pages(a.set), time.process_time()
    edits = asyncio.run(measure_edits(pages, amid_cosmetic=False))
    amid = asyncio.run(measure_edits(pages, amid_cosmetic=True))
    cosmetic = asyncio.run(measure_cosmetic(pages, VARIANTS[a.set] if a.variants is None else a.variants))
    for name, outcomes in (("real edits alone", edits), ("real edits amid cosmetic ones", amid)):
        missed = list(dict.fromkeys(one.kind for one in outcomes if not one.is_right))
        print(f"{name}: recall {share(outcomes):.3f} of {len(outcomes)}; missed: {', '.join(missed) or 'none'}")
    if cosmetic:
        print(f"cosmetic edits: {1 - share(cosmetic):.3f} false alarms of {len(cosmetic)}")
    work_ms = (time.process_time() - began) * 1000 / (2 * len(edits + amid) + len(cosmetic))
    print(f"{work_ms:.0f} ms of work for each answer")
    if a.show:
        print("\n".join(_describe([*edits, *amid, *cosmetic])))


if __name__ == "__main__":
    main()
