"""Questions and queries out of a model's answer, whatever list it makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from modules.llm_platform.application.research.model_output.cleaning import strip_reasoning, visible
from modules.llm_platform.application.research.model_output.json import MAX_DEPTH, read_values

# The words that models put before, beside and instead of questions, in the languages they answer in; all in small
# letters.


def _phrases(*lines: str) -> frozenset[str]:
    return frozenset(phrase for line in lines for phrase in line.split("|"))


# Before a question, `Question 1:`, and as the key of one.
LABELS: Final = _phrases(
    "question|sub-question|subquestion|sub question|query|sub-query|subquery|sub query|search|search query|topic|subtopic",
    "запрос|подзапрос|поисковый запрос|вопрос|подвопрос|тема|подтема",
    "frage|unterfrage|teilfrage|anfrage|suchanfrage|suche|suchbegriff",
    "sous-question|requête|recherche|sous-requête",
    "pregunta|subpregunta|consulta|búsqueda|subconsulta",
    "domanda|sottodomanda|ricerca|pergunta|subpergunta|pesquisa|vraag|deelvraag|zoekopdracht|zoekvraag",
    "pytanie|podpytanie|zapytanie|питання|підпитання|запит|підзапит|soru|alt soru|sorgu|arama",
    "问题|子问题|查询|子查询|搜索|搜索查询|質問|サブ質問|検索|クエリ|질문|하위 질문|검색|검색어|سؤال|استعلام|प्रश्न|खोज",
)
# As the key of several, or of one where there is no label.
KEYS: Final = LABELS | _phrases(
    "questions|sub-questions|subquestions|sub questions|queries|sub-queries|subqueries|sub queries|searches|search queries",
    "topics|subtopics|plan|items|list|results|q|text|title|запросы|подзапросы|поисковые запросы|вопросы|подвопросы|темы",
    "план|текст|fragen|unterfragen|teilfragen|suchanfragen|requêtes|sous-questions|preguntas|consultas|domande|perguntas",
    "vragen|pytania|zapytania|питання|запити|问题列表|查询列表",
)
# As the key of what is not a question.
BESIDE: Final = _phrases(
    "id|n|no|index|number|lang|language|type|status|reason|reasoning|goal|why|rationale|explanation|purpose|note|notes",
    "comment|comments|aspect|thought|thoughts|номер|язык|тип|цель|причина|пояснение|комментарий|аспект|обоснование",
)
# Instead of a question.
NOTHING: Final = LABELS | _phrases(
    "none|null|nil|n/a|nan|undefined|true|false|ok|нет|ничего|keine|keiner|aucun|aucune|ninguna|ninguno|nada|nessuna|无"
)
REFUSALS: Final = (
    *("sorry", "i'm sorry", "i am sorry", "i cannot", "i can not", "i can't", "i am unable", "i won't", "as an ai"),
    *("unfortunately", "извините", "простите", "к сожалению", "я не могу", "не могу", "es tut mir leid", "leider"),
    *("ich kann nicht", "désolé", "je ne peux", "lo siento", "no puedo", "mi dispiace", "desculpe", "抱歉", "对不起"),
    *("申し訳", "죄송"),
)


MAX_ITEMS: Final = 50
MAX_LINES: Final = 2000
MAX_ITEM_CHARS: Final = 2000  # of a line, and of an item; a longer one is repetition
MAX_PAIRS: Final = 4  # of quotes and emphasis around an item

_PREFIX = re.compile(
    r"(?:\(?\d{1,3}[.):]|[^\w\[{(]){0,12}+(?P<label>[^\W\d_][^\d:：]{0,24}?)\s{0,3}(?:[#№]?\s?\d{1,3})?[.)]?"
    r"[*_]{0,3}\s{0,3}[:：][*_]{0,3}\s{0,9}"
)
_BULLET = re.compile(
    r"\s{0,40}(?:[-*•–—·▪◦‣+]\s+|[*_]{0,2}\(?(?:\d{1,2}[.):]|[A-Za-zА-яа-я]\))[*_]{0,2}\s+|\d{1,2}、\s*|[①-⑳]\s*)"
)
_HEADING = re.compile(r".*[:：]\W{0,6}|#{1,6}\s.*|[`~]{3,}.*|\W*")
_KEY_NUMBER = "0123456789 _"
_JSON_BEGINS = r"[\[{［](?=\s*(?:[\[{(\]}\"'“«`/#]|[\w -]{1,40}[:：])|[^\]\n]{0,300}+\]\s*$)"
_IS_JSON = re.compile(_JSON_BEGINS, re.M)
_HAS_JSON = re.compile(rf"(?:^|[:：])[^\S\n]{{0,80}}{_JSON_BEGINS}", re.M)
_PAIRS: Final = ('""', "''", "“”", "„“", "«»", "‘’", "``", "**", "<>")
_ENDS = ".!?:： "
_LOOSE = " \t\r\n,;"


def read_strings(text: str, *, plain: bool = True) -> list[str]:
    """The items of a plan or of queries in order, tidied, at most `MAX_ITEMS`; a refusal or `None` gives none.

    Taken from the first of these that gives any: lines with a prefix (unless the answer begins as JSON), a JSON list or
    objects, numbered or bulleted lines, plain lines. An item that comes twice is given twice. `plain` False leaves the last
    kind out: such a line may be anything, `Let me think`, and whether it is an item the caller can tell by its words.
    """
    body = strip_reasoning(text)
    lines = [line for raw in body.splitlines()[:MAX_LINES] if (line := raw[:MAX_ITEM_CHARS].strip())]
    is_json = _IS_JSON.match(body) is not None
    found = [] if is_json else _prefixed(lines)
    found = found or (_listed(body) if is_json or _HAS_JSON.search(body) else [])
    found = found or [_BULLET.sub("", line, count=1) for line in lines if _BULLET.match(line)]
    if plain and not found and not is_json:
        found = [line for line in lines if not _HEADING.fullmatch(line) and not _is_refusal(line)]
    return list(_usable(found))


def read_line(line: str) -> str | None:
    """The item of one streamed line if it bears one prefix, else None; a line with more of them is read with the others."""
    line = strip_reasoning(line[:MAX_ITEM_CHARS])
    pieces = _after_prefix(line)
    return next(_usable(pieces), None) if len(pieces) == 1 else None


def _is_refusal(line: str) -> bool:
    return line.lower().replace("’", "'").lstrip("\"'«“* ").startswith(REFUSALS)


def _prefixed(lines: list[str]) -> list[str]:
    """What follows the prefixes; a prefix that stands alone is that of the next line."""
    items: list[str] = []
    awaited = False
    for line in lines:
        pieces = _after_prefix(line)
        if pieces:
            items += pieces
            awaited = not any(piece.strip(_LOOSE) for piece in pieces)
        elif awaited:
            items += [] if _BULLET.match(line) else [line]
            awaited = False
    return [item for item in items if item.strip(_LOOSE)]


def _after_prefix(line: str) -> list[str]:
    """The items of a line that bears a prefix: a model may write all of them in one line, each with its prefix."""
    first = _prefix_of(line)
    return _again(first["label"]).split(line[first.end() :]) if first else []


def _prefix_of(line: str) -> re.Match[str] | None:
    found = _PREFIX.match(line)
    return found if found and found["label"].strip(" *_").lower() in LABELS else None


@lru_cache(maxsize=64)
def _again(label: str) -> re.Pattern[str]:
    """The same prefix later in the line, written as it was the first time."""
    return re.compile(rf"[\s*_]{re.escape(label)}(?:\s?[#№]?\d{{1,3}})?[*_]{{0,3}}\s?[:：]")


def _listed(body: str) -> list[str]:
    return [string for value in read_values(body, cut=True) for string in _strings_in(value, 0)]


def _strings_in(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:MAX_ITEM_CHARS]
    elif depth > MAX_DEPTH:
        return
    elif isinstance(value, list):
        for item in value:
            yield from _strings_in(item, depth + 1)
    elif isinstance(value, dict):
        for inner in _asked(value):
            yield from _strings_in(inner, depth + 1)


def _asked(pairs: dict[str, object]) -> list[object]:
    """The values under keys that name questions, lists before single ones (`{"query": ..., "sub_questions": [...]}`)."""
    named = [value for key, value in pairs.items() if _name(key) in KEYS]
    lists: list[object] = [value for value in named if isinstance(value, dict | list)]
    return lists or named or [value for key, value in pairs.items() if _name(key) not in BESIDE]


def _name(key: str) -> str:
    return key.lower().replace("_", " ").rstrip(_KEY_NUMBER).strip()


def _usable(found: Iterable[str]) -> Iterator[str]:
    kept = 0
    for item in found:
        tidied = _tidy(item)
        if tidied and tidied.lower().rstrip(_ENDS) not in NOTHING:
            kept += 1
            yield tidied
        if kept == MAX_ITEMS:
            return


def _tidy(item: str) -> str:
    """Without bullet, prefix, and the quotes or emphasis around the whole; those within it stay."""
    item = _BULLET.sub("", visible(item).strip(), count=1)
    prefix = _prefix_of(item)
    item = (item[prefix.end() :] if prefix else item).strip(_LOOSE)
    for _ in range(MAX_PAIRS):
        if len(item) > 1 and item[0] + item[-1] in _PAIRS:
            item = item[1:-1].strip(_LOOSE)
    for quote in '"“”«»`':
        if item.count(quote) == 1 and (item.startswith(quote) or item.endswith(quote)):  # its partner was cut off
            item = item.strip(quote).strip(_LOOSE)
    return item
