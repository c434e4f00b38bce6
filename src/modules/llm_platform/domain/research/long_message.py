"""Find the question in a message that is too long to be a query, by rules. The whole message becomes the context.

A language model may find a better question later (`application/research/follow_up.py`).
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final

from pydantic import AfterValidator, StringConstraints

from modules.llm_platform.domain.dtos.request_dtos import MAX_CONTEXT_CHARS, MIN_QUESTION_CHARS
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, clean_query
from modules.llm_platform.domain.llm.context_budget import MIDDLE_CUT
from modules.llm_platform.domain.research.follow_up import has_content_words, refers_to_thread
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE, detect_language, get_primary_subtag
from modules.llm_platform.domain.text.sentences import QUESTION_MARKS, is_question, split_sentences
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

# A longer text is a message: its question is the query, and the whole text is the context. A shorter text is the query itself,
# so this limit may not exceed MAX_QUERY_CHARS.
LONG_MESSAGE_ABOVE_CHARS: Final = MAX_QUERY_CHARS
MAX_MESSAGE_CHARS: Final = MAX_CONTEXT_CHARS + MAX_QUERY_CHARS  # longest message whose question is searched for
MAX_WEIGHED: Final = 200  # only the last questions of a message are examined, at most this many
PARAGRAPH: Final = "\n\n"  # divides the parts of a context
NAMED_TERMS: Final = (2, 1)  # least terms of a question, in the order tried: `Any ideas?` has a single one

LongQuery = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_MESSAGE_CHARS),
    AfterValidator(clean_query),
]

# Words before a question that is marked as one, as the prompts of agents do: `Research task: …`, `<user_query>…`.
_MARKS: Final = (
    "question|query|task|topic|frage|aufgabe|thema|sujet|tâche|pregunta|tarea|tema|вопрос|задача|задание|тема"
    "|(?:用户)?问题|任务|主题|質問|課題"
)
_KEYS: Final = ("question", "query", "task", "topic")  # keys of a JSON object
_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    for form in (
        # the task: "…"
        rf"(?:{_MARKS})[*_]*\s?[:：]\s*[\"“”„«]{{1,3}}(?P<question>[^\"“”»]{{3,1000}})[\"“”»]",
        # <user_query>…</user_query>
        rf"<(?P<tag>(?:user_)?(?:{_MARKS}))>(?P<question>[^<]*(?:<(?!/?(?P=tag)>)[^<]*)*)</(?P=tag)>",
        # **Research task:** …, at the end
        rf"^(?:[^\S\n]|[>#*_•-])*(?:\w{{1,20}} ){{0,2}}(?:{_MARKS})[*_]*\s?(?:[:：]|$)[\s*_]*(?P<question>[^\s*_][^\n]*)\Z",
    )
)
_ELSEWHERE = re.compile(r"\b(?:above|below|following)\b", re.IGNORECASE)  # `Task: Answer the question above.`
_OBJECT = re.compile(r"(?:```\w*\s*)?(?P<object>\{.*\})(?:\s*```)?", re.DOTALL)
_EMPTY_LABEL = re.compile(
    r"\W*|\W*[^\W\d_]{2,20}(?: [^\W\d_]{2,20})?[*_]*[:：]\W*"
)  # `Answer:`, for a model to continue
_TAG = re.compile(r"^[^\S\n]*<[a-z][\w-]*>|</[a-z][\w-]*>[^\S\n]*$", re.IGNORECASE | re.MULTILINE)
_CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_DECORATION = re.compile(r"^(?:[\s>#*_•-]|\d{1,2}[.)]\s)+")  # Markdown at the beginning of a line
_LABEL = re.compile(r"[^\W\d_]{2,20}:[\s*_]+")  # `Task: `
_ENDS: Final = ".!?:;。！？：；"  # they end a sentence at the end of a line


def split_message(text: str) -> tuple[str, str | None]:
    """Return the question of a message, and the whole message if it is longer than a question."""
    message = text.strip()
    if len(message) <= LONG_MESSAGE_ABOVE_CHARS:
        return message, None
    return find_question(message), join_context(message)


def find_question(text: str) -> str:
    """Return the question in a long text, at most MAX_QUERY_CHARS characters.

    It is the text that is marked as the question, else the last question, else the last instruction, else the first line.
    """
    text = text.strip()
    if len(text) <= LONG_MESSAGE_ABOVE_CHARS:
        return text
    text = _find_marked_question(text) or text
    if len(text) > MAX_QUERY_CHARS:
        language = detect_language(text) or DEFAULT_LANGUAGE
        sentences = list(_sentences(text, language))
        text = (
            _find_last_question(sentences, language)
            or _find_last_instruction(sentences, language)
            or next(iter(sentences), text)
        )
    line = one_line(text)
    if len(line) <= MAX_QUERY_CHARS:
        return line
    head = line[:MAX_QUERY_CHARS]
    return head.rpartition(" ")[0] or head  # cut between words


SearchQuery = Annotated[LongQuery, AfterValidator(find_question)]  # the question in a long query


def join_context(message: str | None, other: str | None = None) -> str | None:
    """Return the `context` of a research run: `other`, then the message; None if both are empty.

    If the context would exceed MAX_CONTEXT_CHARS, its middle is cut out. The middle of `other` is cut first, because the user
    wrote the message.
    """
    own, before = (text.replace("\x00", "").strip() if text else "" for text in (message, other))
    if own and before:
        before = _cut_middle(before, max(len(MIDDLE_CUT), MAX_CONTEXT_CHARS - len(own) - len(PARAGRAPH)))
    return _cut_middle(PARAGRAPH.join(filter(None, (before, own))), MAX_CONTEXT_CHARS) or None


def is_excerpt(question: str, context: str) -> bool:
    """Return whether the context contains the question word for word. Line breaks and repeated spaces do not matter."""
    return one_line(question) in one_line(context)


def _find_marked_question(text: str) -> str | None:
    """Return the text that is marked as the question: by a key of a JSON object, else by a quotation, a tag or the last line.

    The last of several quotations, tags and lines counts. None if no marked text names something.
    """
    fields = _fields(text)
    marked = [fields[key] for key in _KEYS if isinstance(fields.get(key), str)]
    lines = _CODE.sub("\n\n", text).splitlines()
    while lines and _EMPTY_LABEL.fullmatch(lines[-1]):
        lines.pop()
    bare = "\n".join(lines)
    found = sorted(
        (match for form in _FORMS for match in form.finditer(bare)), key=lambda match: -match.start("question")
    )
    last_asked = max(map(bare.rfind, QUESTION_MARKS))  # a question after a quotation asks about the quotation
    marked += [match["question"] for match in found if match.end() > last_asked or "tag" in match.re.groupindex]
    named = (
        question for question in marked if has_content_words(question, detect_language(question) or DEFAULT_LANGUAGE)
    )
    return next((question.strip() for question in named if not _ELSEWHERE.search(question)), None)


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a message that is a JSON object."""
    wrapped = _OBJECT.fullmatch(text)
    try:
        value = json.loads(wrapped["object"], strict=False) if wrapped else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _find_last_question(sentences: list[str], language: str) -> str | None:
    """Return the last question that can be understood alone, else the last one that names something; None without one."""
    questions = [sentence for sentence in reversed(sentences) if is_question(sentence)][:MAX_WEIGHED]
    whole = [question for question in questions if not refers_to_thread(question, (), language)]
    tries = ((question, terms) for few in (whole, questions) for terms in NAMED_TERMS for question in few)
    return next((question for question, terms in tries if has_content_words(question, language, terms)), None)


def _find_last_instruction(sentences: list[str], language: str) -> str | None:
    begins = _instruction(get_primary_subtag(language))
    return next((sentence for sentence in reversed(sentences) if begins.match(sentence)), None)


@cache
def _instruction(primary: str) -> re.Pattern[str]:
    """Return a pattern of the words that instructions begin with in this language."""
    data = load_data("instructions").get(primary)
    if data is None:
        return re.compile(r"(?!)")
    end = "" if primary in {"zh", "ja"} else r"\b"
    return re.compile(
        rf"(?:{_LABEL.pattern})?(?:(?:{data['polite']}){end}[\s,，]*)?(?:{data['verbs']}){end}", re.IGNORECASE
    )


def _sentences(text: str, language: str) -> Iterator[str]:
    """Yield the sentences outside code, without tags and without the signs of a list or a heading before them."""
    for line in _lines(_TAG.sub("\n", _CODE.sub("\n\n", text))):
        for start, end in split_sentences(line, language):
            if end - start >= MIN_QUESTION_CHARS:
                yield line[start:end]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines, with the lines of a wrapped sentence joined. Takes linear time."""
    wrapped: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if wrapped and bare[:1].islower() and wrapped[-1][-1] not in _ENDS:
            wrapped.append(bare)
            continue
        if wrapped:
            yield " ".join(wrapped)
        begun = _DECORATION.sub("", bare)
        wrapped = [begun] if begun else []
    if wrapped:
        yield " ".join(wrapped)


def _cut_middle(text: str, max_chars: int) -> str:
    """Return the text, or its beginning and its end with a mark between them."""
    if len(text) <= max_chars:
        return text
    kept = max_chars - len(MIDDLE_CUT)
    end = kept // 2
    return f"{text[: kept - end]}{MIDDLE_CUT}{text[len(text) - end :]}"
