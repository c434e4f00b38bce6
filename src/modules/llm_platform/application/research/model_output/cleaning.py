"""Remove reasoning, fences and unprintable characters from a model's answer, in linear time."""

from __future__ import annotations

import re
from typing import Final

MAX_CHARS: Final = 262_144  # a longer answer is repetition

# Control characters except tab and line ends, and invisible marks except the joiners of scripts and emoji.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u2060\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_REASONING_TAGS = "think|thinking|thoughts?|reasoning|reflection|scratchpad"
_TAG = re.compile(rf"[<◁](/?)(?:{_REASONING_TAGS})(?:\s[^<>▷]{{0,40}})?[>▷]|\[(/?)THINK\]", re.I)
_FINAL_CHANNEL = "<|channel|>final<|message|>"  # models with channels: the text before it is analysis
_SPECIAL_TOKEN = re.compile(r"<\|[a-z_]{1,20}\|>")
_FENCE = re.compile(r"(`{3,}|~{3,})[\w+-]{0,20}[^\S\n]*(?:\n|(?=[\[{]))")


def remove_invisible(text: str) -> str:
    """The first MAX_CHARS characters, without control characters and lone surrogates."""
    text = text[:MAX_CHARS]
    if _SURROGATES.search(text):
        text = repair_surrogates(text)
    return _INVISIBLE.sub("", text) if _INVISIBLE.search(text) else text


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD, so that the text can be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def strip_reasoning(text: str) -> str:
    """The answer without reasoning blocks, closed or not, and without a fence around the whole answer."""
    answer = remove_invisible(text)
    if _FINAL_CHANNEL in answer:
        answer = answer.rpartition(_FINAL_CHANNEL)[2]
    if "<|" in answer:
        answer = _SPECIAL_TOKEN.sub("", answer)
    return _without_fence(_without_reasoning_tags(answer).strip())


def _without_fence(text: str) -> str:
    """The content of a fence around the whole text, closed or cut off; other text unchanged."""
    opening = _FENCE.match(text)
    if not opening:
        return text
    inner = text[opening.end() :].removesuffix(opening[1])
    return text if opening[1] in inner else inner.strip()


def _without_reasoning_tags(text: str) -> str:
    """Nested blocks count as one. All text before an unmatched closing tag is reasoning."""
    answer_parts: list[str] = []
    position = depth = 0
    for tag in _TAG.finditer(text):
        if text[max(0, tag.start() - 1) : tag.start()] == "`":  # a tag that is mentioned as code
            continue
        if depth == 0:
            answer_parts.append(text[position : tag.start()])
        position = tag.end()
        if not (tag[1] or tag[2]):
            depth += 1
        elif depth:
            depth -= 1
        else:
            answer_parts.clear()
    return "".join(answer_parts if depth else [*answer_parts, text[position:]])
