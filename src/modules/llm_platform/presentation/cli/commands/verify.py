"""The command `verify`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from modules.llm_platform.application.research.events import Read
from modules.llm_platform.application.verification.events import SourcesNamed, VerificationEvent
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.verification_dtos import (
    MAX_SOURCE_CHARS,
    MAX_SOURCE_INDEX,
    MAX_VERIFIED_CHARS,
    MAX_VERIFIED_SOURCES,
    VerificationRequest,
    VerifiedAgain,
    VerifiedText,
)
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.presentation.cli import options, setup
from modules.llm_platform.presentation.cli.commands.verify_sealed import SealedOptions, is_sealed, verify_sealed
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.options import build_request, reject
from modules.llm_platform.presentation.cli.output import OutputOptions, Renderers
from modules.llm_platform.presentation.cli.render import verification as render
from modules.llm_platform.presentation.cli.render.json import write_model_json
from modules.llm_platform.presentation.verification_text import (
    describe_no_longer_hold,
    describe_unread,
    describe_unsupported,
)
from shared.exceptions import AppException

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

STDIN: Final = Path("-")
VERIFIED_TEXT_BYTES: Final = 4 * MAX_VERIFIED_CHARS  # UTF-8 takes up to four bytes a character
MAX_CONCURRENT_FILES: Final = 4
MAX_WARNINGS: Final = 20  # files that could not be read, which are named
FIRST_DOCUMENT: Final = MAX_SOURCE_INDEX - MAX_VERIFIED_SOURCES + 1  # A text hardly uses the last numbers.
NOTHING_TO_COMPARE: Final = (
    "The text cites no source, so nothing was compared. Name a folder of documents with --sources DIR."
)
WITH_DOCUMENTS: Final = (
    "The text cites no source, so it was compared with {documents}. To compare it with others, use --sources DIR."
)
# What `--output` writes beside Markdown, and office files: their markup would be taken for sentences, or for a sealed answer.
NO_TEXT_SUFFIXES: Final = (".html", ".htm", ".json", ".docx", ".xlsx", ".pptx", ".epub", ".odt", ".pdf")
TOO_MANY_FILES: Final = f"has more than {MAX_VERIFIED_SOURCES} files: name a smaller folder"

File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="The text, or a sealed answer; - reads a text from standard input."),
]
ResearchId = Annotated[
    str | None,
    typer.Option("--research", metavar="ID", help="Compare this stored answer with today's pages, in place of FILE."),
]
SourcesFolder = Annotated[
    Path | None,
    typer.Option(
        "--sources",
        metavar="DIR",
        exists=True,
        file_okay=False,
        readable=True,
        help="Also compare the text with the documents of this folder.",
    ),
]
FindSources = Annotated[
    bool, typer.Option("--find-sources", help="Search the web for sentences that no source supports.")
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with 1 if a sentence is not supported. For a sealed answer: also if a verdict or page cannot be derived.",
    ),
]
SignedBy = Annotated[
    str | None,
    typer.Option("--signed-by", metavar="KEY", help="For a sealed answer: this public key must have signed it."),
]
Refetch = Annotated[
    bool, typer.Option("--refetch", help="For a sealed answer: also compare it with what its pages say now.")
]
Github = Annotated[bool, typer.Option("--github", help="Print annotations for GitHub Actions.")]


def verify(
    ctx: typer.Context,
    file: File = None,
    research: ResearchId = None,
    sources: SourcesFolder = None,
    find_sources: FindSources = False,
    language: options.Language = None,
    strict: Strict = False,
    github: Github = False,
    signed_by: SignedBy = None,
    refetch: Refetch = False,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    output: options.Output = None,
    yes: options.Yes = False,
) -> None:
    """Check the sentences of a text against the sources that it cites."""
    console, wiring = setup.get_command_context(ctx)
    if (file is None) == (research is None):
        reject("FILE", "name a file, or a stored answer with --research ID")
    sealed_options = SealedOptions(signed_by, refetch, strict, as_json, offline)
    sealed_options.check()
    if file is not None and file.name.lower().endswith(NO_TEXT_SUFFIXES):
        reject("FILE", f"{file} is neither Markdown nor plain text: save its text in a file that is")
    if file is not None and is_sealed(file):
        texts = {"--sources": sources, "--find-sources": find_sources, "--language": language, "--github": github}
        _reject_used({**texts, "--output": output}, "cannot be used with a sealed answer: leave it out")
        settings = setup.configure(console, options.make_setting_arguments(offline=offline))
        verify_sealed(console, wiring, settings, file, sealed_options)
        return
    _reject_used({"--signed-by": signed_by, "--refetch": refetch}, "works only with a sealed answer: leave it out")
    text = "" if file is None else _read_text(console, file)
    request = None
    if research is None:
        values = {"text": text, "find_sources": find_sources, "language": language}
        request = build_request(VerificationRequest, values, argument="FILE")
    output_options = OutputOptions(as_json, output, prompts_enabled=not yes)
    output_options.check(console)
    paths = _list_files(sources) if sources else []
    settings = setup.configure(console, options.make_setting_arguments(documents=sources, offline=offline))
    if find_sources:
        setup.warn_about_keyless_search(console, wiring, settings)
    console.print_progress("reading the sources …")

    async def run(platform: LLMPlatform) -> tuple[str, VerifiedText]:
        print_progress = _make_progress_printer(console)
        if request is None:
            job = await platform.research_jobs.get(research or "")
            again = await platform.verification.verify_again(job, on_event=print_progress)
            return job.response.synthesis if job.response else "", again
        documents = await _read_documents(platform, paths)
        if len(documents) < len(paths):
            for problem in (await platform.list_documents(MAX_WARNINGS)).problems:
                console.warn(f"{problem.path}: {problem.reason}")
        given = [
            CitedSource(
                number,
                title=path.as_posix(),
                text=page.text[:MAX_SOURCE_CHARS],
                pages=page.pages,
                is_numbered=False,
                is_whole=len(page.text) <= MAX_SOURCE_CHARS,
            )
            for number, (path, page) in enumerate(documents.items(), FIRST_DOCUMENT)
        ]
        verified = await platform.verification.run(request, on_event=print_progress, given=given)
        if not verified.sources:
            console.warn(NOTHING_TO_COMPARE)
        elif any(source.is_found and source.text_kind == "document" for source in verified.sources):
            searched = "the documents of DOCUMENTS_DIR" if settings.DOCUMENTS_DIR else "the indexed documents"
            console.warn(WITH_DOCUMENTS.format(documents=searched))
        return text, _number_documents(verified, {path.as_posix(): page.url for path, page in documents.items()})

    text, verified = setup.run_with_platform(wiring, settings, run)
    name = research or ("" if file in (None, STDIN) else str(file))
    renderers: Renderers = {
        "json": partial(write_model_json, verified),
        "md": partial(render.render_verification_markdown, text, verified, name),
        "html": partial(render.render_verification_html, text, verified, name),
    }

    def print_answer() -> None:
        if isinstance(verified, VerifiedAgain):
            console.print_lines(render.render_changes(text, verified, describe_no_longer_hold(verified)))
            return
        lines = render.render_github_annotations if github else render.render_verification_lines
        console.print_lines(lines(text, verified, name))

    output_options.deliver(console, renderers, print_answer)
    if strict:
        _require_supported(verified)


def _require_supported(verified: VerifiedText) -> None:
    """Raise CommandError if a sentence is not supported. For a stored answer: if one no longer holds, or a source is not read."""
    if isinstance(verified, VerifiedAgain):
        if verified.no_longer_hold:
            raise CommandError(describe_no_longer_hold(verified))
        if unread := describe_unread(verified):
            raise CommandError(unread)
    elif verified.counts.unsupported:
        raise CommandError(describe_unsupported(verified))


def _reject_used(values: Mapping[str, object], reason: str) -> None:
    """Raise WrongUseError for the first option that is given."""
    for option, value in values.items():
        if value:
            reject(option, reason)


def _read_text(console: Console, file: Path) -> str:
    """Return the text of the file or of standard input. Raises WrongUseError if it is not text, is empty or is too long."""
    try:
        if file == STDIN:
            text = console.source.read(MAX_VERIFIED_CHARS + 1)
        else:
            with file.open("rb") as opened:
                text = opened.read(VERIFIED_TEXT_BYTES + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        reject("FILE", f"{file} is not text in UTF-8")
    except OSError as error:
        reject("FILE", f"{file} cannot be read: {error.strerror}")
    if len(text) > MAX_VERIFIED_CHARS:
        reject("FILE", f"must have at most {MAX_VERIFIED_CHARS:,} characters: split the text")
    if not text.strip():
        reject("FILE", f"{'standard input' if file == STDIN else file} is empty")
    return text.replace("\r\n", "\n")


async def _read_documents(platform: LLMPlatform, paths: Sequence[Path]) -> dict[Path, Page]:
    """Return the documents of the searched folder. Files without a text are left out."""
    turns = asyncio.Semaphore(MAX_CONCURRENT_FILES)

    async def read(path: Path) -> tuple[Path, Page | None]:
        async with turns:
            try:
                return path, await platform.result_pages.read(f"doc:{path.as_posix()}")
            except AppException:
                return path, None

    found = await asyncio.gather(*map(read, paths))
    return {path: page for path, page in found if page is not None and page.text}


def _number_documents(verified: VerifiedText, addresses: Mapping[str, str]) -> VerifiedText:
    """Return the result with small numbers and with addresses for the documents, as `POST /verify` gives them.

    `addresses` are the addresses by the names of the documents. Documents, and pages that a search found, are numbered after the
    sources of the text.
    """
    by_name = {name.casefold(): address for name, address in addresses.items()}
    urls: dict[int, str | None] = {}
    named: list[int] = [0]
    added: list[int] = []
    for source in verified.sources:
        address = by_name.get(source.title.casefold()) if source.url is None else None
        urls[source.index] = address or source.url
        is_added = source.is_found or (address is not None and source.index >= FIRST_DOCUMENT)
        (added if is_added else named).append(source.index)
    numbers = dict(zip(added, itertools.count(max(named) + 1), strict=False))

    def renumber(citation: Citation) -> Citation:
        index = numbers.get(citation.source_index, citation.source_index)
        return citation.model_copy(update={"source_index": index})

    sources = tuple(
        source.model_copy(update={"index": numbers.get(source.index, source.index), "url": urls[source.index]})
        for source in verified.sources
    )
    sentences = tuple(
        sentence.model_copy(update={"citations": tuple(map(renumber, sentence.citations))})
        for sentence in verified.sentences
    )
    return verified.model_copy(update={"sources": sources, "sentences": sentences})


def _list_files(folder: Path) -> list[Path]:
    """Return the files of a folder without hidden ones, as paths below it. Raises WrongUseError for too many files."""
    below = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    paths = sorted(path for path in below if not any(part.startswith(".") for part in path.parts))
    if len(paths) > MAX_VERIFIED_SOURCES:
        reject("--sources", f"{folder} {TOO_MANY_FILES}")
    return paths


def _make_progress_printer(console: Console) -> Callable[[VerificationEvent], None]:
    source_count = read_count = 0

    def print_progress(event: VerificationEvent) -> None:
        nonlocal source_count, read_count
        if isinstance(event, SourcesNamed):
            source_count = len({source.url for source in event.sources if source.url})
        elif isinstance(event, Read):
            read_count += 1
            console.print_progress(f"read {read_count} of {format_count(max(source_count, read_count), 'source')}")

    return print_progress
