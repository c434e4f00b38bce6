"""Writes the files that are made from the code: .env.example, public names, their stub, and parts of docs.

python scripts/generated_files.py            `make docs`
python scripts/generated_files.py --check    fails if a file is stale, and names it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts import (  # noqa: E402
    cli_reference,
    dialect_table,
    event_table,
    limit_column,
    metrics_reference,
    provider_table,
    public_stub,
    settings_reference,
)

from modules.llm_platform.application.platform import LLMPlatform  # noqa: E402
from modules.llm_platform.presentation.kafka.contract.schemas import asyncapi, schemas  # noqa: E402
from modules.llm_platform.presentation.rest.app import create_app  # noqa: E402
from shared.config import Settings  # noqa: E402

JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document. No setting changes it, so none is read."""

    def never() -> LLMPlatform:
        raise AssertionError("the application is described, not started")

    return create_app(never, Settings.model_construct()).openapi()


def texts() -> dict[str, str]:
    """Return the text of each file, by its path below ROOT."""
    documents = {"openapi.json": openapi(), "asyncapi.json": asyncapi()}
    for topic, schema in schemas().items():
        documents[f"schemas/{topic}.schema.json"] = {"$schema": JSON_SCHEMA, "title": topic, **schema}
    return {
        ".env.example": settings_reference.env_example(),
        "src/modules/llm_platform/__init__.pyi": public_stub.stub(),
        public_stub.TABLE: public_stub.table(ROOT),
        "docs/reference/settings.md": settings_reference.reference(),
        "docs/reference/metrics.md": metrics_reference.reference(),
        "docs/reference/cli.md": cli_reference.reference(),
        dialect_table.PAGE: dialect_table.page(ROOT),
        event_table.PAGE: limit_column.filled(event_table.page(ROOT)),
        limit_column.MCP_PAGE: limit_column.filled((ROOT / limit_column.MCP_PAGE).read_text(encoding="utf-8")),
        provider_table.PAGE: provider_table.page(ROOT),
        **{f"docs/reference/{name}": json_text(document) for name, document in documents.items()},
    }


def json_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the stale files, or with --check name them."""
    found = {root / name: text for name, text in texts().items()}
    stale = [path for path, text in found.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.relative_to(root)} is stale: run make docs", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found[path], encoding="utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
