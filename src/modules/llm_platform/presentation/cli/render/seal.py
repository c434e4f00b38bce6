"""A checked seal on the terminal."""

from collections.abc import Iterator, Mapping
from typing import Final

from modules.llm_platform.domain.dtos.sealed_dtos import CheckedSeal, Outcome, RederivedCitation
from modules.llm_platform.presentation.cli.console import Line, Style
from modules.llm_platform.presentation.cli.render.terminal import local_minute, plural
from modules.llm_platform.presentation.verification_text import VERDICTS, shorten

MARKS: Final[Mapping[Outcome, tuple[str, Style]]] = {
    "same": ("✔", "green"),
    "different": ("✘", "red"),
    "not_rederivable": ("?", "yellow"),
}
NAMES: Final[Mapping[Outcome, str]] = {
    "same": "same",
    "different": "different",
    "not_rederivable": "not re-derivable",
}


def seal_lines(text: str, checked: CheckedSeal) -> Iterator[Line]:
    """Yield what the file is, the counts, and the sentences whose verdicts are not the same, with the reason."""
    when = f", answered on {local_minute(checked.answered_at)}" if checked.answered_at else ""
    yield Line(f"The file is unchanged{when}. {_describe_signature(checked)}")
    yield Line(f"sha256:{checked.digest}", "dim")
    if not checked.is_same_checker:
        yield Line("The checker or the support model here is another one, so verdicts may differ.", "yellow")
    if not checked.is_same_page:
        yield Line("Its index.html is not the page that this version writes: rely on answer.json.", "yellow")
    yield Line(seal_counts_line(checked), "bold")
    for sentence in checked.sentences:
        if sentence.outcome == "same":
            continue
        mark, style = MARKS[sentence.outcome]
        yield Line()
        yield Line(f"{mark} {shorten(text[sentence.start : sentence.end])}", style)
        if not sentence.citations:
            yield Line("  different: it cites no source in the file, and it does here")
        for citation in sentence.citations:
            if citation.outcome != "same":
                yield Line(f"  {_describe_outcome(citation)}")


def seal_counts_line(checked: CheckedSeal) -> str:
    counts = checked.counts
    shown = [f"{counts[outcome]} {name}" for outcome, name in NAMES.items() if counts[outcome]]
    return f"{plural(len(checked.sentences), 'sentence')}: {', '.join(shown) or 'nothing to check'}."


def _describe_signature(checked: CheckedSeal) -> str:
    if checked.signature == "valid":
        return f"Signed with the key {checked.public_key}."
    if checked.signature == "not_checked":
        return 'Its signature was not checked: pip install "llm-platform[seal]".'
    return "It is not signed."


def _describe_outcome(citation: RederivedCitation) -> str:
    line = f"[{citation.source_index}] {NAMES[citation.outcome]}: {citation.reason}"
    was = f"was {VERDICTS[citation.was]}" if citation.was else ""
    now = f"is {VERDICTS[citation.now]}" if citation.now and citation.now != citation.was else ""
    return f"{line} ({', '.join(filter(None, (was, now)))})"
