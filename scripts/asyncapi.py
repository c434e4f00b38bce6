"""Write docs/reference/asyncapi.json and docs/reference/schemas; with --check, fail when they are not what the code says."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modules.llm_platform.presentation.kafka.contract.schemas import asyncapi, schemas

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def documents() -> dict[Path, str]:
    """Each file with its text: the AsyncAPI document, and a schema for each topic."""
    found = {REFERENCE / "asyncapi.json": _text(asyncapi())}
    for topic, schema in schemas().items():
        found[REFERENCE / "schemas" / f"{topic}.schema.json"] = _text({"$schema": DIALECT, "title": topic, **schema})
    return found


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    found = documents()
    if "--check" in arguments:
        stale = [path.name for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text]
        print(
            f"stale: {', '.join(stale)}; run scripts/asyncapi.py"
            if stale
            else "asyncapi.json and schemas are up to date"
        )
        return 1 if stale else 0
    for path, text in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
