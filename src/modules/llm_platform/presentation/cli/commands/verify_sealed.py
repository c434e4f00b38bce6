"""The command `verify` for a sealed answer: is it unchanged, who signed it, and do its verdicts come out again here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.sealed_dtos import MAX_SEALED_BYTES, SEALED_SUFFIX, CheckedSeal
from modules.llm_platform.domain.dtos.verification_dtos import VerifiedAgain
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import setup
from modules.llm_platform.presentation.cli.console import Console, Line
from modules.llm_platform.presentation.cli.exit_codes import WRONG_USE, CommandError
from modules.llm_platform.presentation.cli.options import reject
from modules.llm_platform.presentation.cli.render import verification as render
from modules.llm_platform.presentation.cli.render.json import write_json
from modules.llm_platform.presentation.cli.render.seal import describe_seal_counts, render_seal_lines
from modules.llm_platform.presentation.verification_text import describe_comparison
from shared.config import Settings
from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

ZIP_START: Final = b"PK\x03\x04"
OTHER_KEY: Final = "the file is not signed with the key {key}: do not rely on who made it"
NO_SIGNATURE_CHECK: Final = "--signed-by cannot be checked: {note}"
UNREAD_PAGES: Final = "{count} of {pages} cannot be verified again"
OTHER_PAGE: Final = "index.html was replaced: rely on answer.json"
UNKNOWN_PAGE: Final = "index.html cannot be compared: rely on answer.json"
PUBLIC_KEY: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SealedOptions:
    """The options of `verify` that a sealed answer takes.

    - `signed_by` is the public key that must have signed the file, in hex digits.
    - `refetch` also compares the answer with what its pages say now.
    - `strict` also fails for verdicts and a page that cannot be derived here, and for sentences that no longer hold.
    """

    signed_by: str | None = None
    refetch: bool = False
    strict: bool = False
    as_json: bool = False
    offline: bool = False

    def check(self) -> None:
        """Raise WrongUseError for a malformed key, and for options that exclude each other."""
        if self.signed_by is not None and not PUBLIC_KEY.fullmatch(self.signed_by.lower()):
            reject("--signed-by", "must be a public key of 64 hex digits, as `verify` prints it")
        if self.refetch and self.offline:
            reject("--refetch", "reads the current pages, so it cannot be used with --offline")


def is_sealed(file: Path) -> bool:
    """Return whether the file is a zip file, or has the name of a sealed answer.

    A pipe is not: its first bytes could not be read again.
    """
    try:
        if not file.is_file():
            return False
        if file.name.lower().endswith(SEALED_SUFFIX):
            return True
        with file.open("rb") as opened:
            return opened.read(len(ZIP_START)) == ZIP_START
    except OSError:
        return False


def verify_sealed(
    console: Console, wiring: setup.Wiring, settings: Settings, file: Path, options: SealedOptions
) -> None:
    """Check a sealed answer and print the result.

    Raises CommandError: with code 1 if something differs, and with code 2 for a file that cannot be read or was changed.
    """
    data = _read_bytes(file)
    console.print_progress("deriving the verdicts again …")

    async def run(platform: LLMPlatform) -> tuple[ResearchResponse, CheckedSeal, VerifiedAgain | AppException | None]:
        try:
            seal, checked = await platform.seals.check(data)
        except SealError as error:
            raise CommandError(f"{file}: {error.message}", WRONG_USE) from error
        answer = seal.answer.response
        if not options.refetch:
            return answer, checked, None
        console.print_progress("reading the current sources …")
        try:
            again = await platform.verification.verify_answer_again(
                _select_web_sources(answer), seal.answer.answered_at, research_id=seal.digest
            )
        except AppException as error:  # What was derived offline holds without it.
            return answer, checked, error
        return answer, checked, _remove_unread(again)

    answer, checked, again = setup.run_with_platform(wiring, settings, run)
    _print(console, answer, checked, again if isinstance(again, VerifiedAgain) else None, options)
    _require_signer(checked, options.signed_by)
    is_open = checked.counts["not_derivable"] or not checked.sealed.is_same_page
    if checked.is_different or (options.strict and is_open):
        raise CommandError(_describe_failure(checked))
    if isinstance(again, AppException):
        raise CommandError(again.explain()) from again
    if again is not None:
        _require_compared(answer, again, strict=options.strict)


def _select_web_sources(answer: ResearchResponse) -> ResearchResponse:
    """Return the answer with its pages on the web alone: the documents of the sender are not here."""
    sources = tuple(source for source in answer.sources if source.url.startswith(("http://", "https://")))
    numbers = {source.index for source in sources}
    citations = tuple(citation for citation in answer.citations if citation.source_index in numbers)
    return answer.model_copy(update={"sources": sources, "citations": citations})


def _list_read(again: VerifiedAgain) -> frozenset[int]:
    """Return the numbers of the pages that were read today."""
    return frozenset(source.index for source in again.sources if source.state == "read")


def _remove_unread(again: VerifiedAgain) -> VerifiedAgain:
    """Return the comparison without pages that were not read: a page that is gone says nothing else than then."""
    read = _list_read(again)
    changed = tuple(change for change in again.changed if change.was.source_index in read)
    lost = {change.sentence for change in changed if change.is_lost}
    return again.model_copy(update={"changed": changed, "no_longer_hold": len(lost)})


def _require_compared(answer: ResearchResponse, again: VerifiedAgain, *, strict: bool) -> None:
    """Raise CommandError if a page was not read, and with `strict` if a sentence no longer holds."""
    if strict and again.no_longer_hold:
        raise CommandError(_describe_today(answer, again))
    pages = {source.index for source in _select_web_sources(answer).sources}
    if unread := pages - _list_read(again):
        raise CommandError(UNREAD_PAGES.format(count=len(unread), pages=format_count(len(pages), "page")))


def _describe_today(answer: ResearchResponse, again: VerifiedAgain) -> str:
    read = _list_read(again)
    compared = {(one.start, one.end) for one in answer.citations if one.source_index in read}
    return describe_comparison(again, len(compared))


def _render_today(answer: ResearchResponse, again: VerifiedAgain) -> Iterator[Line]:
    """Yield what no longer holds, and the documents of the sender, which nobody tried to read."""
    web = {source.index for source in _select_web_sources(answer).sources}
    tried = tuple(source for source in again.sources if source.index in web)
    yield Line()
    yield from render.render_changes(
        answer.synthesis, again.model_copy(update={"sources": tried}), _describe_today(answer, again)
    )
    if documents := [f"[{source.index}]" for source in answer.sources if source.index not in web]:
        yield Line()
        yield Line(f"Documents of the sender, which are not compared: {', '.join(documents)}")


def _require_signer(checked: CheckedSeal, key: str | None) -> None:
    """Raise CommandError if this key did not sign the file, or if that cannot be checked."""
    sealed = checked.sealed
    if key is None or (sealed.signature, sealed.public_key) == ("valid", key.lower()):
        return
    if sealed.note:
        raise CommandError(NO_SIGNATURE_CHECK.format(note=sealed.note))
    raise CommandError(OTHER_KEY.format(key=key))


def _describe_failure(checked: CheckedSeal) -> str:
    if checked.sealed.signature == "invalid":
        return "the signature does not belong to the file"
    counts = checked.counts
    if counts["different"] or counts["not_derivable"]:
        return describe_seal_counts(checked)
    return OTHER_PAGE if checked.sealed.is_same_renderer else UNKNOWN_PAGE


def _print(
    console: Console,
    answer: ResearchResponse,
    checked: CheckedSeal,
    again: VerifiedAgain | None,
    options: SealedOptions,
) -> None:
    if options.as_json:
        today = {"refetched": again.model_dump(mode="json")} if again else {}
        console.print_verbatim(write_json(checked.model_dump(mode="json") | today))
        return
    console.print_lines(render_seal_lines(answer.synthesis, checked))
    if again is not None:
        console.print_lines(_render_today(answer, again))


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
