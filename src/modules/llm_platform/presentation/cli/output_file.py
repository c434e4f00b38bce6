"""Where an answer goes: the screen, `--json`, and the file of `--output`, which is written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import wrong

FileKind = Literal["md", "html", "json"]
KINDS: Mapping[str, FileKind] = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the answer is wanted. With a file the screen stays empty, unless JSON is wanted there."""

    as_json: bool = False
    output: Path | None = None
    ask: bool = True  # whether a person may be asked something

    @property
    def on_screen(self) -> bool:
        """Whether the answer is shown for people to read."""
        return not self.as_json and self.output is None

    def check(self, console: Console) -> None:
        """Before anything is spent: wrong use when the file cannot be written, the end when it must not be replaced."""
        if self.output is None:
            return
        kind_of(self.output)
        if self.ask and self.output.exists() and not console.agrees(f"{self.output} exists: replace it?"):
            raise CommandError(f"{self.output} was left as it is")

    def write(self, console: Console, text: Callable[[FileKind], str]) -> None:
        """Write the file, if one is wanted, in the format that its name asks for."""
        if self.output is None:
            return
        try:
            write(self.output, text(kind_of(self.output)))
        except OSError as error:
            raise CommandError(f"{self.output} could not be written: {error.strerror}") from error
        console.step(f"written to {self.output}")


def kind_of(path: Path) -> FileKind:
    """What the file's name asks for; wrong use when it asks for nothing known, or cannot be written where it is."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        wrong("--output", f"{path.name} must end in .md, .html or .json")
    if path.is_dir():
        wrong("--output", f"{path} is a folder")
    folder = path.resolve().parent
    if not folder.is_dir():
        wrong("--output", f"the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        wrong("--output", f"the folder {folder} is not writable")
    return kind


def write(path: Path, text: str) -> None:
    """Replace the file in one step: who reads it meanwhile sees the old one or the new one. May raise OSError."""
    target = path.resolve()  # a link keeps pointing to its file
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
