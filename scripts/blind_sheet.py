"""The sheet of a blind comparison: how it is written, and how a filled-in one is read.

Whatever an answer says is after `> `, so that no line of it can be taken for a line of the form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shared.logging import printable

LOWEST, HIGHEST = 1, 5  # marks for quality
TIE = "="
SIDES = (1, 2)

HOW = f"""\
Read each question and its two answers, then fill in the lines below them. The two come from two variants in random order;
which is which stands in the key, so do not open that before you are done. A line left empty counts for nothing.

- better: the number of the better answer, or {TIE} where neither is.
- quality: {LOWEST} (of no use) to {HIGHEST} (nothing to wish for): right, complete, clear, and to the question.
- citations: look at some or all cited sentences, and say how many the source bears out of how many you looked at: 7/8.
- ambiguity: only where the question can be read in several ways: does the answer say so, or ask? yes or no."""

_QUESTION = re.compile(r"## Question (\d{1,4})")
_ENTRY = re.compile(r"[-*] (better|(?:quality|citations|ambiguity) [12])\b[^:]*:(.*)")
_SHARE = re.compile(r"(\d{1,4}) */ *(\d{1,4})")
_YES_OR_NO = {"yes": True, "y": True, "no": False, "n": False}


@dataclass(frozen=True)
class Asked:
    """A question; `ambiguous` when it can be read in several ways."""

    text: str
    ambiguous: bool = False


@dataclass
class Judgement:
    """What a person says of one question; by side of the sheet, 1 or 2. What was left empty is not there."""

    better: int | None = None  # 0 for neither
    quality: dict[int, float] = field(default_factory=dict)
    citations: dict[int, tuple[int, int]] = field(default_factory=dict)  # right, looked at
    ambiguity: dict[int, bool] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return self == Judgement()


class SheetError(Exception):
    """The sheet cannot be read; one line for each thing to correct."""


def read_questions(text: str) -> list[Asked]:
    """Return one question on a line; # begins a remark, ~ a question that can be read in several ways."""
    lines = (line.strip() for line in text.splitlines())
    return [Asked(line.lstrip("~ "), line.startswith("~")) for line in lines if line and not line.startswith("#")]


def sheet_id(pairs: Sequence[tuple[Asked, str, str]]) -> str:
    """Ties a sheet to its key, and tells nothing about the order: the answers are sorted."""
    parts = [part for asked, *answers in pairs for part in (asked.text, *sorted(answers))]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:12]


def write_sheet(pairs: Sequence[tuple[Asked, str, str]]) -> str:
    """Return the sheet: each question with the answer of side 1 and of side 2, and the lines to fill in."""
    blocks = ["# Blind comparison", f"Sheet {sheet_id(pairs)}", HOW]
    for number, (asked, first, second) in enumerate(pairs, 1):
        blocks += [f"## Question {number}", _quoted(asked.text)]
        blocks += ["### Answer 1", _quoted(first), "### Answer 2", _quoted(second)]
        blocks += [f"### Your judgement of question {number}", "\n".join(_form(asked))]
    return printable("\n\n".join(blocks) + "\n")


def _form(asked: Asked) -> Iterator[str]:
    yield f"- better (1, 2 or {TIE}): "
    for side in SIDES:
        yield f"- quality {side} ({LOWEST} to {HIGHEST}): "
    for side in SIDES:
        yield f"- citations {side} (right/looked at): "
    if asked.ambiguous:
        for side in SIDES:
            yield f"- ambiguity {side} (yes or no): "


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or "> (empty)"


def read_sheet(text: str) -> tuple[str, dict[int, Judgement]]:
    """Return the sheet's name and the judgements by number of the question. Raises SheetError with every line that is wrong."""
    name, judgements, wrong = "", dict[int, Judgement](), list[str]()
    current: Judgement | None = None
    for at, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if line.startswith("Sheet ") and not name:
            name = line.removeprefix("Sheet ").strip()
        elif heading := _QUESTION.fullmatch(line.strip()):
            current = judgements.setdefault(int(heading[1]), Judgement())
        elif current is not None and (entry := _ENTRY.fullmatch(line.strip())):
            advice = _take(current, entry[1], entry[2].strip().lower())
            wrong += [f"line {at}: {entry[1]} must be {advice}"] if advice else []
    if not judgements:
        wrong.append("this is no sheet of a blind comparison: it has no question")
    if wrong:
        raise SheetError("\n".join(wrong))
    return name, judgements


def _take(judgement: Judgement, entry: str, value: str) -> str | None:
    """Write the value down, or say what it must be."""
    what, _, side = entry.partition(" ")
    if not value:
        return None
    if what == "better":
        return _take_better(judgement, value)
    if what == "quality":
        return _take_quality(judgement, int(side), value)
    if what == "citations":
        return _take_citations(judgement, int(side), value)
    if value not in _YES_OR_NO:
        return "yes or no"
    judgement.ambiguity[int(side)] = _YES_OR_NO[value]
    return None


def _take_better(judgement: Judgement, value: str) -> str | None:
    if value not in ("1", "2", TIE):
        return f"1, 2 or {TIE}"
    judgement.better = 0 if value == TIE else int(value)
    return None


def _take_quality(judgement: Judgement, side: int, value: str) -> str | None:
    number = re.fullmatch(r"\d(?:[.,]\d)?", value, re.ASCII)
    mark = float(value.replace(",", ".")) if number else 0.0
    if not LOWEST <= mark <= HIGHEST:
        return f"a number from {LOWEST} to {HIGHEST}"
    judgement.quality[side] = mark
    return None


def _take_citations(judgement: Judgement, side: int, value: str) -> str | None:
    share = _SHARE.fullmatch(value)
    if share is None or int(share[1]) > int(share[2]):
        return "two numbers such as 7/8, the first not above the second"
    judgement.citations[side] = (int(share[1]), int(share[2]))
    return None
