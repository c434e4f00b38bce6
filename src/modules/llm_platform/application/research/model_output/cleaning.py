"""What is taken off a model's answer before anything is read in it; all of it in linear time."""

from __future__ import annotations

import re
from typing import Final

MAX_CHARS: Final = 262_144  # a longer answer is a model that repeats itself; what stands before is enough

# Control characters but tab and line ends; marks that nobody sees, but the joiners that scripts and emoji need.
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u2060\ufeff]")
_HALVES = re.compile("[\ud800-\udfff]")
_NAMES = "think|thinking|thoughts?|reasoning|reflection|scratchpad"
_TAG = re.compile(rf"[<◁](/?)(?:{_NAMES})(?:\s[^<>▷]{{0,40}})?[>▷]|\[(/?)THINK\]", re.I)
_FINAL = "<|channel|>final<|message|>"  # open-weight models that answer in channels: what is before it is analysis
_SPECIAL = re.compile(r"<\|[a-z_]{1,20}\|>")
_FENCE = re.compile(r"(`{3,}|~{3,})[\w+-]{0,20}[^\S\n]*(?:\n|(?=[\[{]))")


def visible(text: str) -> str:
    """The text, bounded, without control characters and half characters."""
    text = text[:MAX_CHARS]
    if _HALVES.search(text):
        text = whole_characters(text)
    return _UNSEEN.sub("", text) if _UNSEEN.search(text) else text


def whole_characters(text: str) -> str:
    """Halves of a surrogate pair are joined, lone ones become U+FFFD: the text can be sent and stored."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def strip_reasoning(text: str) -> str:
    """The answer alone: no reasoning blocks, closed or not, and no fence where it holds the whole; prose is left."""
    answer = visible(text)
    if _FINAL in answer:
        answer = answer.rpartition(_FINAL)[2]
    if "<|" in answer:
        answer = _SPECIAL.sub("", answer)
    return _without_fence(_outside_of_tags(answer).strip())


def _without_fence(text: str) -> str:
    """What a fence around the whole text holds, be it closed or cut off; other text as it is."""
    opening = _FENCE.match(text)
    if not opening:
        return text
    inner = text[opening.end() :].removesuffix(opening[1])
    return text if opening[1] in inner else inner.strip()


def _outside_of_tags(text: str) -> str:
    """Nested blocks are one; a closing tag that nothing opened says that all before it was reasoning."""
    outside: list[str] = []
    at = depth = 0
    for tag in _TAG.finditer(text):
        if text[max(0, tag.start() - 1) : tag.start()] == "`":  # a tag that is spoken of
            continue
        if depth == 0:
            outside.append(text[at : tag.start()])
        at = tag.end()
        if not (tag[1] or tag[2]):
            depth += 1
        elif depth:
            depth -= 1
        else:
            outside.clear()
    return "".join(outside if depth else [*outside, text[at:]])
