"""A verified text on the terminal, as Markdown, as HTML and as annotations of GitHub Actions."""

from __future__ import annotations

import html
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

from modules.llm_platform.domain.citations.show.sentence_evidence import SentenceVerdict, decide_shown_verdict
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerifiedAgain,
    VerifiedSentence,
    VerifiedSource,
    VerifiedText,
)
from modules.llm_platform.domain.markdown.escaping import escape_line
from modules.llm_platform.presentation.cli.console import Line
from modules.llm_platform.presentation.cli.render import terminal
from modules.llm_platform.presentation.cli.render.document import link, render_html_page, render_section
from modules.llm_platform.presentation.verification_text import (
    VERDICTS,
    describe_counts,
    describe_source_problem,
    describe_verdict,
    find_decisive,
    find_sentences_to_review,
    shorten,
)
from shared.logging import printable

HEADING: Final = "Verification"
LEVELS: Final[Mapping[SentenceVerdict, str]] = {
    "unsupported": "error",
    "absent": "warning",
    "partial": "warning",
    "unchecked": "notice",
}


def render_verification_lines(text: str, verified: VerifiedText, name: str) -> Iterator[Line]:
    """Yield the counts, the sentences to look at with their reason, and the sources that were not read."""
    yield Line(describe_counts(verified), "bold")
    lines = _find_line_starts(text)
    for sentence in find_sentences_to_review(verified):
        mark, style = terminal.MARKS[decide_shown_verdict(sentence)]
        yield Line()
        yield Line(f"{mark} line {_find_line(lines, sentence)}: {shorten(text[sentence.start : sentence.end])}", style)
        yield Line(f"  {describe_verdict(text, sentence, verified)}")
        if sentence.citations and (citation := find_decisive(sentence)).quote:
            yield Line(f"  “{shorten(citation.quote)}”", "dim", citation.quote_url)
    yield from _list_unread(verified)


def _list_unread(verified: VerifiedText) -> Iterator[Line]:
    unread = [source for source in verified.sources if source.state != "read"]
    if unread:
        yield Line()
        yield Line("Sources that were not read", "bold")
    for source in unread:
        yield Line(f"[{source.index}] {source.url or source.title or 'no address'}: {describe_source_problem(source)}")
    for note in terminal.describe_degradations(verified.degraded, None):
        yield Line(note, "dim")


def render_changes(text: str, verified: VerifiedAgain, heading: str) -> Iterator[Line]:
    """Yield which sentences of a stored answer no longer hold, with both quotes and dates, and what else changed."""
    then = f" on {verified.answered_at:%Y-%m-%d}" if verified.answered_at else ""
    yield Line(heading, "bold")
    for change in verified.changed:
        verdict = change.now.verdict if change.now else "unsupported"
        mark, style = terminal.MARKS[verdict]
        yield Line()
        yield Line(
            f"{mark} {shorten(text[change.sentence.start : change.sentence.end])} [{change.was.source_index}]", style
        )
        page = terminal.describe_pages(change.was)
        yield Line(f"  was {VERDICTS[change.was.verdict]}{then}{page}: “{shorten(change.was.quote)}”")
        quote = shorten(change.now.quote) if change.now else ""
        page = terminal.describe_pages(change.now) if change.now else ""
        yield Line(
            f"  is {VERDICTS[verdict]} on {verified.verified_at:%Y-%m-%d}{page}" + (f": “{quote}”" if quote else "")
        )
    yield from _list_unread(verified)


def render_github_annotations(text: str, verified: VerifiedText, name: str) -> Iterator[Line]:
    """Yield a workflow command for each sentence to look at (docs.github.com, "Workflow commands")."""
    lines = _find_line_starts(text)
    for sentence in find_sentences_to_review(verified):
        first = _find_line(lines, sentence)
        last = bisect_right(lines, max(sentence.start, sentence.end - 1))
        file = _escape(name).replace(":", "%3A").replace(",", "%2C")
        position = f"file={file},line={first},endLine={last}," if name else ""
        message = f"{describe_verdict(text, sentence, verified)}: {shorten(text[sentence.start : sentence.end])}"
        yield Line(f"::{LEVELS[decide_shown_verdict(sentence)]} {position}title=Citation::{_escape(message)}")
    yield Line(describe_counts(verified))


def render_verification_markdown(text: str, verified: VerifiedText, name: str) -> str:
    blocks = [f"# {HEADING}{f' of {escape_line(name)}' if name else ''}", escape_line(describe_counts(verified))]
    items = []
    lines = _find_line_starts(text)
    for sentence in find_sentences_to_review(verified):
        mark, _ = terminal.MARKS[decide_shown_verdict(sentence)]
        item = (
            f"- {mark} line {_find_line(lines, sentence)}: {escape_line(shorten(text[sentence.start : sentence.end]))}\n"
            f"  {escape_line(describe_verdict(text, sentence, verified))}"
        )
        if sentence.citations and (citation := find_decisive(sentence)).quote:
            quote = escape_line(shorten(citation.quote))
            item += f"\n  > [{quote}](<{citation.quote_url}>)" if citation.quote_url else f"\n  > {quote}"
        items.append(item)
    if items:
        blocks += ["## Sentences to look at", "\n".join(items)]
    if verified.sources:
        sources = [
            f"- [{source.index}] {link(source.title, _find_address(source))}: {escape_line(describe_source_problem(source))}"
            for source in verified.sources
        ]
        blocks += ["## Sources", "\n".join(sources)]
    return printable("\n\n".join(blocks) + "\n")


def render_verification_html(text: str, verified: VerifiedText, name: str) -> str:
    """Return the text with its sentences in the colours of their verdicts, as one page without script."""
    parts, done = [], 0
    for number, sentence in enumerate(verified.sentences):
        parts += [html.escape(text[done : sentence.start]), _mark_sentence(text, sentence, verified, number)]
        done = max(done, sentence.end)
    parts.append(html.escape(text[done:]))
    sources = [_render_source(source) for source in verified.sources]
    receipts = [_render_receipt(text, sentence, verified, number) for number, sentence in enumerate(verified.sentences)]
    body = [
        f"<p>{html.escape(describe_counts(verified))}</p>",
        f'<div style="white-space: pre-wrap">{"".join(parts)}</div>',
        render_section("Receipts", "ul", [receipt for receipt in receipts if receipt]),
        render_section("Sources", "ol", sources),
    ]
    title = f"{HEADING} of {name}" if name else HEADING
    return render_html_page(title, body, verified.metadata.language)


def _render_source(source: VerifiedSource) -> str:
    title, address = html.escape(source.title or source.url or ""), html.escape(_find_address(source))
    return (
        f'<li id="source-{source.index}" value="{source.index}">{title}{f" <code>{address}</code>" if address else ""}: '
        f"{html.escape(describe_source_problem(source))}</li>"
    )


def _find_address(source: VerifiedSource) -> str:
    """Return the address to show beside the title; empty if it only repeats the title, as of a file in a folder."""
    url = source.url or ""
    return "" if terminal.display_url(url) == f"{terminal.DOCUMENT_SCHEME}{source.title}" else url


def _mark_sentence(text: str, sentence: VerifiedSentence, verified: VerifiedText, number: int) -> str:
    said = html.escape(text[sentence.start : sentence.end])
    if not sentence.citations and sentence.verdict != "unsupported":
        return said
    reason = html.escape(describe_verdict(text, sentence, verified))
    mark, _ = terminal.MARKS[decide_shown_verdict(sentence)]
    return f'<span class="{decide_shown_verdict(sentence)}" title="{reason}">{said} <a href="#receipt-{number}">{mark}</a></span>'


def _render_receipt(text: str, sentence: VerifiedSentence, verified: VerifiedText, number: int) -> str:
    if not sentence.citations and sentence.verdict != "unsupported":
        return ""
    reason = html.escape(describe_verdict(text, sentence, verified))
    quote = ""
    if sentence.citations and (citation := find_decisive(sentence)).quote:
        quote = html.escape(citation.quote)
        if citation.quote_url:
            quote = f'<a href="{html.escape(citation.quote_url)}" rel="noopener noreferrer nofollow">{quote}</a>'
        quote = f"<blockquote>{quote}</blockquote>"
    said = html.escape(shorten(text[sentence.start : sentence.end]))
    return (
        f'<li id="receipt-{number}"><span class="{decide_shown_verdict(sentence)}">{reason}</span> {said}{quote}</li>'
    )


def _find_line_starts(text: str) -> list[int]:
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def _find_line(lines: list[int], sentence: VerifiedSentence) -> int:
    return bisect_right(lines, sentence.start)


def _escape(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
