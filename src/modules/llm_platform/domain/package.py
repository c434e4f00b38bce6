"""The name and the version of the package, and the platforms for which wordllama, the local embedder, has one."""

import platform
import sys
from typing import Final

PACKAGE: Final = "llm-platform"
# A test compares these with the markers of the extra `retrieval` in pyproject.toml.
WORDLLAMA_MACHINES: Final = frozenset(
    [("linux", "x86_64"), ("darwin", "x86_64"), ("darwin", "arm64"), ("win32", "AMD64")]
)
WORDLLAMA_BELOW: Final = (3, 14)


def package_version() -> str:
    """Return the version of the installed package; empty in a source folder that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def version_line() -> str:
    """Return what `llm-platform --version` prints."""
    return f"{PACKAGE} {package_version() or '(unknown version: the package is not installed)'}"


def has_wordllama_wheel() -> bool:
    """Return whether pip can install wordllama for this interpreter and machine."""
    return sys.version_info < WORDLLAMA_BELOW and (sys.platform, platform.machine()) in WORDLLAMA_MACHINES


def no_wordllama() -> str:
    """Return one line that says why wordllama cannot be installed here, and what to do."""
    here = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}"
    return (
        f"wordllama, which makes the vectors, has no package for {here}; use Python 3.11 to 3.13 "
        "on x86-64 or a Mac, or EMBEDDER=openai for `llm-platform index`"
    )
