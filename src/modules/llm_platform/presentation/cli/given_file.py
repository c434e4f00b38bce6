"""A file that an option names: read whole, and never more of it than it may hold."""

from __future__ import annotations

from pathlib import Path

from modules.llm_platform.presentation.cli.options import wrong


def read_given(option: str, path: Path, *, most_kb: int, what: str) -> bytes:
    """Its bytes; wrong use of `option` when it cannot be read, or is too long for `what`. A kB has 1000 bytes."""
    most = most_kb * 1000
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        wrong(option, f"{path} cannot be read: {error.strerror}")
    if len(content) > most:
        wrong(option, f"{path} is too long for {what}: at most {most_kb:,} kB")
    return content
