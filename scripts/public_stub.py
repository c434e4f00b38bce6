"""The stub of `modules.llm_platform`, which shows type checkers the public names as plain imports."""

from __future__ import annotations

from modules.llm_platform.public_names import MODULE_OF

HEAD = "# The public names, for type checkers. `make docs` writes this file from public_names.py.\n# ruff: noqa: I001\n\n"


def stub() -> str:
    """Return the text of `__init__.pyi`, sorted by module and name."""
    names = sorted((module, name) for name, module in MODULE_OF.items())
    return HEAD + "".join(f"from {module} import {name} as {name}\n" for module, name in names)
