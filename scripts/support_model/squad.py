"""Read the questions of SQuAD 1.1, which people asked about paragraphs of Wikipedia (Rajpurkar and others, 2016, CC BY-SA 4.0).

A question is kept if only one sentence of its paragraph has the answer. The other paragraphs of its group lack it, too, so no
sentence that answers is labelled as wrong. For some of the questions, that sentence or the paragraph is removed.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from modules.llm_platform.domain.text.sentences import split_sentences

PARAGRAPHS: Final = 12  # of an article
QUESTIONS: Final = 32  # of an article
OTHERS: Final = 9  # paragraphs of the article that are read with the one of the question
NO_SENTENCE: Final = 0.25  # share of the questions without the sentence that answers
NO_PARAGRAPH: Final = 0.12  # share of the questions without its paragraph
MIN_ANSWER_CHARS: Final = 2
TITLED: Final = 0.6


@dataclass(frozen=True)
class SquadQuestion:
    """A question with paragraphs, each with a title. Its own is the first one, and empty if it was removed.

    `answer` is the sentence that answers, empty if there is none.
    """

    text: str
    paragraphs: Sequence[tuple[str, str]]
    answer: str


@dataclass(frozen=True)
class Asked:
    """A question with its paragraph, its answer, and the sentence that has the answer."""

    text: str
    paragraph: str
    answer: str
    sentence: str


def read_squad(path: Path, seed: int = 5) -> Iterator[SquadQuestion]:
    drawn = random.Random(seed)
    articles: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["data"]
    for article in articles:
        title = article["title"].replace("_", " ") if drawn.random() < TITLED else ""
        paragraphs = drawn.sample(article["paragraphs"], min(PARAGRAPHS, len(article["paragraphs"])))
        asked = [one for paragraph in paragraphs for one in list_asked(paragraph)]
        for one in drawn.sample(asked, min(QUESTIONS, len(asked))):
            others = [paragraph["context"] for paragraph in paragraphs if lacks(paragraph["context"], one)][:OTHERS]
            texts, answer = take_away(one, others, drawn)
            yield SquadQuestion(one.text, [(title, text) for text in texts], answer)


def list_asked(paragraph: dict[str, Any]) -> list[Asked]:
    """Return the questions about a paragraph whose answer is in one of its sentences only."""
    text: str = paragraph["context"]
    spans = split_sentences(text)
    found = []
    for told in paragraph["qas"]:
        answer, start = told["answers"][0]["text"].strip(), told["answers"][0]["answer_start"]
        around = [text[first:last].strip() for first, last in spans if first <= start < last]
        with_it = [1 for first, last in spans if answer.lower() in text[first:last].lower()]
        if len(answer) >= MIN_ANSWER_CHARS and around and len(with_it) == 1:
            found.append(Asked(" ".join(told["question"].split()), text, answer, around[0]))
    return found


def lacks(text: str, asked: Asked) -> bool:
    return text != asked.paragraph and asked.answer.lower() not in text.lower()


def take_away(asked: Asked, others: Sequence[str], drawn: random.Random) -> tuple[list[str], str]:
    """Return the paragraphs to read and the sentence in them that answers, which is empty if it was taken away."""
    kind = drawn.random()
    if kind < NO_SENTENCE:
        return [remove_answer(asked), *others], ""
    if kind < NO_SENTENCE + NO_PARAGRAPH:
        return ["", *others], ""
    return [asked.paragraph, *others], asked.sentence


def remove_answer(asked: Asked) -> str:
    """Return the paragraph without the sentence that answers."""
    return " ".join(asked.paragraph.replace(asked.sentence, " ").split())
