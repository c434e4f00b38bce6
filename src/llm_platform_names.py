"""Explains import errors if a package of the application hides `modules.llm_platform` or `shared`.

An application may have a package `modules` or `shared` of its own. Python imports that one, and its error says only that a
submodule is missing. This module is installed beside both packages, and `llm_platform_names.pth` loads it when Python
starts. It adds a finder that is called last, after an import has failed, and that raises an error with both paths. It never
changes what is imported (docs/howto/name-collisions.md).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # every start of Python loads this module, and importing `typing` takes six milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120  importing pathlib takes as long
SHARED_MODULES = tuple(f"shared.{name}" for name in ("config", "exceptions", "logging", "setting_names", "setting_types"))
OWN_MODULES = frozenset({"modules.llm_platform", *SHARED_MODULES})
REMEDIES = {
    "modules": "Delete its __init__.py, so that Python finds both, or rename it",
    "shared": "Rename it, or move it into a package of your own",
}
INTERRUPTED = 130  # the exit code; importing it would import the command line
GUIDE = "docs/howto/name-collisions.md of llm-platform"


class HiddenPackageError(ModuleNotFoundError):
    """A package of the application hides one of llm-platform. The message has both paths and the remedy."""

    def __init__(self, name: str, hiding_path: str) -> None:
        package = name.partition(".")[0]
        hidden_path = os.path.join(HERE, package)  # noqa: PTH118
        super().__init__(
            f"the package {package!r} at {hiding_path} hides the one of llm-platform at {hidden_path}. "
            f"{REMEDIES[package]}: see {GUIDE}",
            name=name,
        )


class HiddenPackageFinder:
    """The last finder in `sys.meta_path`: it is called for modules that no other finder has found."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise HiddenPackageError for a module of llm-platform whose parent is another package; otherwise find nothing."""
        if name in OWN_MODULES and path is not None and not any(_is_in(folder, HERE) for folder in path):
            raise HiddenPackageError(name, _joined(path))


def install() -> None:
    """Add the finder. A second call has no effect."""
    if HiddenPackageFinder not in sys.meta_path:
        sys.meta_path.append(HiddenPackageFinder)


def check_shared(package_file: str) -> None:
    """Raise HiddenPackageError unless the modules of `shared` belong to llm-platform. Imports none of them.

    They belong to it if they are beside this module, or beside the `modules` of `package_file` (`__init__` of
    modules.llm_platform), which may be another checkout of this project.
    """
    from importlib.machinery import PathFinder

    import shared

    beside = os.path.dirname(os.path.dirname(os.path.dirname(package_file)))  # noqa: PTH120
    path = _path_of(shared)
    for name in SHARED_MODULES:
        spec = PathFinder.find_spec(name, path)
        folder = os.path.dirname("" if spec is None else spec.origin or "")  # noqa: PTH120
        if not _is_in(folder, HERE) and not _is_in(folder, beside):
            raise HiddenPackageError(name, _joined(path))


def main() -> None:
    """Run the command `llm-platform`. Exits with one line if an application hides its packages."""
    install()
    try:
        import modules

        _path_of(modules)
        from modules.llm_platform.__main__ import main as run_command_line
    except HiddenPackageError as error:
        sys.exit(f"llm-platform: {error}")
    except KeyboardInterrupt:  # the imports take longer than some users wait
        sys.exit(INTERRUPTED)
    run_command_line()


def _path_of(package: ModuleType) -> Sequence[str]:
    """Return the path of a package. Raises HiddenPackageError for a module that is not a package."""
    path: Sequence[str] | None = getattr(package, "__path__", None)
    if path is None:
        raise HiddenPackageError(package.__name__, package.__file__ or "an unknown path")
    return list(path)


def _is_in(folder: str, parent: str) -> bool:
    return os.path.dirname(os.path.realpath(folder)) == os.path.realpath(parent)  # noqa: PTH120


def _joined(path: Iterable[str]) -> str:
    return os.pathsep.join(path) or "an unknown path"
