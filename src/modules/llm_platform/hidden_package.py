"""Says which package hides the settings and errors of this one, because Python says only that a module is missing."""

import os
from importlib.machinery import PathFinder

import shared

MODULES = ("config", "exceptions", "logging", "setting_names", "setting_types")


def check_shared() -> None:
    """Raise ImportError unless the modules of `shared` belong to llm-platform. Imports none of them."""
    own_folder = os.path.realpath(os.path.join(__file__, "..", "..", "..", "shared"))  # noqa: PTH118  pathlib loads slowly
    path = getattr(shared, "__path__", None)
    for name in MODULES:
        spec = PathFinder.find_spec(f"shared.{name}", path) if path else None
        if spec is None or os.path.realpath(os.path.dirname(spec.origin or "")) != own_folder:  # noqa: PTH120
            hiding = os.pathsep.join(path) if path else shared.__file__
            raise ImportError(
                f"The package 'shared' at {hiding} hides llm-platform's package 'shared' at {own_folder}. In the first folder, "
                f"delete __init__.py and rename {name}.py if it exists, or move that folder into a package of your own: see "
                "docs/howto/name-collisions.md of llm-platform",
                name=f"shared.{name}",
            )
