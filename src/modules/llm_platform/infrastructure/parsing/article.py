"""Selects the main content of a page of the web: the part that its author names, without the surroundings that names
and links reveal.

The names of classes and ids follow the lists of trafilatura (Apache-2.0). What each rule is worth on pages of seven
kinds is in docs/adr/0057-rules-of-our-own-select-the-article.md.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import BLANK_LINES
from modules.llm_platform.infrastructure.parsing.limits import OutOfTimeError, cpu_limit
from modules.llm_platform.infrastructure.parsing.nodes import (
    count_chars,
    find_elements,
    parse,
    remove,
    render_plain_text,
)

MAX_CPU_SECONDS = 1.2  # After that a page is read without its article being searched.
ARTICLE_HTML_CHARS = 2_000_000  # A longer page is not searched for its article.
MIN_SENTENCE_WORDS = 20  # Lines of the page with as many words are sentences; menus, teasers and prices are shorter.
MIN_SENTENCE_SHARE = 0.2  # Share of the page's words; a page with less in sentences is a list, and has no article.
MIN_PRECISE_SHARE = 0.7  # Share of the page's sentences; the precise mode loses the posts of a forum.
MIN_ARTICLE_SHARE = 0.3  # Share of the page's sentences; an article with less was detected wrongly.
MIN_ARTICLE_WORDS = 30
MIN_PARAGRAPH_CHARS = 250  # least text of an article in paragraphs; where there is less, its text is in other elements
MIN_KEPT_SHARE = 1 / 7  # least share of the text of a part; where the names leave less, they name the content itself
MIN_REPEATED_WORDS = 5
CLASS_NAME_CHARS = 300  # longest class or id that is examined

_PARTS = "article,div,main,section"
_CONTENT = "p,ul,ol,dl,blockquote,pre,table,h1,h2,h3,h4,h5,h6,q"
_NO_TEXT = "figure,figcaption,ins,label,legend,fieldset,textarea,time,audio,video,canvas,map,math,menu,embed,header h2,header h3"
_NAMED = ",".join(
    f"{tag}[class],{tag}[id],{tag}[role]" for tag in ("div", "li", "ul", "ol", "dl", "p", "section", "span")
)
_COMMENTS = ",".join(f"{tag}[class],{tag}[id]" for tag in ("div", "ul", "ol", "dl", "section", "details"))

_ARTICLE_NAME = re.compile(
    r"\A(?:post|entry|articleContent)\Z|(?:entry|page|text|article|art)-content|article__(?:content|container)"
    r"|article(?:-|__)?body|[aA]rticle(?:Body|Content|Text)|body-text|post[-_](?:text|body|content)|post-?(?:entry|content)"
    r"|postContent|article-?text"
)
_STORY_NAME = re.compile(
    r"\A(?:article|story|postarea|text|cell)\Z|^primary|^article |fulltext|story-?(?:body|content)|single-post|main-column"
    r"|(?:theme|blog|section|single)-content|post-bodycopy|wpb_text_column|field-body"
)
_SURROUNDING_NAME = re.compile(
    r"^shar|social|viral|newsletter|syndication|cookie|tags|sidebar|banner|bread-?crumb|button|author|byline|Byline"
    r"|footer|Footer|share-|Share|^nav|post-nav|subnav|avigation|navb|menu|bar|\bad\b|dfp[Aa]d|outbrain|taboola|criteo"
    r"|paid-?content|widget|sociable|embed|tag-list|consent|modal-content|permission|elated|next-|-stories|most-popular"
    r"|more-on|meta|rating|attachment|timestamp|user-info|user-profile|-icon|article-infos|message|slide|viewport|overlay"
    r"|options|expand|obfuscated|blurred|factbox|premium|caption|[tT]easer"
    r"|^hide-|comments-title|nocomments|-reply-|akismet|suggest-links|-hide-|hide-print| hidden| hide|noprint|notloaded"
)
_COMMENTS_NAME = re.compile(r"^[Cc]omment(?!ary)|(?:article|post)-comments|^(?:comol|disqus_thread|dsq-comments)")


def find_article(tree: Any, page: str) -> str:
    """Return the article of a page whose text is `page`, or "" if none is found.

    The precise mode is tried first, without comments of readers.
    """
    words, sentences = _count_words(page)
    if not sentences:
        return ""
    try:
        with cpu_limit(MAX_CPU_SECONDS):
            if sentences >= MIN_SENTENCE_SHARE * words:
                text = _extract_content(tree, precise=True)
                if _count_words(text)[1] >= MIN_PRECISE_SHARE * sentences:
                    return text
            text = _extract_content(tree, precise=False)
            return text if _count_words(text)[1] >= MIN_ARTICLE_SHARE * sentences else ""
    except OutOfTimeError:
        return ""


def _count_words(text: str) -> tuple[int, int]:
    """Return the number of words, and of those in lines that are sentences."""
    counts = [len(line.split()) for line in text.split("\n")]
    return sum(counts), sum([count for count in counts if count >= MIN_SENTENCE_WORDS])


def remove_repeats(text: str) -> str:
    """Return the text with each longer line once. Pages repeat teasers, and forums the posts that others quote."""
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
    return BLANK_LINES.sub("\n\n", "\n".join(kept)).strip()


def _extract_content(tree: Any, *, precise: bool) -> str:
    """Return the text of the first part of the page that its author names and that has enough of it."""
    for part in _find_named_parts(tree.body):
        text = _read_part(part, precise=precise)
        if len(text.split(maxsplit=MIN_ARTICLE_WORDS)) >= MIN_ARTICLE_WORDS:
            return text
    return ""


def _find_named_parts(body: Any) -> Iterable[Any]:
    """Yield the first element of each kind of name, the clearest first."""
    parts = [(part, part.tag, *_list_names(part)) for part in find_elements(body, _PARTS)]
    kinds: tuple[Callable[[Any, str, str, str], object], ...] = (
        lambda part, tag, of_class, of_id: (
            _matches_class_or_id(_ARTICLE_NAME, of_class, of_id) or part.getattr("itemprop") == "articleBody"
        ),
        lambda part, tag, of_class, of_id: tag == "article",
        lambda part, tag, of_class, of_id: (
            _matches_class_or_id(_STORY_NAME, of_class, of_id) or part.getattr("role") == "article"
        ),
        lambda part, tag, of_class, of_id: (
            tag == "main" or of_class.startswith("main") or of_id.startswith("main") or part.getattr("role") == "main"
        ),
    )
    for is_kind in kinds:
        if found := next((part for part in parts if is_kind(*part)), None):
            yield found[0]


def _list_names(node: Any) -> tuple[str, str]:
    return (node.getattr("class") or "")[:CLASS_NAME_CHARS], (node.getattr("id") or "")[:CLASS_NAME_CHARS]


@lru_cache(2000)
def _matches(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None


def _matches_class_or_id(pattern: re.Pattern[str], of_class: str, of_id: str) -> bool:
    return bool((of_class and _matches(pattern, of_class)) or (of_id and _matches(pattern, of_id)))


def _read_part(part: Any, *, precise: bool) -> str:
    tree = parse(part.outer_html)
    body = tree.body
    if body is None:
        return ""
    remove(find_elements(body, _NO_TEXT))
    chars = count_chars(body.text)
    remove(form for form in find_elements(body, "form") if count_chars(form.text) * 2 < chars)
    if precise:
        remove(
            node for node in find_elements(body, _COMMENTS) if _matches_class_or_id(_COMMENTS_NAME, *_list_names(node))
        )
        remove(find_elements(body, "header"))
    surroundings = [node for node in find_elements(body, _NAMED) if _is_surrounding(node)]
    if surroundings:
        removed = sum(count_chars(node.text) for node in _select_outermost(surroundings))
        if count_chars(body.text) - removed > MIN_KEPT_SHARE * chars:
            remove(surroundings)
    for selector in ("div", "ul,ol,dl", "p"):
        remove(node for node in find_elements(body, selector) if _is_links(node, precise=precise))
    paragraphs = sum(count_chars(paragraph.text) for paragraph in find_elements(body, "p"))
    if paragraphs < MIN_PARAGRAPH_CHARS * (1 if precise else 3):
        text = render_plain_text(tree)
    else:
        text = render_plain_text(
            "<hr>".join(node.outer_html for node in _select_outermost(find_elements(body, _CONTENT)))
        )
    return remove_repeats(text)


def _is_surrounding(node: Any) -> bool:
    return _matches_class_or_id(_SURROUNDING_NAME, *_list_names(node)) or "nav" in (node.getattr("role") or "").lower()


def _select_outermost(nodes: list[Any]) -> Iterator[Any]:
    """Yield the outermost nodes, in the order of the page."""
    last = None
    for node in nodes:
        if last is None or not last.contains(node):
            last = node
            yield node


def _is_links(node: Any, *, precise: bool) -> bool:
    """Return whether an element consists of links, as menus and lists of other articles do."""
    if node.query_selector("a") is None:
        return False
    tag = node.tag
    if tag == "p" and node.parent is not None and node.parent.tag in ("li", "td", "th", "dd", "dt"):
        return False
    length = len(" ".join(node.text.split()))
    links = [len(text) for link in find_elements(node, "a") if (text := " ".join(link.text.split()))]
    if len(links) == 1 and links[0] > max(10 if precise else 100, 0.9 * length):
        return True
    is_last = node.next_element_sibling is None
    few_chars = (60 if is_last else 30) if tag == "p" else (300 if is_last else 100)
    if length >= few_chars:
        return False
    return (
        not links
        or sum(links) > 0.8 * length
        or (len(links) > 1 and sum(link < 10 for link in links) > 0.8 * len(links))
    )
