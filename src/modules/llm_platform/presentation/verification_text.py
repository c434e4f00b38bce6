"""Describe the result of a verification in words, for the command line, its files, GitHub's annotations and the MCP tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from modules.llm_platform.domain.citations.show.source_pages import format_pages
from modules.llm_platform.domain.dtos.citation_dtos import Citation, Difference, Finding, Verdict
from modules.llm_platform.domain.dtos.verification_dtos import (
    SourceState,
    VerifiedAgain,
    VerifiedSentence,
    VerifiedSource,
    VerifiedText,
)
from modules.llm_platform.domain.text.counts import format_count
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

VERDICTS: Final[dict[Verdict, str]] = {
    "supported": "supported",
    "partial": "only partly supported",
    "unsupported": "not supported",
    "unchecked": "not checked",
}
FINDINGS: Final[dict[Finding, str]] = {"contradicts": "contradicted", "absent": "not found"}
COUNTED: Final[dict[str, str]] = {
    "supported": VERDICTS["supported"],
    "partial": VERDICTS["partial"],
    "contradicted": FINDINGS["contradicts"],
    "absent": FINDINGS["absent"],
    "unchecked": VERDICTS["unchecked"],
}
STATES: Final[dict[SourceState, str]] = {
    "read": "read",
    "dead": "does not exist",
    "refused": "may not be read",
    "no_text": "has no text",
    "late": "was not read in time",
}
# Marks after a sentence, in Markdown.
CONTRADICTED: Final = "**✘ contradicted**"
ABSENT: Final = "**○ not found**"
MARKS: Final[dict[Finding, str]] = {"contradicts": CONTRADICTED, "absent": ABSENT}
OTHER_LANGUAGE: Final = "{source} is in another language, so the sentence was not compared with it"
EXCERPT: Final = "only a search excerpt of {source} was available, and it does not contain the sentence"
NOTHING_COMPARED: Final = "No sentence could be compared with a current page"
MAX_SHOWN_CHARS: Final = 300


def describe_counts(verified: VerifiedText) -> str:
    counts = verified.counts
    has_findings = (
        counts.contradicted or counts.absent or not counts.unsupported
    )  # a text that was stored before has none
    names = COUNTED if has_findings else VERDICTS
    found = [f"{count} {label}" for name, label in names.items() if (count := getattr(counts, name))]
    uncited = f"; {counts.uncited} without a citation" if counts.uncited else ""
    sources = f"{counts.read} of {format_count(counts.sources, 'source')} read"
    return (
        f"{format_count(counts.sentences, 'sentence')}: {', '.join(found) or 'nothing to check'}{uncited}. {sources}."
    )


def describe_unsupported(verified: VerifiedText) -> str:
    """Return one line: how many sentences are not supported, and how many of these a source contradicts."""
    count, contradicted = verified.counts.unsupported, verified.counts.contradicted
    verb = "is not supported by its" if count == 1 else "are not supported by their"
    line = f"{count} of {format_count(verified.counts.sentences, 'sentence')} {verb} sources"
    return f"{line}, {contradicted} of them contradicted" if contradicted else line


def describe_no_longer_hold(verified: VerifiedAgain) -> str:
    """Return how many sentences no longer hold, of all or, if sources were not read, of those that were compared."""
    read = {source.index for source in verified.sources if source.state == "read"}
    cited = [sentence for sentence in verified.sentences if sentence.is_cited]
    compared = [one for one in cited if any(citation.source_index in read for citation in one.citations)]
    if len(compared) < len(cited):
        return describe_comparison(verified, len(compared))
    return _describe_lost(verified.no_longer_hold, format_count(verified.counts.sentences, "sentence"))


def describe_unread(verified: VerifiedAgain) -> str:
    """Return how many sources could not be read; empty if all were."""
    unread = sum(source.state != "read" for source in verified.sources)
    return f"{unread} of {format_count(len(verified.sources), 'source')} could not be read" if unread else ""


def describe_comparison(verified: VerifiedAgain, compared: int) -> str:
    """Return how many of the `compared` sentences no longer hold. The other sentences of the text were not compared."""
    if not compared:
        return NOTHING_COMPARED
    return _describe_lost(verified.no_longer_hold, format_count(compared, "compared sentence"))


def _describe_lost(count: int, sentences: str) -> str:
    return f"{count} of {sentences} no longer {'holds' if count == 1 else 'hold'}"


def find_sentences_to_review(verified: VerifiedText) -> Iterator[VerifiedSentence]:
    """Yield the sentences that are not supported, and those that cite a source that was not read."""
    for sentence in verified.sentences:
        if sentence.verdict in ("partial", "unsupported") or (sentence.verdict == "unchecked" and sentence.is_cited):
            yield sentence


def describe_verdict(text: str, sentence: VerifiedSentence, verified: VerifiedText) -> str:
    """Return the verdict on a sentence with its reason: the part that differs, or what happened to its source."""
    verdict = FINDINGS[sentence.finding] if sentence.finding else VERDICTS[sentence.verdict]
    if not sentence.citations:
        return f"{verdict}: no source says it" if sentence.verdict == "unsupported" else verdict
    citation = find_decisive(sentence)
    source = next((source for source in verified.sources if source.index == citation.source_index), None)
    is_document = source is not None and source.text_kind == "document"
    number = source.title if source and source.title and is_document else f"[{citation.source_index}]"
    if citation.page is not None:
        number += f", {format_pages([citation.page])}"
    judged = f"{verdict} in {number}" if sentence.finding == "absent" else f"{verdict} by {number}"
    if sentence.difference is not None:
        span, found = sentence.difference.claimed, shorten(describe_found(citation, sentence.difference))
        if not found or (span.start, span.end) == (sentence.start, sentence.end):
            return judged  # a whole sentence is no counterpart of a word
        claimed = shorten(text[span.start : span.end])
        return f"{judged}: the source says “{found}”, the text says “{claimed}”"
    if source is not None and source.state != "read":
        return f"{verdict}: {number} {describe_source_problem(source)}"
    if sentence.verdict == "unchecked":
        return (
            f"{verdict}: {(EXCERPT if citation.checked_against == 'snippet' else OTHER_LANGUAGE).format(source=number)}"
        )
    return judged


def find_decisive(sentence: VerifiedSentence) -> Citation:
    """Return the citation that gives the sentence its verdict, the one with a difference first."""
    fitting = [
        citation for citation in sentence.citations if citation.verdict == sentence.verdict
    ] or sentence.citations
    return next((citation for citation in fitting if citation.difference == sentence.difference), fitting[0])


def describe_found(citation: Citation, difference: Difference) -> str:
    """Return the part of the source that differs, as far as it is in the quote."""
    start, end = difference.found.start - citation.quote_start, difference.found.end - citation.quote_start
    return citation.quote[start:end] if 0 <= start < end <= len(citation.quote) else ""


def describe_source_problem(source: VerifiedSource) -> str:
    return f"{STATES[source.state]} ({source.reason})" if source.reason else STATES[source.state]


def shorten(text: str) -> str:
    """Return the text in one line, cut at MAX_SHOWN_CHARS."""
    line = one_line(text)
    return line if len(line) <= MAX_SHOWN_CHARS else f"{line[: MAX_SHOWN_CHARS - 1]}…"
