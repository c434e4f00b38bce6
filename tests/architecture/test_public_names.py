"""The public names: the stub for type checkers is the table, from which the loader and `__all__` derive."""

from __future__ import annotations

from pathlib import Path

import pytest

import modules.llm_platform as platform
from modules.llm_platform.domain import exceptions

MODULE_OF = platform.MODULE_OF
INNER_MODULES = ("modules.llm_platform.domain", "modules.llm_platform.application", "shared.exceptions")


def test_every_public_name_can_be_imported() -> None:
    """`__all__` is sorted, and each name is the object of the module that the table names."""
    assert list(platform.__all__) == sorted(MODULE_OF)
    assert set(platform.__all__) <= set(dir(platform))
    for name in platform.__all__:
        assert getattr(platform, name).__module__ == MODULE_OF[name] or not isinstance(getattr(platform, name), type)
    with pytest.raises(AttributeError, match="NoSuchName"):
        _ = platform.NoSuchName


def test_the_table_is_sorted_and_complete() -> None:
    """Each line of the stub names one module and one name, as type checkers need it."""
    lines = Path(f"{platform.__file__}i").read_text(encoding="utf-8").split("\n\n")[1].splitlines()
    wanted = [f"from {module} import {name} as {name}" for module, name in sorted((m, n) for n, m in MODULE_OF.items())]
    assert lines == wanted, "Run `make docs`: it sorts the lines of modules/llm_platform/__init__.pyi."


def test_public_names_are_defined_in_domain_and_application() -> None:
    """No adapter and no framework is public."""
    outer = sorted(name for name, module in MODULE_OF.items() if not module.startswith(INNER_MODULES))
    assert not outer, f"Remove {', '.join(outer)} from the public names, or move them to domain or application."


def test_every_error_is_public() -> None:
    """Whoever calls the platform can catch each error by its name."""
    module = exceptions.__name__
    errors = {name for name, value in vars(exceptions).items() if getattr(value, "__module__", "") == module}
    hidden = sorted(errors - set(MODULE_OF))
    assert not hidden, f"Add {', '.join(hidden)} of domain/exceptions.py to modules/llm_platform/__init__.pyi."
