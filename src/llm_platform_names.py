"""Says which package of the application hides `modules.llm_platform` or `shared`, and where both stand.

An application may have a package `modules` or `shared` of its own. Python then finds that one, and the bare error says
only that a part of it is missing. A package that is hidden cannot speak for itself, so this module stands beside both,
and `llm_platform_names.pth` loads it when Python starts. It finds nothing and changes nothing: it is asked last, when
an import has failed already, and words the error (docs/howto/name-collisions.md).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # every start of Python loads this module: `typing` alone would take six milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100,PTH120  pathlib would take as long
KERNEL = ("shared.config", "shared.exceptions", "shared.logging")
OURS = frozenset({"modules.llm_platform", *KERNEL})
REMEDIES = {
    "modules": "Delete its __init__.py, so that Python finds both, or rename it",
    "shared": "Rename it, or move it into a package of your own",
}
GUIDE = "docs/howto/name-collisions.md of llm-platform"


class HiddenPackageError(ModuleNotFoundError):
    """A package of the application hides one of ours; the message has both paths and the remedy."""

    def __init__(self, name: str, theirs: str) -> None:
        package = name.partition(".")[0]
        ours = os.path.join(HERE, package)  # noqa: PTH118
        super().__init__(
            f"the package {package!r} at {theirs} hides the one of llm-platform at {ours}. {REMEDIES[package]}: see {GUIDE}",
            name=name,
        )


class HiddenPackageFinder:
    """Stands last in `sys.meta_path`: what arrives here, nobody has found."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """HiddenPackageError for a module of ours whose parent is somebody else's package; else nothing is found."""
        if name in OURS and path is not None and not any(map(_is_ours, path)):
            raise HiddenPackageError(name, _shown(path))


def install() -> None:
    """Let failed imports of our packages say why; a second call changes nothing."""
    if HiddenPackageFinder not in sys.meta_path:
        sys.meta_path.append(HiddenPackageFinder)


def check_shared(package_file: str) -> None:
    """HiddenPackageError unless `shared.config`, `.exceptions` and `.logging` stand beside this module, or beside the
    `modules` that `package_file` (of modules.llm_platform) was loaded from: another checkout of this project is no
    stranger. Loads none of them.
    """
    from importlib.machinery import PathFinder

    import shared

    beside = os.path.dirname(os.path.dirname(os.path.dirname(package_file)))  # noqa: PTH120
    path = _path_of(shared)
    for name in KERNEL:
        spec = PathFinder.find_spec(name, path)
        folder = os.path.dirname("" if spec is None else spec.origin or "")  # noqa: PTH120
        if not _is_in(folder, HERE) and not _is_in(folder, beside):
            raise HiddenPackageError(name, _shown(path))


def main() -> None:
    """The command `llm-platform`: it is found also where an application hides the rest, and says so in one line."""
    install()
    try:
        import modules

        _path_of(modules)
        from modules.llm_platform.__main__ import main as carry_out
    except HiddenPackageError as error:
        sys.exit(f"llm-platform: {error}")
    carry_out()


def _path_of(package: ModuleType) -> Sequence[str]:
    """Where the parts of a package are; HiddenPackageError for a plain module of that name, which has none."""
    path: Sequence[str] | None = getattr(package, "__path__", None)
    if path is None:
        raise HiddenPackageError(package.__name__, package.__file__ or "an unknown place")
    return list(path)


def _is_ours(folder: str) -> bool:
    return _is_in(folder, HERE)


def _is_in(folder: str, parent: str) -> bool:
    return os.path.dirname(os.path.realpath(folder)) == os.path.realpath(parent)  # noqa: PTH120


def _shown(path: Iterable[str]) -> str:
    return os.pathsep.join(path) or "an unknown place"
