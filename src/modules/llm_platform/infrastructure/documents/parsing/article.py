"""Selects the main content of a page of the web among the lines of its text.

trafilatura selects and the lines stay as the page has them: the text of trafilatura joins and escapes what quotes must find.
"""

import re
from itertools import pairwise
from typing import Any, cast

from modules.llm_platform.infrastructure.documents.parsing.limits import OutOfTimeError, cpu_limit

MAX_CPU_SECONDS = 1.2  # After that a page is read without its article being searched.
MAX_HTML_CHARS = 2_000_000  # A longer page is not searched for its article.
MIN_SENTENCE_WORDS = 20  # Lines of the page with as many words are sentences; menus, teasers and prices are shorter.
MIN_SENTENCE_SHARE = 0.2  # Share of the page's words; a page with less in sentences is a list, and has no article.
MIN_PRECISE_SHARE = 0.7  # Share of the page's sentences; the precise mode loses the posts of a forum.
MIN_ARTICLE_SHARE = 0.2  # Share of the page's sentences; an article with less was detected wrongly.
MIN_ARTICLE_WORDS = 10
MIN_LINE_SHARE = 0.8  # Share of a line's three-word runs that the article must have.
MIN_LINE_WORDS = 4  # Shorter lines occur in menus too, and neither begin nor end the article.
MIN_REPEATED_WORDS = 5
MAX_COMMENT_HEAD_LINES = 4  # Between the mark of a comment and its text: author, date, votes.

_TEXTLESS = ("meta", "link", "img", "picture", "source", "input")
_WORD = re.compile(r"\w+")
_COMMENT_MARK = re.compile(r"\s*(?:(?:•|-|\d+\.)\s+)?Comment(?: by .{1,80})?:$")
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def article_of(html: str, page: str, blocks: set[str]) -> str:
    """The lines of `page`, the text of `html`, that are its article; "" where none is found.

    `blocks` are lines of definitions, code and tables, which stay where they stand between lines of the article. The precise
    mode is tried first, without comments of readers. Both modes are the fast ones: what the slow ones add on other pages than
    articles, the caller's own text of the page has too.
    """
    sentences = sentence_words(page)
    if not sentences or len(html) > MAX_HTML_CHARS:
        return ""
    try:
        with cpu_limit(MAX_CPU_SECONDS):
            return _article(html, page, blocks, sentences)
    except OutOfTimeError:
        return ""


def _article(html: str, page: str, blocks: set[str], sentences: int) -> str:
    if sentences >= MIN_SENTENCE_SHARE * len(page.split()):
        text = lines_of_article(page, _extract(html, precise=True), blocks)
        if _is_article(text, MIN_PRECISE_SHARE * sentences):
            return text
    text = lines_of_article(page, _extract(html, precise=False), blocks)
    return text if _is_article(text, MIN_ARTICLE_SHARE * sentences) else ""


def sentence_words(text: str) -> int:
    """The number of words in lines that are sentences."""
    counts = (len(line.split()) for line in text.split("\n"))
    return sum(count for count in counts if count >= MIN_SENTENCE_WORDS)


def without_repeats(text: str) -> str:
    """The text with each longer line once. Pages repeat teasers, and forums the posts that others quote."""
    seen: set[str] = set()
    kept: list[str] = []
    is_code = False
    for line in text.split("\n"):
        words = line.strip()
        if words.startswith("```"):
            is_code = not is_code
        if not is_code and not words.startswith("|") and words.count(" ") >= MIN_REPEATED_WORDS - 1:
            if words in seen:
                continue
            seen.add(words)
        if is_code or words.strip("# ") or not words:
            kept.append(line)
    return _BLANK_LINES.sub("\n\n", "\n".join(kept)).strip()


def _is_article(text: str, min_sentence_words: float) -> bool:
    return len(text.split()) >= MIN_ARTICLE_WORDS and sentence_words(text) >= max(1, min_sentence_words)


def _extract(html: str, *, precise: bool) -> str:
    from lxml.etree import ElementDefaultClassLookup, HTMLParser, LxmlError, fromstring, strip_elements
    from lxml.html import HtmlElement
    from trafilatura import bare_extraction
    from trafilatura.settings import Document, Extractor

    parser = HTMLParser(encoding="utf-8", collect_ids=False, remove_comments=True, remove_pis=True)
    parser.set_element_class_lookup(ElementDefaultClassLookup(element=HtmlElement))  # lxml.html's own calls Python for each
    try:
        tree = fromstring(html.encode("utf-8", "surrogatepass"), parser=parser)
        strip_elements(tree, *_TEXTLESS, with_tail=False)
        options = Extractor(fast=True, precision=precise, comments=not precise)
        found = cast("Document | None", bare_extraction(tree, options=options))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, LxmlError):  # of a page that it cannot read
        return ""
    if found is None:
        return ""
    comments = found.commentsbody.itertext() if found.commentsbody is not None else ()
    return " ".join((found.raw_text or "", *comments))


def lines_of_article(page: str, article: str, blocks: set[str]) -> str:
    """The lines of `page` that `article` has, the blocks between them, and the marks before them: headings and authors."""
    words = _WORD.findall(article.lower())
    runs = {*words, *pairwise(words), *zip(words, words[1:], words[2:], strict=False)}
    lines = page.split("\n")
    is_block = [line.strip() in blocks or line.startswith(("|", "```")) for line in lines]
    is_known = [_is_known(line, runs) and not _COMMENT_MARK.match(line) for line in lines]
    known = [at for at, line in enumerate(lines) if is_known[at] and len(_WORD.findall(line)) >= MIN_LINE_WORDS]
    if not known:
        return ""
    first, last = known[0], known[-1]
    while first > 0 and (is_block[first - 1] or not lines[first - 1] or _is_mark(lines[first - 1])):
        first -= 1
    while last + 1 < len(lines) and (is_block[last + 1] or not lines[last + 1]):
        last += 1
    kept: list[str] = []
    dropped = MAX_COMMENT_HEAD_LINES + 1  # Lines since the last one that stays, or since a mark.
    for at in range(last, first - 1, -1):
        line = lines[at]
        is_comment_mark = _COMMENT_MARK.match(line) is not None
        allowed = MAX_COMMENT_HEAD_LINES if is_comment_mark else 0 if line.startswith("#") else -1
        stays = is_block[at] or is_known[at] or dropped <= allowed
        if stays or not line:
            kept.append(line)
        if is_comment_mark:
            dropped = MAX_COMMENT_HEAD_LINES + 1
        elif line:
            dropped = 0 if stays else dropped + 1
    return _BLANK_LINES.sub("\n\n", "\n".join(reversed(kept))).strip()


def _is_mark(line: str) -> bool:
    return line.startswith("#") or _COMMENT_MARK.match(line) is not None


def _is_known(line: str, runs: set[Any]) -> bool:
    words: list[Any] = _WORD.findall(line.lower())
    if len(words) > 2:
        words = list(zip(words, words[1:], words[2:], strict=False))
    elif len(words) == 2:
        words = [tuple(words)]
    return sum(run in runs for run in words) >= MIN_LINE_SHARE * len(words)
