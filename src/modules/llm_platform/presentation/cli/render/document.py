"""Answers as Markdown and as one self-contained HTML page, for --output. Titles, addresses and quotes are untrusted."""

import html
import re
from collections.abc import Iterable, Sequence

from modules.llm_platform.domain.citations.show.sentence_evidence import (
    SentenceEvidence,
    decide_shown_verdict,
    describe_evidence,
    list_sentence_evidence,
    render_evidence_line,
)
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.domain.markdown.escaping import code_span, escape_line, link_target
from modules.llm_platform.presentation import verification_text
from modules.llm_platform.presentation.cli.render import terminal
from shared.logging import printable

STYLE = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif }
body { color: #1a1a1a; background: #fff }
pre, code { font-family: ui-monospace, monospace; background: #f4f4f4; overflow-x: auto }
pre { padding: .75rem }
table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: .25rem .5rem }
blockquote { margin: 0; padding-left: 1rem; border-left: 3px solid #ccc; color: #444 }
li { margin: .4rem 0 } .supported { color: #14703a } .partial, .absent { color: #8a5a00 } .unsupported { color: #b3261e }
.quoted, .unchecked, .small { color: #666 } a { color: #0b57d0; overflow-wrap: anywhere }
.strip { display: flex; align-items: flex-end; gap: 1px; height: 10px; border-bottom: 1px solid #ccc }
.strip i { flex: 1 1 0; height: 3px; background: currentColor; print-color-adjust: exact }
.strip .partial { height: 6px } .strip .absent { height: 8px } .strip .unsupported { height: 10px }
.strip .uncited { height: 8px; border: 1px solid #999; background: none }
.strip .unchecked { height: 10px; background: repeating-linear-gradient(135deg, currentColor 0 1px, transparent 1px 4px) }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 } pre, code { background: #242424 } a { color: #8ab4f8 }
  .supported { color: #7fd49b } .partial, .absent { color: #e5b567 } .unsupported { color: #f2a19c }
  .quoted, .unchecked, .small { color: #aaa }
}
"""
# No script and no request, whatever the answer contains.
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_MARKER = re.compile(r"\[(\d{1,4})\]")


def research_markdown(response: ResearchResponse) -> str:
    evidence = render_evidence_line(list_sentence_evidence(response))
    blocks = [
        f"# {escape_line(response.query)}",
        *([evidence] if evidence else []),
        terminal.mark_unsupported(response),
    ]
    if response.sources:
        blocks.append("## Sources")
        blocks.append(
            "\n".join(
                f"- [{source.index}] {link(source.title, source.url)}{terminal.note_language(source, response)}"
                for source in response.sources
            )
        )
    if response.citations:
        blocks.append("## Citations")
        blocks.append("\n".join(_render_markdown_citation(citation, response) for citation in response.citations))
    blocks += _render_markdown_notes(_list_notes(response))
    return printable("\n\n".join([*blocks, f"*{escape_line(terminal.describe_cost(response))}*"]) + "\n")


def search_markdown(response: WebSearchResponse) -> str:
    items = [
        f"{number}. {link(item.title, item.url)}"
        + (f"\n   {escape_line(terminal.shorten(item.text))}" if item.text else "")
        for number, item in enumerate(response.results, 1)
    ]
    blocks = [f"# {escape_line(response.query)}", "\n".join(items) or terminal.NOTHING_FOUND]
    return printable(
        "\n\n".join(
            [*blocks, *_render_markdown_notes(terminal.describe_degradations(response.degraded, response.correction))]
        )
        + "\n"
    )


def research_html(response: ResearchResponse, more: Sequence[str] = ()) -> str:
    """Return a research run as one page without script. The markers [n] are links to the sources.

    `more` are further parts at the end, as HTML.
    """
    numbers = {source.index for source in response.sources}
    sources = [
        f'<li id="source-{source.index}" value="{source.index}">{_link_title(source.title, source.url)}'
        f"{terminal.note_language(source, response)}</li>"
        for source in response.sources
    ]
    citations = [_render_html_citation(citation, response) for citation in response.citations]
    addresses = {source.url for source in response.sources}
    answer = _render_markdown_as_html(terminal.mark_unsupported(response), numbers, addresses)
    for css, mark in (("unsupported", verification_text.CONTRADICTED), ("absent", verification_text.ABSENT)):
        shown = mark.strip("*")
        answer = answer.replace(f"<strong>{shown}</strong>", f'<strong class="{css}">{shown}</strong>')
    parts = [
        _render_evidence_strip(list_sentence_evidence(response)),
        answer,
        render_section("Sources", "ol", sources),
        render_section("Citations", "ul", citations),
        _render_html_notes(_list_notes(response)),
        f'<p class="small">{html.escape(terminal.describe_cost(response))}</p>',
        *more,
    ]
    return render_html_page(response.query, parts, response.metadata.language)


def search_html(response: WebSearchResponse) -> str:
    """Return a search as one page without script."""
    items = [
        f"<li>{_link_title(item.title, item.url)}<br>{html.escape(terminal.shorten(item.text))}</li>"
        for item in response.results
    ]
    results = render_section("Results", "ol", items) or f"<p>{terminal.NOTHING_FOUND}</p>"
    return render_html_page(
        response.query,
        [results, _render_html_notes(terminal.describe_degradations(response.degraded, response.correction))],
    )


def render_page_markdown(page: Page) -> str:
    blocks = [f"# {escape_line(page.title)}", link(page.url, page.url), page.text]
    blocks += [f"*{escape_line(note)}*" for note in (page.warning, terminal.describe_page(page)) if note]
    return printable("\n\n".join(blocks) + "\n")


def render_page_html(page: Page) -> str:
    """Return a page as HTML without script. Its links are shown as text."""
    notes = [
        f'<p class="small">{html.escape(note)}</p>' for note in (page.warning, terminal.describe_page(page)) if note
    ]
    return render_html_page(
        page.title,
        [f"<p>{_link_title(page.url, page.url)}</p>", _render_markdown_as_html(page.text, set(), {page.url}), *notes],
    )


def _render_markdown_as_html(markdown: str, numbers: set[int], addresses: set[str]) -> str:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

    def text(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        return _MARKER.sub(lambda match: _link_source(match, numbers), html.escape(tokens[index].content))

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "reference", "html_inline"])
    parser.validateLink = lambda url: url in addresses  # type: ignore[method-assign]
    parser.add_render_rule("text", text)
    return str(parser.render(markdown))


def _link_source(match: re.Match[str], numbers: set[int]) -> str:
    number = int(match[1])
    return f'<a href="#source-{number}">[{number}]</a>' if number in numbers else match[0]


def render_html_page(title: str, parts: Iterable[str], language: str = "en") -> str:
    body = "\n".join(part for part in parts if part)
    return printable(
        f'<!doctype html>\n<html lang="{html.escape(language)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def render_section(title: str, kind: str, items: Sequence[str]) -> str:
    return f"<h2>{title}</h2>\n<{kind}>\n" + "\n".join(items) + f"\n</{kind}>" if items else ""


def _render_evidence_strip(sentences: Sequence[SentenceEvidence]) -> str:
    """Return the evidence as a row of cells, as wide as their sentences are long. Its label has the counts."""
    if not sentences:
        return ""
    cells = "".join(
        f'<i class="{sentence.verdict}" style="flex-grow:{sentence.end - sentence.start}"></i>'
        for sentence in sentences
    )
    counts = describe_evidence(sentences)
    return f'<div class="strip" role="img" aria-label="{counts}">{cells}</div>\n<p class="small">{counts}</p>'


def _link_title(title: str, url: str) -> str:
    label = html.escape(terminal.shorten(title) or terminal.display_url(url))
    if not _is_web_address(url):
        return f"{label} <code>{html.escape(terminal.display_url(url))}</code>"
    return f'<a href="{html.escape(url)}" rel="noopener noreferrer nofollow">{label}</a>'


def _is_web_address(url: str | None) -> bool:
    """Return whether a browser may open the address: no other scheme becomes a link."""
    return bool(url) and str(url).startswith(("http://", "https://"))


def _render_html_citation(citation: Citation, response: ResearchResponse) -> str:
    verdict_class = decide_shown_verdict(citation, response.metadata.synthesizer)
    mark, _ = terminal.MARKS[verdict_class]
    sentence = html.escape(
        terminal.shorten(terminal.render_plain_text(response.synthesis[citation.start : citation.end]))
    )
    quote = html.escape(citation.quote)
    if quote and _is_web_address(citation.quote_url):
        quote = f'<a href="{html.escape(citation.quote_url or "")}" rel="noopener noreferrer nofollow">{quote}</a>'
    blockquote = f"<blockquote>{quote}</blockquote>" if quote else ""
    verdict = f'<span class="{verdict_class}">{mark} {terminal.describe_verdict(citation, response)}</span>'
    number, page = citation.source_index, terminal.describe_pages(citation)
    return f'<li>{sentence} <a href="#source-{number}">[{number}]</a>{page}: {verdict}{blockquote}</li>'


def _list_notes(response: ResearchResponse) -> list[str]:
    notes = terminal.describe_degradations(response.degraded, response.metadata.correction)
    return [*notes, *terminal.store_notes(response)]


def _render_html_notes(notes: Iterable[str]) -> str:
    return render_section("Notes", "ul", [f"<li>{html.escape(note)}</li>" for note in notes])


def _render_markdown_citation(citation: Citation, response: ResearchResponse) -> str:
    mark, _ = terminal.MARKS[decide_shown_verdict(citation, response.metadata.synthesizer)]
    sentence = escape_line(
        terminal.shorten(terminal.render_plain_text(response.synthesis[citation.start : citation.end]))
    )
    source = f"[{citation.source_index}]{terminal.describe_pages(citation)}"
    line = f"- {sentence} {source}: {mark} {terminal.describe_verdict(citation, response)}"
    if not citation.quote:
        return line
    quote = escape_line(terminal.shorten(citation.quote))
    return (
        f"{line}\n  > [{quote}](<{citation.quote_url}>)"
        if _is_web_address(citation.quote_url)
        else f"{line}\n  > {quote}"
    )


def _render_markdown_notes(notes: Sequence[str]) -> list[str]:
    return ["## Notes", "\n".join(f"- {escape_line(note)}" for note in notes)] if notes else []


def link(title: str, url: str) -> str:
    label = escape_line(terminal.shorten(title) or terminal.display_url(url))
    if not url:
        return label
    if not _is_web_address(url):
        return f"{label} {code_span(terminal.display_url(url))}"
    return f"[{label}]({link_target(url)})"
