"""The name and the version of the package."""

from __future__ import annotations

from typing import Final

PACKAGE: Final = "llm-platform"


def package_version() -> str:
    """Return the version of the installed package; empty in a source folder that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""
