"""Choose the sentences of a long source that a claim is compared with, as the checker's alignment would."""

import collections
import math
import re

from scripts.support_model.texts import split_sentences

PASSAGE_WORDS = 64


def list_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def choose_passage(claim: str, source: str, limit: int = PASSAGE_WORDS) -> str:
    """The sentences that share the rarest words with the claim, in their order, up to `limit` words."""
    if len(source.split()) <= limit:
        return " ".join(source.split())
    sentences = [s for line in source.splitlines() for s in split_sentences(line)]
    bags = [set(list_words(sentence)) for sentence in sentences]
    frequency = collections.Counter(word for bag in bags for word in bag)
    claimed = set(list_words(claim))
    worth = [
        sum(math.log(1 + len(bags) / frequency[word]) for word in sorted(claimed & bag)) / (1 + len(bag)) ** 0.25
        for bag in bags
    ]
    chosen: set[int] = set()
    used = 0
    for at in sorted(range(len(bags)), key=lambda at: -worth[at]):
        length = len(sentences[at].split())
        if chosen and used + length > limit:
            break
        chosen.add(at)
        used += length
    return " ".join(" ".join(sentences[at].split()[:limit]) for at in sorted(chosen))
