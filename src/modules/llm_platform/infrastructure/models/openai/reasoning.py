"""Removes reasoning blocks, control characters and secrets from a model's text, also from a streamed one."""

import re
from typing import Final

from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, Redactor

MAX_TAG_CHARS: Final = 60  # longer text in angle brackets is no reasoning tag

_TAG = re.compile(r"[<◁]\s{0,2}(/?)\s{0,2}think(?:ing)?(?:\s[^<>▷]{0,40})?[>▷]", re.IGNORECASE)
_UNFINISHED_TAG = re.compile(r"[<◁]\s{0,2}/?\s{0,2}(?:think(?:ing)?(?:\s[^<>▷]*)?|(?P<start>[a-z]*))", re.IGNORECASE)
_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # tab and line ends stay
_CONTROLS = re.compile(f"[{_CONTROL}]")
_UNPRINTABLE = re.compile(f"[{_CONTROL}\ud800-\udfff]")


def clean(text: str) -> str:
    """Return the text without control characters. Halves of a surrogate pair are joined, and lone ones become U+FFFD."""
    if not _UNPRINTABLE.search(text):
        return text
    return _CONTROLS.sub("", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


class ReasoningFilter:
    """Passes the readable part of a streamed text on and buffers what may be the beginning of a tag or a secret.

    Everything from `<think>` to its `</think>` is removed, nested and unclosed blocks too. A closing tag without an opening
    one (some templates open the block in the prompt) means that all text before it was reasoning: `retractions` counts
    these, and the caller must discard the text before. A tag between backticks is ordinary text.
    """

    def __init__(self, redactor: Redactor, api_key: str = "") -> None:
        """Create a filter. `api_key` is removed even if two pieces divide it."""
        self.retractions = 0
        self._redactor = redactor
        self._key = api_key if len(api_key) >= MIN_SECRET_CHARS else ""
        self._undecided = ""  # possibly the beginning of a tag
        self._before = ""  # the character before that
        self._depth = 0
        self._tail = ""  # readable, but possibly the beginning of the key or half a surrogate pair
        self._has_text = False

    def feed(self, piece: str) -> str:
        """Return the next readable text, possibly empty."""
        text = self._undecided + piece
        if self._depth == 0 and "<" not in text and "◁" not in text:
            self._undecided, self._before = "", text[-1:] or self._before
            return self._release(text, final=False)
        end = self._start_of_unfinished_tag(text)
        outside = self._remove_blocks(text, end)
        self._undecided, self._before = text[end:], text[end - 1 : end] or self._before
        return self._release(outside, final=False)

    def finish(self) -> str:
        """Return the rest of the buffer. Nothing may be fed after this."""
        text, self._undecided = self._undecided, ""
        return self._release(self._remove_blocks(text, len(text)), final=True)

    def _remove_blocks(self, text: str, end: int) -> str:
        """Return the part of `text` up to `end` that is outside of reasoning blocks."""
        outside: list[str] = []
        at = 0
        for tag in _TAG.finditer(text, 0, end):
            before = text[tag.start() - 1] if tag.start() else self._before
            if before == "`" and text[tag.end() : tag.end() + 1] == "`":
                # A tag in backticks is mentioned in the text. It opens or closes no block.
                continue
            if self._depth == 0:
                outside.append(text[at : tag.start()])
            at = tag.end()
            if not tag[1]:
                self._depth += 1
            elif self._depth:
                self._depth -= 1
            else:
                outside.clear()
                self._tail, self._has_text = "", False
                self.retractions += 1
        if self._depth == 0:
            outside.append(text[at:end])
        return "".join(outside)

    def _start_of_unfinished_tag(self, text: str) -> int:
        """Return the start of an incomplete tag, or mention of one, at the end, or else the length of the text."""
        start = max(text.rfind("<"), text.rfind("◁"))
        if start < 0 or len(text) - start > MAX_TAG_CHARS:
            return len(text)
        unfinished = _UNFINISHED_TAG.fullmatch(text, start)
        if unfinished and "thinking".startswith((unfinished["start"] or "").lower()):
            return start
        mentioned = (text[start - 1] if start else self._before) == "`" and _TAG.fullmatch(text, start)
        return start if mentioned else len(text)

    def _release(self, outside: str, *, final: bool) -> str:
        text = self._tail + outside
        if not self._has_text:
            text = text.lstrip()
            self._has_text = bool(text)
        end = len(text) if final else self._measure_safe_length(text)
        self._tail = text[end:]
        return self._redactor.text(clean(text[:end]))

    def _measure_safe_length(self, text: str) -> int:
        """Return the length of the text without a trailing part of the key or half a surrogate pair."""
        if self._key:
            start = text.find(self._key[0], max(0, len(text) - len(self._key) + 1))
            while start >= 0:
                if self._key.startswith(text[start:]):
                    return start
                start = text.find(self._key[0], start + 1)
        return len(text) - ("\ud800" <= text[-1:] <= "\udbff")


class ReasoningText:
    """The reasoning of an answer for a caller that reads it, without control characters and secrets.

    A key that two pieces divide is removed, too.
    """

    def __init__(self, redactor: Redactor, api_key: str = "") -> None:
        self._filter = ReasoningFilter(redactor, api_key)
        self._texts: list[str] = []
        self._streamed = 0

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def feed(self, piece: str) -> None:
        self._texts.append(self._filter.feed(piece))

    def finish(self) -> None:
        self._texts.append(self._filter.finish())

    def new(self) -> str:
        """Return what came since the last call."""
        text = "".join(self._texts[self._streamed :])
        self._streamed = len(self._texts)
        return text
