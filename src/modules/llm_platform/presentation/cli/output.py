"""Where an answer goes: the screen, `--json`, and the file of `--output`, which is written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modules.llm_platform.domain.dtos.research_dtos import ResearchResponse
from modules.llm_platform.presentation.cli.console import Console, Line
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
    csl: Path | None = None  # where the sources go as CSL-JSON, whatever becomes of the answer
    show_sent: bool = False

    @property
    def on_screen(self) -> bool:
        """Whether the answer is shown for people to read."""
        return not self.as_json and self.output is None

    def check(self, console: Console) -> None:
        """Before anything is spent: wrong use when a file cannot be written, the end when it must not be replaced."""
        if self.output is not None:
            kind_of(self.output)
        if self.csl is not None:
            _check_csl(self.csl, self.output)
        for path in filter(None, (self.output, self.csl)):
            if self.ask and path.exists() and not console.agrees(f"{path} exists: replace it?"):
                raise CommandError(f"{path} was left as it is")

    def write(self, console: Console, text: Callable[[FileKind], str]) -> None:
        """Write the file, if one is wanted, in the format that its name asks for."""
        if self.output is not None:
            _deliver(console, self.output, text(kind_of(self.output)))

    def write_csl(self, console: Console, text: Callable[[], str]) -> None:
        """Write the file of the sources, if one is wanted."""
        if self.csl is not None:
            _deliver(console, self.csl, text())


def kind_of(path: Path) -> FileKind:
    """What the file's name asks for; wrong use when it asks for nothing known, or cannot be written where it is."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        wrong("--output", f"{path.name} must end in .md, .html or .json")
    _check_place(path, "--output")
    return kind


def _check_csl(path: Path, output: Path | None) -> None:
    if KINDS.get(path.suffix.lower()) != "json":
        wrong("--csl", f"{path.name} must end in .json")
    if output is not None and path.resolve() == output.resolve():
        wrong("--csl", f"{path} is where --output goes: name another file")
    _check_place(path, "--csl")


def _check_place(path: Path, option: str) -> None:
    if path.is_dir():
        wrong(option, f"{path} is a folder")
    folder = path.resolve().parent
    if not folder.is_dir():
        wrong(option, f"the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        wrong(option, f"the folder {folder} is not writable")


def _deliver(console: Console, path: Path, text: str) -> None:
    try:
        write(path, text)
    except OSError as error:
        raise CommandError(f"{path} could not be written: {error.strerror}") from error
    console.step(f"written to {path}")


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


# Where the answer of a research goes: the screen, JSON, files; behind it what was sent out, where that is wanted.


def deliver(
    console: Console, response: ResearchResponse, delivery: Delivery, *, live: bool, without_model: str | None
) -> None:
    """Deliver it. `live`: its text stands on the terminal already. `without_model` is said where no model is configured."""
    delivery.write(console, lambda kind: _file(response, kind))
    delivery.write_csl(console, lambda: _csl(response))
    if delivery.as_json:
        from modules.llm_platform.presentation.cli.render_json import research_json

        console.verbatim(research_json(response))
    if delivery.on_screen:
        from modules.llm_platform.presentation.cli.render_terminal import render_sources, with_unsupported_marked

        marked = with_unsupported_marked(response)
        if live:
            _show_marked_blocks(console, marked)
        else:
            console.markdown(marked)
        console.lines(render_sources(response, without_model))
    if delivery.show_sent:
        _show_sent(console, response, delivery)


def _show_marked_blocks(console: Console, marked: str) -> None:
    """The answer stands on the screen, printed while it was written; only then could it be checked."""
    from modules.llm_platform.presentation.cli.render_terminal import AGAIN, blocks_with_marks

    if blocks := blocks_with_marks(marked):
        console.lines([Line(), Line(AGAIN, "yellow"), Line()])
        console.markdown(blocks)


def _show_sent(console: Console, response: ResearchResponse, delivery: Delivery) -> None:
    """Beneath the answer; beside it where standard output is for JSON alone, or for nothing."""
    from modules.llm_platform.presentation.cli.render_terminal import render_egress_log

    lines = render_egress_log(response.metadata.sent_to)
    (console.lines if delivery.on_screen else console.aside)(lines)


def _csl(response: ResearchResponse) -> str:
    from modules.llm_platform.presentation.cli.render_csl import csl_json

    return csl_json(response) + "\n"


def _file(response: ResearchResponse, kind: FileKind) -> str:
    if kind == "json":
        from modules.llm_platform.presentation.cli.render_json import research_json

        return research_json(response) + "\n"
    from modules.llm_platform.presentation.cli.render_document import research_html, research_markdown

    return research_html(response) if kind == "html" else research_markdown(response)


# A file that an option names: read whole, and never more of it than it may hold.


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
