"""Remove reasoning, fences and unprintable characters from a model's answer, in linear time."""

import re
from typing import Final

MAX_CHARS: Final = 262_144  # a longer answer is repetition

# Control characters except tab and line ends, and invisible marks except the joiners of scripts and emoji.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u2060\ufeff]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_REASONING_TAGS = "think|thinking|thoughts?|reasoning|reflection|scratchpad"
_TAG = re.compile(rf"[<◁](/?)(?:{_REASONING_TAGS})(?:\s[^<>▷]{{0,40}})?[>▷]|\[(/?)THINK\]", re.I)
_FINAL_CHANNEL = "<|channel|>final<|message|>"  # models with channels: the text before it is analysis
# Special tokens of chat templates, which appear in the text when a model is used with the wrong template.
TEMPLATE_TOKEN: Final = re.compile(
    r"<\|[a-z][a-z0-9_ ]{0,30}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<(?:start|end)_of_turn>|<(?:bos|eos|pad|unk)>"
    r"|\[/?INST\]|<</?SYS>>"
    # Tokens of our own prompts. Small models make up YES_ANSWER.
    r"|=== [0-9a-f]{16} ===|\b(?-i:(?:NO|YES)_ANSWER)(?:[:.,]|(?=[^\w:.,]))",
    re.I,
)
MIN_ANSWER_CHARS: Final = 60  # NO_ANSWER after this much text is inside an answer; before it, it is a mark
_PARTIAL_TOKEN = re.compile(
    r"<(?:\|(?:[a-z][a-z0-9_ ]{0,30}\|?)?|｜[^｜<>\n]{0,40}｜?|/?s?|[a-z_]{1,13}|</?S?Y?S?>?)?\Z|\[/?I?N?S?T?\Z"
    r"|={1,3}(?: [0-9a-f]{0,16}(?: ={0,3})?)?\Z"
    r"|\b(?-i:(?:N(?:O|\Z)|Y(?:E(?:S|\Z)|\Z))(?:_(?:A(?:N(?:S(?:W(?:E(?:R)?)?)?)?)?)?)?)\Z",
    re.I,
)
_TURN = re.compile(
    r"<\|(?:im_start|start_header_id|endoftext|begin_of_text|user|system)\|>|<start_of_turn>|\[INST\]", re.I
)
_ROLES = ("assistant", "model")
_ROLE = re.compile(r"\s*(?:assistant|model)\b:?\s*", re.I)
_FENCE = re.compile(r"(`{3,}|~{3,})[\w+-]{0,20}[^\S\n]*(?:\n|(?=[\[{]))")


def remove_invisible(text: str) -> str:
    """Return the first MAX_CHARS characters, without control characters and lone surrogates."""
    text = text[:MAX_CHARS]
    if _SURROGATES.search(text):
        text = repair_surrogates(text)
    return _INVISIBLE.sub("", text) if _INVISIBLE.search(text) else text


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD, so that the text can be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def strip_reasoning(text: str) -> str:
    """Return the answer without reasoning blocks, closed or not, and without a fence around the whole answer."""
    answer = remove_invisible(text)
    if _FINAL_CHANNEL in answer:
        answer = answer.rpartition(_FINAL_CHANNEL)[2]
    if "<" in answer or "[" in answer:
        answer = TEMPLATE_TOKEN.sub("", answer)
    answer = _remove_reasoning_tags(answer).strip()
    opening = _FENCE.match(answer)
    if not opening:
        return answer
    inner = answer[opening.end() :].removesuffix(opening[1])  # the fence may be cut off
    return answer if opening[1] in inner else inner.strip()


def _remove_reasoning_tags(text: str) -> str:
    """Return the text outside of reasoning blocks. Nested blocks count as one.

    All text before an unmatched closing tag is reasoning.
    """
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


class TemplateTokenRemover:
    """Removes the tokens of chat templates from an answer that arrives in pieces, and any further turn after the answer.

    A token that the answer mentions as code stays. The result does not depend on how the answer is cut into pieces.
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._last = ""  # the last returned character
        self._chars = 0  # the number of characters returned so far
        self._role_follows = False  # True between the token that begins a turn and the text of the turn
        self._has_ended = False

    def feed(self, text: str) -> str:
        """Add the next piece, and return the text that is now complete; empty if none is."""
        return self._take(text, is_complete=False)

    def finish(self) -> str:
        return self._take("", is_complete=True)

    def _take(self, text: str, *, is_complete: bool) -> str:
        if self._has_ended:
            return ""
        self._buffer += text
        parts: list[str] = []
        while (token := TEMPLATE_TOKEN.search(self._buffer)) is not None and not self._has_ended:
            before, rest = self._buffer[: token.start()], self._buffer[token.end() :]
            is_code = (before or self._last)[-1:] == "`"
            is_at_start = self._chars + len(before.strip()) < MIN_ANSWER_CHARS
            if is_code or (token[0].startswith("NO_ANSWER") and is_at_start):  # NO_ANSWER is read by a later reader
                parts.append(self._pass(before + token[0]))
            else:
                parts.append(self._pass(before))
                if _TURN.fullmatch(token[0]):  # the first turn is the answer's own
                    self._has_ended = self._chars > 0
                    self._role_follows = True
            self._buffer = rest
        if self._has_ended:
            return "".join(parts)
        partial = None if is_complete else _PARTIAL_TOKEN.search(self._buffer)
        end = partial.start() if partial else len(self._buffer)
        begun = self._buffer[:end].strip().casefold()
        if self._role_follows and not is_complete and any(role.startswith(begun) for role in _ROLES):
            return "".join(parts)
        ready, self._buffer = self._buffer[:end], self._buffer[end:]
        return "".join([*parts, self._pass(ready)])

    def _pass(self, text: str) -> str:
        if self._role_follows:
            role = _ROLE.match(text)
            text = text[role.end() :] if role else text
            self._role_follows = not text
        self._last = text[-1:] or self._last
        self._chars += len(text.strip())
        return text
