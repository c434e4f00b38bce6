"""The command `verify` for a sealed answer: is it unchanged, who signed it, and do its verdicts come out again here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.dtos.sealed_dtos import MAX_SEALED_BYTES, CheckedSeal
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedAgain
from modules.llm_platform.presentation.cli import setup
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.render import verification as render
from modules.llm_platform.presentation.cli.render.json import json_text
from modules.llm_platform.presentation.cli.render.seal import seal_counts_line, seal_lines
from modules.llm_platform.presentation.verification_text import no_longer_hold_line
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

ZIP_START: Final = b"PK\x03\x04"
OTHER_KEY: Final = "the file is not signed with the key {key}: do not rely on who made it"
NO_ANSWER_ID: Final = "sealed"
PUBLIC_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SealedOptions:
    """The options of `verify` that a sealed answer takes.

    - `signed_by` is the public key that must have signed the file, in hex digits.
    - `refetch` also compares the answer with what its pages say now.
    """

    signed_by: str | None = None
    refetch: bool = False
    strict: bool = False
    as_json: bool = False

    def check(self) -> None:
        """Raise WrongUseError for a key that is none."""
        if self.signed_by is not None and not PUBLIC_KEY.fullmatch(self.signed_by.lower()):
            reject("--signed-by", "must be a public key of 64 hex digits, as `verify` prints it")


def is_sealed(file: Path) -> bool:
    """Return whether the file is a zip file. A file that cannot be read is not."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(ZIP_START)) == ZIP_START
    except OSError:
        return False


def verify_sealed(
    console: Console, wiring: setup.Wiring, settings: Settings, file: Path, options: SealedOptions
) -> None:
    """Check a sealed answer and print the result. Raises CommandError, and SealError for a file that was changed."""
    data = _read_bytes(file)
    console.print_progress("deriving the verdicts again …")

    async def run(platform: LLMPlatform) -> tuple[str, CheckedSeal, VerifiedAgain | None]:
        seal, checked = await platform.seals.check(data)
        answer = seal.answer.response
        if not options.refetch:
            return answer.synthesis, checked, None
        console.print_progress("reading the sources of today …")
        again = await platform.verification.verify_answer_again(
            answer, seal.answer.answered_at, research_id=answer.metadata.request_id or NO_ANSWER_ID
        )
        return answer.synthesis, checked, again

    text, checked, again = setup.run_with_platform(wiring, settings, run)
    _print(console, text, checked, again, options)
    if options.signed_by is not None and (checked.signature, checked.public_key) != (
        "valid",
        options.signed_by.lower(),
    ):
        raise CommandError(OTHER_KEY.format(key=options.signed_by))
    if options.strict and checked.counts["different"]:
        raise CommandError(seal_counts_line(checked))
    if options.strict and again is not None and again.no_longer_hold:
        raise CommandError(no_longer_hold_line(again))


def _print(
    console: Console, text: str, checked: CheckedSeal, again: VerifiedAgain | None, options: SealedOptions
) -> None:
    if options.as_json:
        today = {"refetched": again.model_dump(mode="json")} if again else {}
        console.print_verbatim(json_text(checked.model_dump(mode="json") | today))
        return
    console.print_lines(seal_lines(text, checked))
    if again is not None:
        console.print_lines([Line(), *render.change_lines(text, again)])


def _read_bytes(file: Path) -> bytes:
    """Return the bytes of the file. Raises WrongUseError if it cannot be read or is too long."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_SEALED_BYTES + 1)
    except OSError as error:
        reject("FILE", f"{file} cannot be read: {error.strerror}")
    if len(data) > MAX_SEALED_BYTES:
        reject("FILE", f"{file} is longer than a sealed answer: at most {MAX_SEALED_BYTES // 1_000_000} MB")
    return data
