"""The table of public names with all events and errors, and the stub of `modules.llm_platform` that is made from it.

The stub shows type checkers the public names as plain imports.
"""

from __future__ import annotations

from pathlib import Path

from modules.llm_platform.application.research import events
from modules.llm_platform.application.verification import events as verification_events
from modules.llm_platform.domain import exceptions
from modules.llm_platform.public_names import MODULE_OF

TABLE = "src/modules/llm_platform/public_names.py"
BEGIN = "MODULE_OF: Final = {\n"
WHOLLY_PUBLIC = (events, verification_events, exceptions)  # each class of these modules is a public name
HEAD = (
    "# The public names, for type checkers. `make docs` writes this file from public_names.py.\n# ruff: noqa: I001\n\n"
)


def names() -> dict[str, str]:
    """Return the public names in the order of the alphabet, with their modules."""
    classes = {
        name: module.__name__
        for module in WHOLLY_PUBLIC
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    return dict(sorted({**classes, **MODULE_OF}.items()))


def table(root: Path) -> str:
    """Return the text of public_names.py with the table as it is now."""
    before, begin, _ = (root / TABLE).read_text(encoding="utf-8").partition(BEGIN)
    rows = (f'    "{name}": "{module}",\n' for name, module in names().items())
    return before + begin + "".join(rows) + "}\n"


def stub() -> str:
    """Return the text of `__init__.pyi`, sorted by module and name."""
    rows = sorted((module, name) for name, module in names().items())
    return HEAD + "".join(f"from {module} import {name} as {name}\n" for module, name in rows)
