"""A blind comparison of two ways of answering: prompts, models or depths (docs/reference/success-criteria.md).

    python scripts/blind.py write --a 'depth=shallow' --b 'depth=report'     the sheet and its key
    python scripts/blind.py score build/blind/sheet.md                       what the filled-in sheet says

Without anything else both answer questions about docs/, with the model that is configured, or with quotes where none is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from pydantic import ValidationError  # noqa: E402
from scripts.blind_asking import Answer, Variant, VariantError, answer_all, parse_variant  # noqa: E402
from scripts.blind_scoring import VARIANTS, lines, score  # noqa: E402
from scripts.blind_sheet import Asked, Judgement, SheetError, read_questions, read_sheet, sheet_id, write_sheet  # noqa: E402

from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest  # noqa: E402
from shared.config import SettingsError  # noqa: E402

QUESTIONS = ROOT / "scripts" / "blind_questions.txt"
DOCUMENTS = ROOT / "docs"
OUT = ROOT / "build" / "blind"
SHEET, KEY, STORES = "sheet.md", "key.json", "stores"
WRONG_USE = 2


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="ask both variants, write the sheet and its key")
    write.add_argument("--a", default="depth=shallow", metavar="VARIANT", help="such as 'depth=deep model=gpt-5'")
    write.add_argument("--b", default="depth=report", metavar="VARIANT")
    write.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE", help="one on a line")
    write.add_argument("--documents", type=Path, metavar="DIR", help="search this folder alone; default: docs")
    write.add_argument("--web", action="store_true", help="search what is configured instead of a folder")
    write.add_argument("--offline", action="store_true", help="ask no model that is not on this machine")
    write.add_argument("--out", type=Path, default=OUT, metavar="DIR")
    write.add_argument("--seed", type=int, help="of the order; default: by chance")
    scored = commands.add_parser("score", help="score a filled-in sheet")
    scored.add_argument("sheet", type=Path)
    scored.add_argument("--key", type=Path, help="default: key.json beside the sheet")
    return parser.parse_args(given)


def orders(count: int, seed: int) -> list[str]:
    """Return which variant is first in each question: each one in half of them, so that reading order favours neither."""
    firsts = [VARIANTS[number % 2] for number in range(count)]
    random.Random(seed).shuffle(firsts)  # for fairness, not for secrecy
    return firsts


def sheet_and_key(
    questions: Sequence[Asked], answers: dict[str, list[Answer]], variants: dict[str, Variant], seed: int
) -> tuple[str, dict[str, Any]]:
    """Return the sheet as text and its key, which alone knows the variants."""
    firsts = orders(len(questions), seed)
    pairs, rows = [], []
    for number, (asked, first) in enumerate(zip(questions, firsts, strict=True)):
        both = {variant: answers[variant][number] for variant in VARIANTS}
        second = VARIANTS[1 - VARIANTS.index(first)]
        pairs.append((asked, both[first].text, both[second].text))
        rows.append({"question": asked.text, "first": first} | {name: both[name].took() for name in VARIANTS})
    named = {name: variant.text for name, variant in variants.items()}
    return write_sheet(pairs), {"sheet": sheet_id(pairs), "seed": seed, "variants": named, "questions": rows}


def write(options: argparse.Namespace) -> None:
    """Ask, and write both files; nothing is written over judgements that somebody has made."""
    sheet: Path = options.out / SHEET
    if sheet.exists() and any(not judgement.empty for judgement in _judgements(sheet)[1].values()):
        raise SheetError(f"{sheet} holds judgements: score it, or move it away first")
    questions = read_questions(options.questions.read_text(encoding="utf-8-sig"))
    variants = {"a": parse_variant(options.a), "b": parse_variant(options.b)}
    for variant in variants.values():
        _check(variant, questions)
    answers = asyncio.run(_ask(variants, questions, options))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    text, key = sheet_and_key(questions, answers, variants, seed)
    options.out.mkdir(parents=True, exist_ok=True)
    sheet.write_text(text, encoding="utf-8")
    (options.out / KEY).write_text(json.dumps(key, ensure_ascii=True, indent=2) + "\n", encoding="utf-8")
    print(f"{len(questions)} questions in {sheet}; fill it in, then: python scripts/blind.py score {sheet}")


async def _ask(
    variants: dict[str, Variant], questions: Sequence[Asked], options: argparse.Namespace
) -> dict[str, list[Answer]]:
    """Return one variant after the other: they would wait for each other's turns and look slower than they are."""
    return {
        name: await answer_all(
            variant, questions, options.out / STORES, _usual(options), _progress(name, len(questions))
        )
        for name, variant in variants.items()
    }


def _check(variant: Variant, questions: Sequence[Asked]) -> None:
    """Before anything is spent: every request must be one."""
    if not questions:
        raise VariantError("there are no questions")
    for asked in questions:
        try:
            ResearchRequest.model_validate({"query": asked.text, **variant.request})
        except ValidationError as error:
            detail = error.errors(include_input=False)[0]
            raise VariantError(f"{variant.text}: {'.'.join(map(str, detail['loc']))} {detail['msg']}") from error


def _usual(options: argparse.Namespace) -> dict[str, Any]:
    offline = {"LLM_PLATFORM_OFFLINE": True} if options.offline else {}
    if options.web:
        return offline
    return {**offline, "DOCUMENTS_DIR": options.documents or DOCUMENTS, "SEARCH_PROVIDERS": ("documents",)}


def _progress(name: str, count: int) -> Callable[[str], None]:
    answered = iter(range(1, count + 1))
    return lambda text: print(f"{name.upper()} {next(answered)}/{count}  {text}", file=sys.stderr)


def _judgements(sheet: Path) -> tuple[str, dict[int, Judgement]]:
    return read_sheet(sheet.read_text(encoding="utf-8", errors="replace"))


def scored(options: argparse.Namespace) -> None:
    """Open the key and say what the sheet says."""
    name, judgements = _judgements(options.sheet)
    key_file: Path = options.key or options.sheet.with_name(KEY)
    key = json.loads(key_file.read_text(encoding="utf-8"))
    if not isinstance(key, dict) or key.get("sheet") != name:
        raise SheetError(f"{key_file} is not the key of this sheet")
    for line in lines(score(key, judgements)):
        print(line)


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    try:
        if options.command == "write":
            write(options)
        else:
            scored(options)
    except (VariantError, SheetError, SettingsError, OSError, json.JSONDecodeError) as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    return 0


if __name__ == "__main__":
    sys.exit(main())
