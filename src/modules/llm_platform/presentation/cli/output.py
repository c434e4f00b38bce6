"""Output of the commands: standard output, the file of `--output`, which is replaced in one step, and results of checks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypedDict

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.health_dtos import CheckResult, CheckVerdict
from modules.llm_platform.domain.dtos.sealed_dtos import SEALED_SUFFIX
from modules.llm_platform.presentation.cli.console import Console, Line, Style
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.render.json import write_json

FileFormat = Literal["md", "html", "json", "sealed"]
Renderer = Callable[[], str | bytes]
FORMATS: Mapping[str, FileFormat] = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}  # keyed by suffix
NOT_SEALED: Final = (
    "is the name of a sealed answer, which `research` and `researches follow` write: end it in .md, .html or .json"
)
MIN_SUBJECT_WIDTH: Final = 20
MARKS: Final[Mapping[CheckVerdict, tuple[str, Style]]] = {
    "ok": ("✔", "green"),
    "warning": ("!", "yellow"),
    "failed": ("✘", "red"),
}


class Renderers(TypedDict):
    """The function that renders an answer in each `FileFormat`. `--json` prints `json`. Few answers can be sealed."""

    md: Renderer
    html: Renderer
    json: Renderer
    sealed: NotRequired[Renderer]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The output options of a command. With a file, standard output stays empty unless `as_json` is set."""

    as_json: bool = False
    file: Path | None = None
    prompts_enabled: bool = True  # False with --yes
    csl: Path | None = None  # file for the sources in CSL-JSON
    evidence: Path | None = None  # file for the ledger in JSON lines
    show_sent: bool = False
    prints_object: bool = False  # a schema replaces the text by an object
    can_seal: bool = False  # the command answers questions from sources

    @property
    def is_sealed(self) -> bool:
        """True if the file is a sealed answer."""
        return self.file is not None and get_file_format(self.file) == "sealed"

    @property
    def is_printed(self) -> bool:
        """True if the answer is printed for reading."""
        return not self.as_json and self.file is None

    def check(self, console: Console) -> None:
        """Check the files before the answer costs anything.

        Raises WrongUseError for a file that cannot be written, and CommandError if the user does not want to replace one.
        """
        if self.file is not None:
            if self.is_sealed and not self.can_seal:
                reject("--output", f"{self.file} {NOT_SEALED}")
            _check_writable(self.file, "--output")
        if self.csl is not None:
            if FORMATS.get(self.csl.suffix.lower()) != "json":
                reject("--csl", f"{self.csl} must end in .json")
            if self.file is not None and self.csl.resolve() == self.file.resolve():
                reject("--csl", f"{self.csl} is also the file of --output: name another file")
            _check_writable(self.csl, "--csl")
        if self.evidence is not None:
            if self.evidence.suffix.lower() != ".jsonl":
                reject("--evidence", f"{self.evidence} must end in .jsonl")
            _check_writable(self.evidence, "--evidence")
        for path in filter(None, (self.file, self.csl, self.evidence)):
            if self.prompts_enabled and path.exists() and not console.confirm(f"{path} exists: replace it?"):
                raise CommandError(f"{path} was not replaced")

    def deliver(self, console: Console, renderers: Renderers, print_answer: Callable[[], None]) -> None:
        """Write the file, print JSON, or call `print_answer`, as the options say."""
        if self.file is not None:
            write_file(console, self.file, renderers[get_file_format(self.file)]())
        if self.as_json:
            text = renderers["json"]()
            console.print_verbatim(text if isinstance(text, str) else text.decode())
        if self.is_printed:
            print_answer()


def get_file_format(path: Path) -> FileFormat:
    """Return the format for the name of the file. Raises WrongUseError for an unknown suffix."""
    if path.name.lower().endswith(SEALED_SUFFIX):
        return "sealed"
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        reject("--output", f"{path} must end in .md, .html or .json, or in {SEALED_SUFFIX} for a sealed answer")
    return found


def _check_writable(path: Path, option: str) -> None:
    if path.is_dir():
        reject(option, f"{path} is a folder")
    folder = path.resolve().parent
    if not folder.is_dir():
        reject(option, f"the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        reject(option, f"the folder {folder} is not writable")


def write_file(console: Console, path: Path, content: str | bytes) -> None:
    """Write bytes, or text with a line break at its end. Raises CommandError if the file cannot be written."""
    if isinstance(content, str) and not content.endswith("\n"):
        content += "\n"
    try:
        replace_file(path, content)
    except OSError as error:
        raise CommandError(f"{path} could not be written: {error.strerror}") from error
    console.print_progress(f"written to {path}")


def replace_file(path: Path, content: str | bytes) -> None:
    """Replace the file in one step: a reader sees the old content or the new one. Raises OSError."""
    data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
    target = path.resolve()  # a link keeps pointing to its file
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def read_option_file(option: str, path: Path, *, max_kb: int, content: str) -> str:
    """Return the text of the file that an option names, without a byte order mark. `content` names what the file holds.

    Raises WrongUseError if the file cannot be read, is longer than `max_kb` (1000 bytes each), or is not UTF-8.
    """
    max_bytes = max_kb * 1000
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        reject(option, f"{path} cannot be read: {error.strerror}")
    if len(data) > max_bytes:
        reject(option, f"{path} is too long for {content}: at most {max_kb:,} kB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        reject(option, f"{path} must be text in UTF-8")


def print_result(
    console: Console, value: BaseModel | Mapping[str, Any], lines: Iterable[Line], *, as_json: bool
) -> None:
    """Print a value as JSON, or the lines that say the same."""
    if as_json:
        console.print_verbatim(write_json(value.model_dump(mode="json") if isinstance(value, BaseModel) else value))
    else:
        console.print_lines(lines)


def print_check_results(console: Console, results: Sequence[CheckResult], *, as_json: bool) -> None:
    """Print a line for each result, or one object with all. Raises CommandError that names the checks that failed."""
    checks = [{"subject": result.subject, "verdict": result.verdict, "text": result.text} for result in results]
    lines = []
    width = max([MIN_SUBJECT_WIDTH, *(len(result.subject) for result in results)])
    for result in results:
        mark, style = MARKS[result.verdict]
        text = " ".join(result.text.split())
        lines.append(Line(f"{mark} {result.verdict:<7}  {result.subject:<{width}} {text}", style))
    print_result(console, {"checks": checks}, lines, as_json=as_json)
    failed = [result.subject for result in results if result.verdict == "failed"]
    if failed:
        raise CommandError(f"failed: {', '.join(dict.fromkeys(failed))}")
