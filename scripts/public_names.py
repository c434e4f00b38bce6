"""Writes src/modules/llm_platform/__init__.pyi from public_names.py beside it; --check fails when the file is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from modules.llm_platform.public_names import MODULE_OF

ROOT = Path(__file__).resolve().parent.parent
STUB = ROOT / "src" / "modules" / "llm_platform" / "__init__.pyi"
COMMAND = "python scripts/public_names.py"


def stub() -> str:
    """The text of the stub: one import for each public name."""
    imports = sorted((module, name) for name, module in MODULE_OF.items())
    lines = [f"from {module} import {name} as {name}" for module, name in imports]
    return "\n".join([f"# Written by `{COMMAND}`; do not edit.", "# ruff: noqa: I001", "", *lines, ""])


def main(arguments: list[str]) -> int:
    """Write the stub, or with --check report that it is stale."""
    text = stub()
    if STUB.exists() and STUB.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in arguments:
        print(f"{STUB.relative_to(ROOT)} is stale: run {COMMAND}", file=sys.stderr)
        return 1
    STUB.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
