"""Make claims from the questions of SQuAD 1.1: a question with its answer in it, as a statement.

    python -m scripts.support_model.squad_claims train-v1.1.json OUT.jsonl

OUT has rows like the written passages: `source`, and `claims` with their labels. People wrote the questions in words of their
own, so a true claim is a paraphrase. A wrong one has the answer to another question about the same paragraph, of the same kind,
or is paired with the paragraph without the sentence that answers. Only questions that keep the order of their words are used:
"Who led the siege?" becomes "Godfrey led the siege".
"""

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.support_model.squad import Asked, list_asked, remove_answer

PARAGRAPHS: Final = 30  # of an article
CLAIMS: Final = 3  # of each label, about one paragraph
WITHOUT_SENTENCE: Final = 0.3  # share of the true claims that stand again beside the paragraph without the sentence
MIN_CLAIM_WORDS, MAX_CLAIM_WORDS = 5, 30
MAX_ANSWER_WORDS: Final = 8
AUXILIARIES: Final = frozenset(
    (
        "is", "are", "was", "were", "did", "do", "does", "has", "have", "had", "can", "could", "will", "would", "should", "may",
        "might", "must",
    )
)  # fmt: skip
PREPOSITIONS: Final = frozenset(
    (
        "in",
        "on",
        "at",
        "by",
        "during",
        "since",
        "from",
        "after",
        "before",
        "around",
        "until",
        "near",
        "between",
        "about",
    )
)
# A question that ends with one of these asks for what follows it.
LEFT_OPEN: Final = PREPOSITIONS | {
    "of", "to", "for", "with", "as", "into", "through", "over", "under", "called", "named", "known", "than",
}  # fmt: skip
HAPPENED: Final = (
    "caused|led|happened|made|allows?|allowed|became|began|causes|helped|inspired|means|prevented|replaced|followed"
)
SUBJECT: Final = re.compile(rf"(?:who (?P<did>[a-z]+)|what (?P<happened>{HAPPENED})) (?P<rest>.+)", re.I)
COUNTED: Final = re.compile(
    r"how many (?P<noun>(?:[a-z'-]+ ){1,3})(?P<verb>are|were|have|had|lived?|attended|died|participated|took|makes?|made|"
    r"work(?:ed)?|served|belong(?:ed)?|exist(?:ed)?|remain(?:ed)?|voted|speak|spoke) (?P<rest>.+)",
    re.I,
)
NAMED: Final = re.compile(
    r"(?:what|who) (?P<be>is|are|was|were) (?P<rest>(?:the|an?|one|another|his|her|its|their) .+)", re.I
)
DATED: Final = re.compile(
    r"(?:when|where|(?:in|on|at|during) (?:what|which) (?:[a-z]+ )?[a-z]+) (?P<be>is|are|was|were) (?P<subject>.+?) "
    r"(?P<done>[a-z]+ed|born|built|made|founded|held|won|sold|known|written|begun|found|given|taken|spoken|sent|set|lost)"
    r"(?P<rest>(?: \S+){0,5})",
    re.I,
)
QUANTITY: Final = re.compile(
    r"(?:(?:about|over|nearly|around|more than|almost) )?[\w,.]+(?: (?:million|billion|thousand|hundred))?"
)
PARTICIPLE: Final = re.compile(r"(?:ed|en)$")
YEAR: Final = re.compile(r"\b1\d{3}\b|\b20\d\d\b")
SMALL_WORDS: Final = frozenset(("of", "the", "and", "de", "von"))


def state(question: str, answer: str, before: str) -> str | None:
    """Return a question with an answer as a statement, None if its words would have to change.

    `before` is the word before the answer in its sentence.
    """
    asked, said = question.rstrip("? ."), answer.strip(" .,;")
    if not asked or not said or asked.split()[-1].lower() in LEFT_OPEN:
        return None
    if found := COUNTED.fullmatch(asked):
        return f"{said} {found['noun']}{found['verb']} {found['rest']}" if QUANTITY.fullmatch(said) else None
    if found := DATED.fullmatch(asked):
        where = said if said.split()[0].lower() in PREPOSITIONS else f"{before} {said}"
        stated = f"{found['subject']} {found['be']} {found['done']}{found['rest']} {where}"
        return stated if where.split()[0].lower() in PREPOSITIONS else None
    if found := NAMED.fullmatch(asked):
        return None if PARTICIPLE.search(asked) else f"{found['rest']} {found['be']} {said}"
    found = SUBJECT.fullmatch(asked)
    verb = (found["did"] or found["happened"]) if found else ""
    if found and not AUXILIARIES & {verb.lower(), *found["rest"].lower().split()[:5]}:
        return f"{said} {verb} {found['rest']}"
    return None


def make_claim(asked: Asked, answer: str, before: str) -> str | None:
    words = (state(asked.text, answer, before) or "").split()
    if not MIN_CLAIM_WORDS <= len(words) <= MAX_CLAIM_WORDS:
        return None
    joined = " ".join(words)
    return f"{joined[0].upper()}{joined[1:]}."


def tell_kind(answer: str) -> str:
    """Return what an answer looks like, so that a wrong one can take its place."""
    words = answer.split()
    if YEAR.search(answer):
        return "date"
    if re.search(r"\d", answer):
        return "number"
    if all(word[:1].isupper() or word in SMALL_WORDS for word in words):
        return "name"
    return f"{min(len(words), 4)} words"


def is_other(other: Asked, asked: Asked) -> bool:
    """Return whether the answer of another question can take the place of an answer, and is wrong there."""
    one, two = other.answer.lower(), asked.answer.lower()
    is_part = one in two or two in one or one in asked.text.lower()
    return not is_part and tell_kind(other.answer) == tell_kind(asked.answer)


def get_word_before(asked: Asked) -> str:
    return (asked.sentence.partition(asked.answer)[0].split() or [""])[-1].lower()


def list_rows(paragraph: dict[str, Any], drawn: random.Random) -> Iterator[dict[str, Any]]:
    told = [one for one in list_asked(paragraph) if len(one.answer.split()) <= MAX_ANSWER_WORDS]
    drawn.shuffle(told)
    true: list[str] = []
    wrong: list[str] = []
    for asked in told:
        claim = make_claim(asked, asked.answer, get_word_before(asked))
        if claim is None or len(true) == CLAIMS:
            continue
        true.append(claim)
        others = [one for one in told if is_other(one, asked)]
        other = drawn.choice(others) if others else None
        if other and (changed := make_claim(asked, other.answer, get_word_before(other))):
            wrong.append(changed)
        if (without := remove_answer(asked)) and drawn.random() < WITHOUT_SENTENCE:
            yield {"source": without, "claims": label([claim], "unsupported")}
    if true:
        yield {"source": paragraph["context"], "claims": label(true, "supported") + label(wrong, "unsupported")}


def label(claims: Sequence[str], name: str) -> list[dict[str, str]]:
    return [{"claim": claim, "label": name} for claim in claims]


def read_rows(path: Path, seed: int = 9) -> Iterator[dict[str, Any]]:
    drawn = random.Random(seed)
    articles: Sequence[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["data"]
    for article in articles:
        paragraphs = article["paragraphs"]
        for paragraph in drawn.sample(paragraphs, min(PARAGRAPHS, len(paragraphs))):
            for row in list_rows(paragraph, drawn):
                yield {"title": article["title"].replace("_", " "), **row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad", type=Path)
    parser.add_argument("out", type=Path)
    a = parser.parse_args()
    with a.out.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in read_rows(a.squad))


if __name__ == "__main__":
    main()
