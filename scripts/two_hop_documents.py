"""Twelve questions of two steps over 144 made-up documents, as a report without a model and without a network.

    python scripts/two_hop_documents.py          how many have both documents among the sources, and the right answer

The documents are 36 chains of four, in three kinds in turn (Markdown, HTML, text): the first names the bridge, the second has
the answer, and two are about things with similar words. Twelve of the chains have a question, in words of its own. An answer is
right when it is in a sentence whose citation is supported. The words are made up, and no rule was chosen on this set.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from modules.llm_platform import ResearchRequest  # noqa: E402
from modules.llm_platform.container import build_platform  # noqa: E402
from shared.config import Settings  # noqa: E402

CHAINS = 36
QUESTIONS = 12
KINDS = ("md", "html", "txt")
SYLLABLES = (
    "bel",
    "dor",
    "fen",
    "gal",
    "hul",
    "jor",
    "kes",
    "lum",
    "mar",
    "nov",
    "pel",
    "rud",
    "sav",
    "tor",
    "vil",
    "wen",
)


@dataclass(frozen=True)
class Theme:
    """What the chains of a theme say: {a} is asked about, {b} is the bridge, {c} the answer; {d} and {e} are others."""

    first: str
    second: str
    near_first: str
    near_second: str
    question: str


THEMES = (
    Theme(
        "The {a} lighthouse was drawn by the architect {b}, after two other plans had been turned down.",
        "{b} was born in {c}, the younger child of a ferryman.",
        "The {d} lighthouse was repaired twice, and its lamp is electric now.",
        "The painter {e} was born in Oakmouth and seldom left it.",
        "In which town was the architect of the {a} lighthouse born?",
    ),
    Theme(
        "The {a} valve is made by {b}, and sold in crates of forty.",
        "The headquarters of {b} are in {c}, beside the old harbour.",
        "The {d} valve leaks less than others at low pressure.",
        "The headquarters of {e} moved three times in nine years.",
        "Where does the maker of the {a} valve have its headquarters?",
    ),
    Theme(
        "The novel {a} was written by {b} in a single winter.",
        "In 1931, {b} married {c}, a botanist who kept bees.",
        "The novel {d} was printed in small letters on grey paper.",
        "{e} married late, and told nobody.",
        "Whom did the author of the novel {a} marry?",
    ),
    Theme(
        "The {a} river rises on the slopes of mount {b}.",
        "Mount {b} is {c} metres high, and has snow until May.",
        "The {d} river carries timber to the sea.",
        "Mount {e} is a hill that was named in jest.",
        "How high is the mountain on which the {a} river has its source?",
    ),
)


@dataclass(frozen=True)
class TwoHops:
    """A question, its answer, and the names of the two documents that it takes."""

    question: str
    answer: str
    supports: tuple[str, str]


def name_of(number: int) -> str:
    """Return a made-up name, another one for each number below 4,096."""
    first, second, third = number % 16, number // 16 % 16, number // 256 % 16
    return (SYLLABLES[first] + SYLLABLES[(second + first) % 16] + SYLLABLES[third]).capitalize()


def write_documents(folder: Path) -> list[TwoHops]:
    """Write the documents, and return the questions of the first QUESTIONS chains."""
    asked: list[TwoHops] = []
    for chain in range(CHAINS):
        theme = THEMES[chain % len(THEMES)]
        a, b, c, d, e = (name_of(chain * 5 + offset) for offset in range(5))
        if theme is THEMES[3]:
            c = f"{1200 + 37 * chain:,}"
        texts = (theme.first, theme.second, theme.near_first, theme.near_second)
        titles = (a, b, d, e)
        files = [f"{title.lower()}.{KINDS[(chain + place) % len(KINDS)]}" for place, title in enumerate(titles)]
        for title, text, file in zip(titles, texts, files, strict=True):
            filled = text.format(a=a, b=b, c=c, d=d, e=e)
            Path(folder, file).write_text(_document(title, filled, file.rpartition(".")[2]), encoding="utf-8")
        if chain < QUESTIONS:
            asked.append(TwoHops(theme.question.format(a=a), c, (files[0], files[1])))
    return asked


def _document(title: str, text: str, kind: str) -> str:
    more = f"This note on {title} was copied from a card index. Its second half has been lost."
    if kind == "md":
        return f"# {title}\n\n{text} {more}\n"
    if kind == "html":
        return f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{text} {more}</p>\n"
    return f"{title}\n\n{text} {more}\n"


async def measure(rounds: int | None = None) -> tuple[int, int, list[str]]:
    """Return how many questions have both documents among the sources, and the right answer, and a line for each other one.

    `rounds` are the further rounds of a report; None for its default.
    """
    complete, right, lines = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="two-hops-") as folder, tempfile.TemporaryDirectory() as data:
        asked = write_documents(Path(folder))
        settings = Settings(_env_file=None, DOCUMENTS_DIR=folder, LLM_PLATFORM_OFFLINE=True, LLM_PLATFORM_DATA_DIR=data)
        async with build_platform(settings) as platform:
            for case in asked:
                request = ResearchRequest(
                    query=case.question, depth="report", language="en", sources=("documents",), rounds=rounds
                )
                answer = await platform.research.research(request)
                addresses = [source.url for source in answer.sources]
                has_both = all(any(support in url for url in addresses) for support in case.supports)
                said = [answer.synthesis[one.start : one.end] for one in answer.citations if one.verdict == "supported"]
                is_right = any(case.answer in sentence for sentence in said)
                complete, right = complete + has_both, right + is_right
                if not (has_both and is_right):
                    lines.append(
                        f"{case.question} ({case.answer}): {has_both=} {is_right=} stopped={answer.metadata.stopped}"
                    )
    return complete, right, lines


def main() -> None:
    for rounds in (0, None):
        complete, right, lines = asyncio.run(measure(rounds))
        kind = "one search" if rounds == 0 else "with further rounds"
        print(f"{kind}: of {QUESTIONS} questions, both documents among the sources {complete}, right {right}")
        if rounds is None:
            print("\n".join(lines))


if __name__ == "__main__":
    main()
