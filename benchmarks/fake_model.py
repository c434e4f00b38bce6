"""What the fake model answers. It looks at the shape of the prompt alone, so that different pipelines get on with it."""

from __future__ import annotations

import functools
import json
import random
import re
from typing import NamedTuple

from benchmarks.fake_content import prose

CHARS_A_TOKEN = 4
ANSWER_TOKENS = 400
SUMMARY_TOKENS = 120
EDGE_CHARS = 3000  # an instruction is at the beginning or at the end of a prompt
TOPIC_WORDS = 8
ASPECTS = ("background", "results in practice", "limits")
SUB_QUESTION, QUERY = "ПОДЗАПРОС:", "ЗАПРОС:"  # the prefixes that answers bear their lines with

_ASKED = re.compile(
    r"^\W{0,4}(?:[\w -]{0,20}\b)?(?:question|query|topic)\s*:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE
)
_ROW = re.compile(r"\[\s*\[\s*1\s*,([^\[\]]{3,200})\]")
_OBJECT = re.compile(r"\[\s*\{([^{}]{5,900})\}")
_KEY = re.compile(r"\"([\w ]{1,40})\"\s*:")
_LISTED = re.compile(r"^(\d{1,2})\. (\S.*)$", re.MULTILINE)


class Said(NamedTuple):
    """An answer, and which stage asked for it."""

    kind: str
    text: str


@functools.lru_cache(4096)
def answer(prompt: str, cited: int = 5) -> Said:
    """`cited`: the sources that a text cites, in turn."""
    edge = prompt if len(prompt) <= 2 * EDGE_CHARS else f"{prompt[:EDGE_CHARS]}\n{prompt[-EDGE_CHARS:]}"
    topic = _topic(edge)
    if SUB_QUESTION in edge:
        return Said("plan", "\n".join(f"{SUB_QUESTION} {topic} {aspect}?" for aspect in ASPECTS))
    if QUERY in edge:
        return Said("queries", f"{QUERY} {topic} explained\n{QUERY} {topic} обзор")
    if "one per line" in edge:
        return Said("plan", "\n".join(f"Question: {topic} {aspect}" for aspect in ASPECTS))
    if row := _ROW.search(edge):
        return Said("rank", _rows(prompt, row[1].count(",") + 1))
    if example := _OBJECT.search(edge):
        return Said("rank", _objects(prompt, _KEY.findall(example[1])))
    if "summar" in (prompt[:600] + prompt[-600:]).lower() and "[1]" not in edge:
        return Said("summary", prose(topic, "summary", 40)[: SUMMARY_TOKENS * CHARS_A_TOKEN])
    return Said("answer", _cited(topic, cited))


def _topic(edge: str) -> str:
    asked = _ASKED.findall(edge) or edge.strip().splitlines()[-1:] or ["topic"]
    return " ".join(re.sub(r"[^\w -]+", " ", asked[-1]).split()[:TOPIC_WORDS])


def _listed(prompt: str) -> list[str]:
    return [title for _, title in _LISTED.findall(prompt)]


def _marks(title: str, count: int) -> list[int]:
    chance = random.Random(title)
    return [chance.randint(3, 10) for _ in range(count)]


def _rows(prompt: str, cells: int) -> str:
    """`[[1, "First words", 7, …], …]`: the beginning of the title, and a mark for each further cell of the example."""
    return json.dumps(
        [[n, " ".join(title.split()[:3]), *_marks(title, cells - 1)] for n, title in enumerate(_listed(prompt), 1)],
        ensure_ascii=False,
    )


def _objects(prompt: str, keys: list[str]) -> str:
    """Return one object for each result, under the keys of the example; the first key is the title's."""
    return json.dumps(
        [dict(zip(keys, [title, *_marks(title, len(keys) - 1)], strict=True)) for title in _listed(prompt)],
        ensure_ascii=False,
    )


def _cited(topic: str, cited: int) -> str:
    """Sections of six sentences, each sentence with a marker."""
    parts = [f"## Part {part}\n\n{prose(topic, f'answer {part}', 6, cited, 6 * part)}" for part in range(1, 5)]
    return "\n\n".join(parts)[: ANSWER_TOKENS * CHARS_A_TOKEN]
