"""Recognise tasks about a transcript, which chat programs send besides a user's questions: titles, tags, follow-ups, queries.

A task is recognised by its form, not by the program that sends it: it has a transcript, and outside of it an order to make
something of the conversation, and no question. Without marks around the transcript, the order must name the conversation.
A task needs no sources. A language model answers it in one call, and `answer_by_rules` answers it without a model.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from modules.llm_platform.domain.dtos.request_dtos import Turn
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.follow_up import standalone_by_rules
from modules.llm_platform.domain.text.language import choose_language, load_stop_words

Product = Literal["title", "tags", "follow_ups", "queries", "other"]

MAX_TASK_CHARS: Final = 200_000  # a longer message is not a task
MAX_ORDER_CHARS: Final = 8000  # of the text around a transcript
MAX_ASKED_CHARS: Final = 600  # longest order about the turns before it
MAX_TITLE_WORDS: Final = 6
MAX_TITLE_CHARS: Final = 60
MAX_TAGS: Final = 3
NO_TAG: Final = "General"

_ROLES: Final = r"(?P<role>user|human|assistant|ai|bot|model)"
_ROLE_LINE = re.compile(rf"^[ \t>*_#\[-]{{0,6}}{_ROLES}[\]*_ \t]{{0,4}}[:：]", re.IGNORECASE | re.MULTILINE)
_OPENINGS = re.compile(
    r"<(?P<tag>chat_?history|conversation|transcript)>|^-{2,10} ?(?P<line>BEGIN CONVERSATION) ?-{2,10}$",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSING_LINE: Final = r"^-{2,10} ?END CONVERSATION ?-{2,10}$"
_LABEL = re.compile(
    r"^[ \t#*]{0,6}(?:conversation|chat history|transcript)[ \t*]{0,4}[:：]\s*\Z", re.IGNORECASE | re.MULTILINE
)
# Without marks around the transcript the order has to say that it is about the conversation as a whole.
_IT: Final = (
    r"(?:the|this|our) (?:above |whole |current )?(?:conversation|chat|dialogue|discussion)\b"
    r"(?! (?:about|between|from|group|in the|of|on|over|with))"
)
_OF_CONVERSATION = re.compile(
    rf"\b(?:titles?|tags?|follow[-_ ]?up (?:questions|messages))\b[^.?\n]{{0,40}}?\b(?:for|of|summarizing|categorizing) {_IT}"
    rf"|\bsummari[sz]e {_IT} in \d{{1,2}} words\b",
    re.IGNORECASE,
)
_BRIEF_TITLE = re.compile(
    r"\b(?:concise|short|brief|\d{1,2}[- ]word[\w-]{0,20})\b[^.?\n]{0,60}\btitle\b", re.IGNORECASE
)
_CONVERSATION = re.compile(r"\b(?:conversation|chat|dialogue|discussion|transcript)\b", re.IGNORECASE)
_PRODUCTS: Final[Mapping[Product, re.Pattern[str]]] = {
    "tags": re.compile(r"\btags?\b", re.IGNORECASE),
    "follow_ups": re.compile(r"\bfollow[-_ ]?ups\b|\bfollow[-_ ]?up (?:questions|messages|prompts)\b", re.IGNORECASE),
    "queries": re.compile(r"\bsearch quer(?:y|ies)\b|\bqueries\b|\bstandalone (?:question|query)\b", re.IGNORECASE),
    "title": re.compile(r"\btitles?\b|\bin \d{1,2} words or (?:fewer|less)\b", re.IGNORECASE),
}
# A verb of making before the product: `Generate a concise title`, `provide: 1. the language 2. a title`.
_ORDER = re.compile(
    r"\b(?:generate|create|write|provide|give|return|suggest|predict|produce|output|summari[sz]e|categori[sz]\w+|analy[sz]e"
    r"|rephrase|name)\b",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"\{\s*\"(?P<key>[A-Za-z_]{1,40})\"\s*:\s*(?P<value>[\"\[])")
_QUOTED = re.compile(r"\"[^\"\n]{0,500}\"|`[^`\n]{0,500}`|\([^()\n]{0,300}\)")
_QUESTION = re.compile(r"[?？؟](?:\s|$)")
_NO_WORD = re.compile(r"[\s*_#`>\"“”«»]+")
_WORD = re.compile(r"[^\W\d_][\w'-]{2,30}")


@dataclass(frozen=True, slots=True)
class TranscriptTask:
    """A task about a transcript, with its turns. `key` is the key of the JSON object to return, or empty for plain text."""

    product: Product
    turns: tuple[tuple[str, str], ...]
    key: str = ""
    is_list: bool = False


def transcript_task(messages: Sequence[tuple[str, str]]) -> TranscriptTask | None:
    """Return the task of a conversation, whose messages are pairs of role and text; None unless it is clearly such a task."""
    if not messages or messages[-1][0] != "user" or sum(len(text) for _, text in messages) > MAX_TASK_CHARS:
        return None
    system = "\n".join(text for role, text in messages if role in ("system", "developer"))
    earlier = [(role, text) for role, text in messages[:-1] if role in ("user", "assistant")]
    last = messages[-1][1].strip()
    whole = f"{system}\n{last}"
    if marked := _find_marks(whole):
        begin, end = marked
        order, turns, is_marked = (
            whole[: begin.start()] + whole[end.end() :],
            _split_turns(whole[begin.end() : end.start()]),
            True,
        )
    elif any(role == "assistant" for role, _ in earlier) and len(last) <= MAX_ASKED_CHARS:
        order, turns, is_marked = last, tuple(earlier), False
        if not _OF_CONVERSATION.search(order):
            return None
    else:
        order, turns = _split_labelled(system, last)
        is_marked = False
        if not _OF_CONVERSATION.search(order) and not (_BRIEF_TITLE.search(order) and _CONVERSATION.search(order)):
            return None
    return _task(order, turns, is_marked=is_marked) if turns and len(order) <= MAX_ORDER_CHARS else None


def _find_marks(text: str) -> tuple[re.Match[str], re.Match[str]] | None:
    """Return the marks around the first transcript that is marked. Each mark is searched once, so the time is linear."""
    begin = _OPENINGS.search(text)
    if begin is None:
        return None
    closing = rf"</{begin['tag']}>" if begin["tag"] else _CLOSING_LINE
    end = re.compile(closing, re.IGNORECASE | re.MULTILINE).search(text, begin.end())
    return (begin, end) if end else None


def _task(order: str, turns: tuple[tuple[str, str], ...], *, is_marked: bool) -> TranscriptTask | None:
    found = _OBJECT.search(order)
    said = _QUOTED.sub(" ", order)
    if _QUESTION.search(said) or not _ORDER.search(said):
        return None
    key = found["key"] if found else ""
    if key:
        named = key.replace("_", "-")
        product = next((product for product, form in _PRODUCTS.items() if form.search(named)), None)
    else:
        positions = [(match.start(), product) for product, form in _PRODUCTS.items() if (match := form.search(said))]
        product = min(positions)[1] if positions else None
    if product is None and not (is_marked and found and re.search(r"\bJSON\b", order)):
        return None
    return TranscriptTask(product or "other", turns, key, bool(found and found["value"] == "["))


def _split_labelled(system: str, last: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the order and the turns of a message that ends with a transcript, without marks around it.

    Both roles must have a turn, unless a label such as `Transcript:` is above. Without such a transcript, both are empty.
    """
    first = _ROLE_LINE.search(last)
    if first is None:
        return "", ()
    order = f"{system}\n{last[: first.start()]}"
    turns = _split_turns(last[first.start() :])
    speak = {role for role, _ in turns}
    return (order, turns) if speak == {"user", "assistant"} or _LABEL.search(order) else ("", ())


def _split_turns(transcript: str) -> tuple[tuple[str, str], ...]:
    """Return the turns, which begin with a role (`User: …`). A transcript without roles is one turn of the user."""
    lines = list(_ROLE_LINE.finditer(transcript))
    if not lines:
        return (("user", transcript.strip()),) if transcript.strip() else ()
    ends = [line.start() for line in lines[1:]] + [len(transcript)]
    return tuple(
        ("user" if line["role"].lower() in ("user", "human") else "assistant", transcript[line.end() : end].strip())
        for line, end in zip(lines, ends, strict=True)
    )


def answer_by_rules(task: TranscriptTask) -> str:
    """Return a title, tags or a query made without a language model, in the form that the task names.

    Other products need a model, so the result has no items.
    """
    made = _make_items(task)
    if not task.key:
        return "\n".join(made)
    value: object = made if task.is_list else " ".join(made[:1])
    return json.dumps({task.key: value}, ensure_ascii=False)


def _make_items(task: TranscriptTask) -> list[str]:
    asked = [text for role, text in task.turns if role == "user" and text] or [task.turns[0][1]]
    language = choose_language(" ".join(asked)[:2000])
    if task.product == "title":
        title = " ".join(_line(asked[0]).split()[:MAX_TITLE_WORDS])
        return [title[:MAX_TITLE_CHARS].rstrip(" .,:;!?？。！…-")]
    if task.product == "tags":  # the words that are said most, or first, without those that say nothing
        stops = load_stop_words(language)
        words = [word for text in asked for word in _WORD.findall(text[:2000]) if word.lower() not in stops]
        written = {word.lower(): word for word in reversed(words)}
        common = Counter(word.lower() for word in words).most_common(MAX_TAGS)
        return [written[word][:1].upper() + written[word][1:] for word, _ in common] or [NO_TAG]
    if task.product == "queries":
        earlier = [Turn(question=text[:MAX_QUERY_CHARS], answer="") for text in asked[:-1] if len(text) >= 3]
        return [standalone_by_rules(_line(asked[-1])[:MAX_QUERY_CHARS], earlier, language)]
    return []


def _line(text: str) -> str:
    return _NO_WORD.sub(" ", text).strip()
