"""Access to trees of resiliparse, their elements and their text, for reading a page and selecting its article."""

import re
from collections.abc import Iterable
from typing import Any

from modules.llm_platform.infrastructure.parsing.answer import BLANK_LINES
from modules.llm_platform.infrastructure.parsing.html_limits import check_tree

TERM_MARK = "\ue000"  # precedes a defined term until the text is complete

_ASCII_BLANKS = bytes(code for code in range(128) if chr(code).isspace())
_DEFINITION = re.compile(r"\s*:[ ]+(?=\S)")
_TERM_START = re.compile(rf"\s*{TERM_MARK}")
_SPACE_BEFORE_TERM = re.compile(rf"(\n\n{TERM_MARK})\s+")
_TERMS_TOGETHER = re.compile(rf"^({TERM_MARK}[^\n]*)\n\n(?={TERM_MARK})", re.MULTILINE)


def parse(html: str) -> Any:
    """Return the tree, whose depth and size `check_tree` has checked."""
    from resiliparse.parse.html import HTMLParserException, HTMLTree

    try:
        tree = HTMLTree.parse(html)
    except HTMLParserException as error:  # the parser could not have the memory for it
        raise MemoryError from error
    check_tree(tree.document)
    return tree


def find_elements(parent: Any, selector: str) -> list[Any]:
    """Return the elements that match. A slice is taken, because the iterator of the parser's list takes quadratic time.

    It takes half a minute for 3,000 elements.
    """
    return list(parent.query_selector_all(selector)[:])


def remove(nodes: Iterable[Any]) -> None:
    """Take nodes out of their tree. Nodes that are in none stay as they are."""
    for node in nodes:
        node.remove()


def count_chars(text: str) -> int:
    """Return the number of characters that are not spaces."""
    if text.isascii():  # a quarter of the time
        return len(text.encode().translate(None, _ASCII_BLANKS))
    return len("".join(text.split()))


def render_plain_text(html: Any, *, main_content: bool = False) -> str:
    """Return the text of a tree or of HTML, with terms and definitions in lines of their own."""
    from resiliparse.extract.html2text import extract_plain_text

    tree = parse(html) if isinstance(html, str) else html
    plain = extract_plain_text(tree, preserve_formatting=True, main_content=main_content, alt_texts=False)
    text = _move_to_text_above(BLANK_LINES.sub("\n\n", str(plain)).strip(), _DEFINITION, "\n: ")
    if TERM_MARK in text:  # a term begins a paragraph, unless it shares its definition with the term above it
        text = _SPACE_BEFORE_TERM.sub(r"\1", _move_to_text_above(text, _TERM_START, f"\n\n{TERM_MARK}"))
        text = _TERMS_TOGETHER.sub(r"\1\n", text).replace(TERM_MARK, "")
    return text


def _move_to_text_above(text: str, mark: re.Pattern[str], beginning: str) -> str:
    """Return the text with `beginning` in place of each mark at the beginning of a line, and of the whitespace above it.

    Lines are read one by one: one pattern for the whitespace above and the mark takes cubic time for many blank lines.
    """
    parts: list[str] = []
    for line in text.split("\n"):
        if not parts:
            parts.append(line)
        elif found := mark.match(line):
            while parts and not parts[-1].strip():
                parts.pop()
            parts[-1:] = [parts[-1].rstrip(), beginning, line[found.end() :]] if parts else [line]
        else:
            parts += ["\n", line]
    return "".join(parts)
