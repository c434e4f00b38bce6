"""A checked seal on the terminal."""

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Final

from modules.llm_platform.domain.dtos.sealed_dtos import (
    MAX_VERSION_CHARS,
    CheckedSeal,
    Outcome,
    RederivedCitation,
    SealDescription,
)
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.untrusted.untrusted_text import one_line
from modules.llm_platform.presentation.cli.console import Line, Style
from modules.llm_platform.presentation.verification_text import VERDICTS, shorten

MARKS: Final[Mapping[Outcome, tuple[str, Style]]] = {
    "different": ("✘", "red"),
    "not_derivable": ("?", "yellow"),
}
NAMES: Final[Mapping[Outcome, str]] = {
    "same": "same",
    "different": "different",
    "not_derivable": "not derivable",
}
OTHER_CHECKER: Final = (
    "The file names another checker or support model, which may be the reason of different verdicts: check it with "
    "llm-platform {version}."
)

OTHER_PAGE: Final = "Its index.html is not the page that this version writes: rely on answer.json."
PAGE_OF_OTHER_PROGRAM: Final = (
    "Its index.html cannot be compared, because the file names another program that wrote it: rely on answer.json."
)


def render_seal_lines(text: str, checked: CheckedSeal) -> Iterator[Line]:
    """Yield what the file is, the counts, and the sentences whose verdicts are not the same, with the reason."""
    sealed = checked.sealed
    when = f", answered on {sealed.created.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if sealed.created else ""
    yield Line(
        f"The file is unchanged{when}. {_describe_signature(sealed)}", "red" if sealed.signature == "invalid" else ""
    )
    yield Line(f"sha256:{sealed.digest}", "dim")
    if not sealed.is_same_checker:
        version = one_line(sealed.checker.version)[:MAX_VERSION_CHARS]
        yield Line(OTHER_CHECKER.format(version=version), "yellow")
    if not sealed.is_same_page:
        yield Line(OTHER_PAGE if sealed.is_same_renderer else PAGE_OF_OTHER_PROGRAM, "yellow")
    yield Line(describe_seal_counts(checked), "bold")
    for sentence in checked.sentences:
        if sentence.derived == "same":
            continue
        mark, style = MARKS[sentence.derived]
        yield Line()
        yield Line(f"{mark} {shorten(text[sentence.start : sentence.end])}", style)
        if not sentence.citations:
            yield Line(f"  {NAMES[sentence.derived]}: {sentence.reason}")
        for citation in sentence.citations:
            if citation.derived != "same":
                yield Line(f"  {_describe_outcome(citation)}")


def describe_seal_counts(checked: CheckedSeal) -> str:
    counts = checked.counts
    shown = [f"{counts[outcome]} {name}" for outcome, name in NAMES.items() if counts[outcome]]
    return f"{format_count(len(checked.sentences), 'sentence')}: {', '.join(shown) or 'nothing to check'}."


def _describe_signature(sealed: SealDescription) -> str:
    if sealed.signature == "valid":
        return f"Signed with the key {sealed.public_key}."
    if sealed.signature == "invalid":
        return "Its signature does not belong to it: it was made for another file, or changed."
    return f"It is signed, and {sealed.note}." if sealed.note else "It is not signed."


def _describe_outcome(citation: RederivedCitation) -> str:
    line = f"[{citation.source_index}] {NAMES[citation.derived]}: {citation.reason}"
    was = f"was {VERDICTS[citation.was]}" if citation.was else ""
    now = f"is {VERDICTS[citation.now]}" if citation.now and citation.now != citation.was else ""
    verdicts = ", ".join(filter(None, (was, now)))
    return f"{line} ({verdicts})" if verdicts else line
