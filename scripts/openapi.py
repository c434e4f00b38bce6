"""Write docs/reference/openapi.json; with --check, fail when it is not what the code says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.presentation.rest.app import create_app
from shared.config import Settings

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "openapi.json"


def document() -> str:
    """The OpenAPI document as the file holds it. No setting changes it, so none is read."""

    def never() -> LLMPlatform:
        raise AssertionError("the application is described, not started")

    return json.dumps(create_app(never, Settings.model_construct()).openapi(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    text = document()
    if "--check" in arguments:
        fresh = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text
        print("openapi.json is up to date" if fresh else "docs/reference/openapi.json is stale: run scripts/openapi.py")
        return 0 if fresh else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
