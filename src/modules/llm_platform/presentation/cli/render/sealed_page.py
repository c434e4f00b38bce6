"""The page of HTML inside a sealed answer: strip, text, receipts, ledger, egress log and the texts of the sources.

It has no script and asks for nothing, so it opens without a server and without a network.
"""

import html
from collections.abc import Iterable, Iterator

from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceRow
from modules.llm_platform.domain.dtos.sealed_dtos import SealedAnswer, SealedSource
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.presentation.cli.render.document import render_section, research_html
from modules.llm_platform.presentation.cli.render.terminal import format_bytes

INTRODUCTION = (
    "This page shows a sealed answer. What it says is in answer.json and in the folder sources beside it. "
    "To check it: llm-platform verify FILE.sealed.zip"
)


def render_sealed_page(answer: SealedAnswer, sources: tuple[Source, ...]) -> str:
    """Return the page. The same answer gives the same page on every machine."""
    quoted: dict[int, list[Citation]] = {}
    for citation in answer.response.citations:
        quoted.setdefault(citation.source_index, []).append(citation)
    sent = [
        f"<li>{html.escape(entry.host)}: {entry.kind}, {entry.requests} × in all {format_bytes(entry.bytes)}</li>"
        for entry in (*answer.response.metadata.sent_to, *answer.response.metadata.cached_sent_to)
    ]
    parts = [
        render_section("Ledger", "ul", [_render_ledger_row(row) for row in answer.response.evidence]),
        render_section("What was sent", "ul", sent),
        render_section("Seal", "ul", [f"<li>{html.escape(line)}</li>" for line in _describe_seal(answer)]),
        *(["<h2>Texts of the sources, as they were read</h2>"] if sources else []),
        *(
            _render_source_text(sealed, source, quoted.get(source.index, ()))
            for sealed, source in zip(answer.sources, sources, strict=True)
        ),
    ]
    # The note on a stored answer has the time zone of this machine.
    metadata = answer.response.metadata.model_copy(update={"stored_at": None})
    return research_html(answer.response.model_copy(update={"metadata": metadata}), parts)


def _describe_seal(answer: SealedAnswer) -> Iterator[str]:
    yield INTRODUCTION
    if answer.answered_at is not None:
        yield f"Answered at {answer.answered_at.isoformat()}"
    checker = answer.checker
    yield f"Checker: llm-platform {checker.version}, rules {checker.rules}"
    yield f"Support model: {checker.support_model or 'none'}"
    yield from (f"{name}={value}" for name, value in sorted(checker.settings.items()))


def _render_ledger_row(row: EvidenceRow) -> str:
    quotes = "".join(
        f'<blockquote>{html.escape(quote.text)} <span class="small">{html.escape(quote.title)}</span></blockquote>'
        for quote in row.quotes
    )
    return f"<li>{html.escape(row.question)}: {row.state}{quotes}</li>"


def _render_source_text(sealed: SealedSource, source: Source, citations: Iterable[Citation]) -> str:
    extraction = None if sealed.extraction is None else f"{sealed.extraction:.0%} of the page's visible text"
    read_at = sealed.read_at and f"read at {sealed.read_at.isoformat()}"
    facts = [sealed.text_kind, sealed.media_type, read_at, extraction, f"SHA-256 {sealed.sha256}"]
    line = html.escape(" · ".join(fact for fact in facts if fact))
    return (
        f'<details id="text-{source.index}"><summary>[{source.index}] {html.escape(source.title or source.url)}</summary>\n'
        f'<p class="small">{html.escape(source.url)}<br>{line}</p>\n'
        f'<pre style="white-space: pre-wrap">{_mark_quotes(source.text, citations)}</pre></details>'
    )


def _mark_quotes(text: str, citations: Iterable[Citation]) -> str:
    """Return the text as HTML with its quotes marked."""
    parts, done = [], 0
    for start, end in sorted({(citation.quote_start, citation.quote_end) for citation in citations if citation.quote}):
        if (start := max(start, done)) < end:
            parts += [html.escape(text[done:start]), f"<mark>{html.escape(text[start:end])}</mark>"]
            done = end
    return "".join([*parts, html.escape(text[done:])])
