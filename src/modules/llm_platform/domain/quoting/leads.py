"""What must be said before a sentence so that it can stand by itself, and what belongs behind it."""

from __future__ import annotations

import itertools
import re

from modules.llm_platform.domain.quoting.blocks import Block, ends_like_a_sentence
from modules.llm_platform.domain.quoting.markup import clean
from modules.llm_platform.domain.quoting.question import TermMatcher
from modules.llm_platform.domain.quoting.rules import hangs, is_question, points_at_subject
from modules.llm_platform.domain.quoting.sentences import MAX_ROWS, Sentence, read_table
from modules.llm_platform.domain.text import sentence_spans, words

LEAD_WORDS = 20  # a longer heading or introduction is not said again before a sentence
ITEM_WORDS = 25  # a longer item of a list is understood without what introduces the list
NAME_WORDS = 8  # of a title that names a thing
MAX_CODE_LINES = 16
MAX_CODE_CHARS = 900
MAX_LIST_ITEMS = 7

_ASKS = re.compile(
    r"(?:what|how|why|when|where|who|which|was|wie|warum|wann|wo|wer|welche\w*|comment|pourquoi|quand|qué|cómo|cuándo"
    r"|что|как|почему|зачем|когда|где)\b",
    re.IGNORECASE,
)
_NAMES_ITSELF = re.compile(r"-{1,2}\w|`|[^:]{1,40}: |.{1,40}\s[–—-]+\s")


class Leads:
    """Finds what stands above the sentences of one source and must be said again before them."""

    def __init__(self, title: str, language: str, matcher: TermMatcher) -> None:
        self._title, self._language, self._matcher = title, language, matcher
        self._intros: dict[str, str] = {}

    def before(self, sentence: Sentence, *, hanging: bool) -> str:
        """The term explained, what a fragment is one of, what `This` means; empty where nothing is needed or known."""
        if sentence.term:
            return "" if is_question(sentence.term) else sentence.term
        if sentence.row or sentence.announces:
            return ""
        if hanging:
            return (
                self._subject(sentence) if sentence.opens and points_at_subject(sentence.text, self._language) else ""
            )
        if not sentence.item or sentence.before:
            return ""
        introduction = self._introduction(sentence.intro) if len(sentence.text.split()) <= ITEM_WORDS else ""
        fragment = not ends_like_a_sentence(sentence.text)
        return introduction or (_heading_of(sentence) if fragment else "")

    def code(self, sentence: Sentence) -> Block | None:
        """The code that the sentence speaks of: `This installs …`, right below the command that does."""
        code = sentence.above
        spoken_of = code is not None and is_short(code) and points_at_subject(sentence.text, self._language)
        return code if spoken_of else None

    def _subject(self, sentence: Sentence) -> str:
        """The heading or title right above, if it names what was asked for."""
        names = (_short(sentence.heading), _short(self._title))
        return next((name for name in names if _is_name(name) and any(map(self._matcher.matches, words(name)))), "")

    def _introduction(self, intro: str) -> str:
        if intro and intro not in self._intros:
            start, end = sentence_spans(intro, self._language)[-1]
            last = clean(intro[start:end])
            self._intros[intro] = "" if hangs(last, self._language) else _short(last)
        return self._intros.get(intro, "")


def _is_name(title: str) -> bool:
    """Whether it names a thing, so that `It` can mean that: not `How a pump works`."""
    return 0 < len(title.split()) <= NAME_WORDS and not _ASKS.match(title)


def _heading_of(item: Sentence) -> str:
    """The heading, unless the item says by itself what it is about, or the heading is one of a manual's usual ones."""
    return "" if _NAMES_ITSELF.match(item.text) or item.heading.isupper() else _short(item.heading)


def _short(above: str) -> str:
    """Without the colon, and nothing where it is too long to be said again, or asks something."""
    bare = above.rstrip(":： ")
    return "" if is_question(bare) or len(bare.split()) > LEAD_WORDS else bare


def followers(sentence: Sentence, *, how: bool) -> tuple[Block, ...] | None:
    """The code, list or table that a sentence with a colon at its end announces; None when it announces something else.

    Where a way to do something was asked for, code that stands right below any sentence belongs to it.
    """
    first = sentence.after[0] if sentence.after else None
    if sentence.text[-1] not in ":：":
        return (first,) if how and first and first.kind == "code" and is_short(first) else ()
    if first is None:
        return None
    if first.kind == "code":
        return (first,) if is_short(first) else None
    if first.kind == "table":
        return (first,) if 0 < len(read_table(first)[1]) <= MAX_ROWS else None
    items = tuple(itertools.takewhile(lambda block: block.kind == "item", sentence.after))
    return items if 0 < len(items) <= MAX_LIST_ITEMS else None


def is_short(code: Block) -> bool:
    """Whether code can be shown in an answer."""
    lines = code.text.count("\n") + 1
    return bool(code.text.strip()) and lines <= MAX_CODE_LINES and len(code.text) <= MAX_CODE_CHARS
