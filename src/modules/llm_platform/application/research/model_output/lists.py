"""Read questions and queries from a model's answer in any list format, whole or line by line while it streams."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from functools import cache, lru_cache
from typing import Any, Final

from modules.llm_platform.application.research.model_output.cleaning import remove_invisible, strip_reasoning
from modules.llm_platform.application.research.model_output.lenient_json import MAX_DEPTH, read_values
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest, LLMReset, LLMResponse, LLMToken
from modules.llm_platform.domain.exceptions import LLMProviderException
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.text.data_files import load_data

MAX_ITEMS: Final = 50
MAX_LINES: Final = 2000
MAX_ITEM_CHARS: Final = 2000  # longest line and longest item
MAX_PAIRS: Final = 4  # quotes and emphasis around an item, removed pair by pair

_PREFIX = re.compile(
    r"(?:\(?\d{1,3}[.):]|[^\w\[{(［]){0,12}(?P<label>[^\W\d_][^\d:：]{0,24}?)\s{0,3}(?:[#№]?\s?\d{1,3})?[.)]?"
    r"[*_]{0,3}\s{0,3}[:：][*_]{0,3}\s{0,9}"
)
_BULLET = re.compile(
    r"\A\s{0,40}(?:[-*•–—·▪◦‣+]\s+|[*_]{0,2}\(?(?:\d{1,2}[.):]|[A-Za-zА-яа-я]\))[*_]{0,2}\s+|\d{1,2}、\s*|[①-⑳]\s*)"
)
_NOT_AN_ITEM = re.compile(r".*[:：]\W{0,6}|#{1,6}\s.*|[`~]{3,}.*|\W*")
_KEY_NUMBER = "0123456789 _"
_JSON_BEGINS = r"[\[{［](?=\s*(?:[\[{(\]}\"'“«`/#]|[\w -]{1,40}[:：])|[^\]\n]{0,300}\]\s*$)"
_IS_JSON = re.compile(_JSON_BEGINS, re.M)
_HAS_JSON = re.compile(rf"(?:^|[:：])[^\S\n]{{0,80}}{_JSON_BEGINS}", re.M)
_PAIRS: Final = ('""', "''", "“”", "„“", "«»", "‘’", "``", "**", "<>")
_TRAILING = ".!?:： "
_SEPARATORS = " \t\r\n,;"


@cache
def list_words(*parts: str) -> frozenset[str]:
    """Return lower-case words that models write before, beside and instead of questions, from parts of `list_words.json`."""
    return frozenset(phrase for part in parts for phrase in load_data("list_words")[part])


def read_strings(text: str, *, plain: bool = True) -> list[str]:
    """Return the cleaned items of a list in order, at most `MAX_ITEMS`, duplicates included; none for a refusal or `None`.

    The first of these formats that gives items is used: lines with a prefix (unless the answer begins as JSON), JSON,
    numbered or bulleted lines, and, if `plain`, other lines, which may be anything (`Let me think`).
    """
    body = strip_reasoning(text)
    lines = [line for raw in body.splitlines()[:MAX_LINES] if (line := raw[:MAX_ITEM_CHARS].strip())]
    is_json = _IS_JSON.match(body) is not None
    items = [] if is_json else _find_prefixed_items(lines)
    items = items or (_read_json_items(body) if is_json or _HAS_JSON.search(body) else [])
    items = items or [_BULLET.sub("", line, count=1) for line in lines if _BULLET.match(line)]
    if plain and not items and not is_json:
        items = [line for line in lines if not _NOT_AN_ITEM.fullmatch(line) and not _is_refusal(line)]
    return list(_clean_items(items))


def read_line(line: str) -> str | None:
    """Return the item of a streamed line with exactly one prefix, else None; `read_strings` reads lines with several."""
    line = strip_reasoning(line[:MAX_ITEM_CHARS])
    pieces = _split_prefixed_items(line)
    return next(_clean_items(pieces), None) if len(pieces) == 1 else None


def _is_refusal(line: str) -> bool:
    return line.lower().replace("’", "'").lstrip("\"'«“* ").startswith(tuple(list_words("refusals")))


def _find_prefixed_items(lines: list[str]) -> list[str]:
    """Return the texts after the prefixes; a prefix alone on a line belongs to the next line."""
    items: list[str] = []
    expects_item = False
    for line in lines:
        pieces = _split_prefixed_items(line)
        if pieces:
            items += pieces
            expects_item = not any(piece.strip(_SEPARATORS) for piece in pieces)
        elif expects_item:
            items += [] if _BULLET.match(line) else [line]
            expects_item = False
    return [item for item in items if item.strip(_SEPARATORS)]


def _split_prefixed_items(line: str) -> list[str]:
    """Return the items of a line with a prefix; a model may write several in one line, each with its prefix."""
    first = _find_prefix(line)
    return _find_repeated_prefix(first["label"]).split(line[first.end() :]) if first else []


def _find_prefix(line: str) -> re.Match[str] | None:
    found = _PREFIX.match(line)
    return found if found and found["label"].strip(" *_").lower() in list_words("labels") else None


@lru_cache(maxsize=64)
def _find_repeated_prefix(label: str) -> re.Pattern[str]:
    """Return the pattern of further occurrences of a prefix in its line."""
    return re.compile(rf"[\s*_]{re.escape(label)}(?:\s?[#№]?\d{{1,3}})?[*_]{{0,3}}\s?[:：]")


def _read_json_items(body: str) -> list[str]:
    return [string for value in read_values(body, incomplete=True) for string in _collect_strings(value, 0)]


def _collect_strings(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:MAX_ITEM_CHARS]
    elif depth > MAX_DEPTH:
        return
    elif isinstance(value, list):
        for item in value:
            yield from _collect_strings(item, depth + 1)
    elif isinstance(value, dict):
        for inner in _list_values(value):
            yield from _collect_strings(inner, depth + 1)


def _list_values(pairs: dict[str, object]) -> list[object]:
    """Return the values of keys that name questions, lists before strings (`{"query": ..., "sub_questions": [...]}`)."""
    matching = [value for key, value in pairs.items() if _normalize_key(key) in list_words("labels", "item_keys")]
    lists: list[object] = [value for value in matching if isinstance(value, dict | list)]
    metadata = list_words("metadata_keys")
    return lists or matching or [value for key, value in pairs.items() if _normalize_key(key) not in metadata]


def _normalize_key(key: str) -> str:
    return key.lower().replace("_", " ").rstrip(_KEY_NUMBER).strip()


def _clean_items(items: Iterable[str]) -> Iterator[str]:
    count = 0
    for item in items:
        cleaned = _clean_item(item)
        if cleaned and cleaned.lower().rstrip(_TRAILING) not in list_words("labels", "non_items"):
            count += 1
            yield cleaned
        if count == MAX_ITEMS:
            return


def _clean_item(item: str) -> str:
    """Return the item without bullet, prefix, and the quotes or emphasis around all of it."""
    item = _BULLET.sub("", remove_invisible(item).strip(), count=1)
    prefix = _find_prefix(item)
    item = (item[prefix.end() :] if prefix else item).strip(_SEPARATORS)
    for _ in range(MAX_PAIRS):
        if len(item) > 1 and item[0] + item[-1] in _PAIRS:
            item = item[1:-1].strip(_SEPARATORS)
    for quote in '"“”«»`':
        if item.count(quote) == 1 and (item.startswith(quote) or item.endswith(quote)):  # the other quote is missing
            item = item.strip(quote).strip(_SEPARATORS)
    return item


LIST_KEY: Final = "questions"
_JSON_LIST = re.compile(rf'\s*\{{\s*"{LIST_KEY}"\s*:\s*\[')
_JSON_ITEM = re.compile(rf'\s*(?:,\s*)?("(?:[^"\\]|\\.){{1,{MAX_ITEM_CHARS}}}")')
MAX_JSON_HEAD_CHARS: Final = 200  # text that may precede the list
_OPENING, _CLOSING = "<think>", "</think>"
MAX_STREAMED_LINES: Final = 200  # read while they arrive; the rest is read at the end of the answer


def make_object_schema(key: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object with one list, because some services reject a schema whose root is an array."""
    properties = {key: {"type": "array", "items": item}}
    return {"type": "object", "properties": properties, "required": [key], "additionalProperties": False}


LIST_SCHEMA: Final = make_object_schema(LIST_KEY, {"type": "string"})


def make_list_request(prompt: str, max_tokens: int) -> LLMRequest:
    """Return the request for a list, which `stream_list` and `read_strings` read."""
    return LLMRequest(
        messages=(ChatMessage(role="user", content=prompt),), max_tokens=max_tokens, json_schema=LIST_SCHEMA
    )


async def stream_list(llm: ILLMProvider, request: LLMRequest, take: Callable[[str], None]) -> LLMResponse:
    """Stream an answer; `take` gets each item of a line with a prefix or of an object as in `LIST_SCHEMA` when it is complete.

    Items stay taken when a model fails half-way and another one starts over. Raises the errors of ILLMProvider.
    """
    lines = _LineReader(take)
    answer: LLMResponse | None = None
    async with aclosing(llm.stream(request)) as parts:  # type: ignore[type-var]  # an async generator
        async for part in parts:
            if isinstance(part, LLMToken):
                lines.feed(part.text)
            elif isinstance(part, LLMReset):
                lines = _LineReader(take)
            else:
                answer = part
    if answer is None:
        raise LLMProviderException("The language model's stream ended without an answer: ask another model")
    lines.feed("\n")
    return answer


class _LineReader:
    """Joins tokens to lines. Passes on the items of prefixed lines outside of reasoning, and of a LIST_SCHEMA object."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._open: list[str] = []
        self._seen = 0
        self._thinking = False
        self._json: str | None = ""  # the answer so far; None where it does not begin as the object of a list
        self._json_at = 0

    def feed(self, text: str) -> None:
        self._feed_json(text)
        *ends, rest = text.split("\n")
        for end in ends:
            if self._seen < MAX_STREAMED_LINES:
                line = "".join([*self._open, end])
                item = read_line(self._remove_reasoning(line))
                if item:
                    self._take(item)
            self._seen += 1
            self._open.clear()
        if rest:
            self._open.append(rest)

    def _feed_json(self, text: str) -> None:
        """Pass on each string of an object with one list when it is complete."""
        if self._json is None:
            return
        self._json += text
        begin = None if self._json_at else _JSON_LIST.match(self._json)
        self._json_at = begin.end() if begin else self._json_at
        if not self._json_at:
            self._json = self._json if len(self._json) < MAX_JSON_HEAD_CHARS else None
            return
        while '"' in text and (found := _JSON_ITEM.match(self._json, self._json_at)):
            self._json_at = found.end()
            for item in _clean_items(_read_json_items(f"[{found[1]}]")):
                self._take(item)

    def _remove_reasoning(self, line: str) -> str:
        """Return the part of the line outside of reasoning, which a provider may not have removed."""
        opened, closed = line.rfind(_OPENING), line.rfind(_CLOSING)
        if opened < 0 and closed < 0:
            return "" if self._thinking else line
        self._thinking = opened > closed
        return "" if self._thinking else line[closed + len(_CLOSING) :]
