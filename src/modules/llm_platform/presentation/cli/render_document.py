"""Answers as Markdown and as one self-contained HTML page, for --output; titles, addresses and quotes are foreign."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from modules.llm_platform.domain.dtos.page_dtos import Page
from modules.llm_platform.domain.dtos.research_dtos import Citation, ResearchResponse
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse
from modules.llm_platform.presentation.cli.render_terminal import (
    MARKS,
    UNSUPPORTED,
    judgement,
    notes,
    plain_text,
    readable,
    render_duration,
    render_metadata,
    render_store_notes,
    shortened,
    with_unsupported_marked,
)
from shared.logging import printable

STYLE = """
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.6 system-ui, sans-serif }
body { color: #1a1a1a; background: #fff }
pre, code { font-family: ui-monospace, monospace; background: #f4f4f4; overflow-x: auto }
pre { padding: .75rem }
table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: .25rem .5rem }
blockquote { margin: 0; padding-left: 1rem; border-left: 3px solid #ccc; color: #444 }
li { margin: .4rem 0 } .supported { color: #14703a } .partial { color: #8a5a00 } .unsupported { color: #b3261e }
.unchecked, .small { color: #666 } a { color: #0b57d0; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 } pre, code { background: #242424 } a { color: #8ab4f8 }
  .supported { color: #7fd49b } .partial { color: #e5b567 } .unsupported { color: #f2a19c }
  .unchecked, .small { color: #aaa }
}
"""
# No script and no request to anywhere, whatever an answer may hold.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_MARKDOWN_SYNTAX = re.compile(r"([\\`*_\[\]<>#|~&])")
_BLOCK_START = re.compile(r"^(\d*)([-+=.)])")  # a list, a heading of the underlined kind
_MARKER = re.compile(r"\[(\d{1,4})\]")


def research_markdown(response: ResearchResponse) -> str:
    """A research as Markdown: question, answer, sources, citations, notes."""
    blocks = [f"# {_escaped(response.query)}", with_unsupported_marked(response)]
    if response.sources:
        blocks.append("## Sources")
        blocks.append("\n".join(f"- [{each.index}] {_link(each.title, each.url)}" for each in response.sources))
    if response.citations:
        blocks.append("## Citations")
        blocks.append("\n".join(_markdown_citation(each, response) for each in response.citations))
    blocks += _markdown_notes(_all_notes(response))
    return printable("\n\n".join([*blocks, f"*{_escaped(render_duration(response))}*"]) + "\n")


def search_markdown(response: WebSearchResponse) -> str:
    """A search as Markdown: one list item for each result."""
    items = [
        f"{number}. {_link(item.title, item.url)}" + (f"\n   {_escaped(shortened(item.text))}" if item.text else "")
        for number, item in enumerate(response.results, 1)
    ]
    blocks = [f"# {_escaped(response.query)}", "\n".join(items) or "Nothing was found."]
    return printable("\n\n".join([*blocks, *_markdown_notes(notes(response.correction, response.degraded))]) + "\n")


def research_html(response: ResearchResponse) -> str:
    """A research as one page without script, whose [n] lead to its sources."""
    numbers = {source.index for source in response.sources}
    sources = [
        f'<li id="source-{each.index}" value="{each.index}">{_anchor(each.title, each.url)}</li>'
        for each in response.sources
    ]
    citations = [_html_citation(each, response) for each in response.citations]
    parts = [
        _with_class(_rendered(with_unsupported_marked(response), numbers, {each.url for each in response.sources})),
        _section("Sources", "ol", sources),
        _section("Citations", "ul", citations),
        _html_notes(_all_notes(response)),
        f'<p class="small">{html.escape(render_duration(response))}</p>',
    ]
    return _page(response.query, parts, response.metadata.language)


def search_html(response: WebSearchResponse) -> str:
    """A search as one page without script."""
    items = [
        f"<li>{_anchor(item.title, item.url)}<br>{html.escape(shortened(item.text))}</li>" for item in response.results
    ]
    found = _section("Results", "ol", items) or "<p>Nothing was found.</p>"
    return _page(response.query, [found, _html_notes(notes(response.correction, response.degraded))])


def page_markdown(page: Page) -> str:
    """A page as Markdown: its title, its address, its text as it was read."""
    blocks = [f"# {_escaped(page.title)}", _link(page.url, page.url), page.text]
    blocks += [f"*{_escaped(words)}*" for words in (page.warning, render_metadata(page)) if words]
    return printable("\n\n".join(blocks) + "\n")


def page_html(page: Page) -> str:
    """A page as a page of our own without script, its links shown as text."""
    said = [f'<p class="small">{html.escape(words)}</p>' for words in (page.warning, render_metadata(page)) if words]
    return _page(page.title, [f"<p>{_anchor(page.url, page.url)}</p>", _rendered(page.text, set(), {page.url}), *said])


def _rendered(markdown: str, numbers: set[int], addresses: set[str]) -> str:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

    def text(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
        return _MARKER.sub(lambda match: _to_source(match, numbers), html.escape(tokens[index].content))

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "reference", "html_inline"])
    parser.validateLink = lambda url: url in addresses  # type: ignore[method-assign]
    parser.add_render_rule("text", text)
    return str(parser.render(markdown))


def _with_class(rendered: str) -> str:
    """The marks of unsupported sentences in the colour of that verdict."""
    mark = UNSUPPORTED.strip("*")
    return rendered.replace(f"<strong>{mark}</strong>", f'<strong class="unsupported">{mark}</strong>')


def _to_source(match: re.Match[str], numbers: set[int]) -> str:
    number = int(match[1])
    return f'<a href="#source-{number}">[{number}]</a>' if number in numbers else match[0]


def _page(title: str, parts: Iterable[str], language: str = "en") -> str:
    body = "\n".join(part for part in parts if part)
    return printable(
        f'<!doctype html>\n<html lang="{html.escape(language)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _section(title: str, kind: str, items: Sequence[str]) -> str:
    return f"<h2>{title}</h2>\n<{kind}>\n" + "\n".join(items) + f"\n</{kind}>" if items else ""


def _anchor(title: str, url: str) -> str:
    shown = html.escape(shortened(title) or readable(url))
    if not url.startswith(("http://", "https://")):
        return f"{shown} <code>{html.escape(readable(url))}</code>"
    return f'<a href="{html.escape(url)}" rel="noopener noreferrer nofollow">{shown}</a>'


def _html_citation(citation: Citation, response: ResearchResponse) -> str:
    mark, _ = MARKS[citation.verdict]
    sentence = html.escape(shortened(plain_text(response.synthesis[citation.start : citation.end])))
    said = f"<blockquote>{html.escape(citation.quote)}</blockquote>" if citation.quote else ""
    verdict = f'<span class="{citation.verdict}">{mark} {judgement(citation, response)}</span>'
    number = citation.source_index
    return f'<li>{verdict} {sentence} <a href="#source-{number}">[{number}]</a>{said}</li>'


def _all_notes(response: ResearchResponse) -> list[str]:
    return [*notes(response.metadata.correction, response.degraded), *render_store_notes(response)]


def _html_notes(said: Iterable[str]) -> str:
    return _section("Notes", "ul", [f"<li>{html.escape(note)}</li>" for note in said])


def _markdown_citation(citation: Citation, response: ResearchResponse) -> str:
    mark, _ = MARKS[citation.verdict]
    sentence = _escaped(shortened(plain_text(response.synthesis[citation.start : citation.end])))
    line = f"- {mark} {judgement(citation, response)} [{citation.source_index}] {sentence}"
    return f"{line}\n  > {_escaped(shortened(citation.quote))}" if citation.quote else line


def _markdown_notes(said: Sequence[str]) -> list[str]:
    return ["## Notes", "\n".join(f"- {_escaped(note)}" for note in said)] if said else []


def _link(title: str, url: str) -> str:
    shown = _escaped(shortened(title) or readable(url))
    if not url.startswith(("http://", "https://")):
        return f"{shown} {_code_span(readable(url))}"
    return f"[{shown}](<{quote(url, safe=_IN_ADDRESSES)}>)"


_IN_ADDRESSES = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "<>\\")


def _code_span(text: str) -> str:
    """The text as code, fenced with more backticks than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _escaped(text: str) -> str:
    line = _MARKDOWN_SYNTAX.sub(r"\\\1", " ".join(text.split()))
    return _BLOCK_START.sub(r"\1\\\2", line)
