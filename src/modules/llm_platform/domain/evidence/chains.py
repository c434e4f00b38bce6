"""Find the sentences that answer a question: one sentence, or two of different sources that share a name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.evidence.sentence_matches import MatchedSentence, SentenceMatches

MAX_FIRST_SENTENCES = 40  # only the best sentences begin a chain
LINK_VALUE = 0.05  # added to the value of a chain of two sentences that share a name
TITLE_LINK_VALUE = 0.2  # added too if the title of the second sentence begins with this name
MAX_SENTENCES_PER_SOURCE = 2  # chosen sentences


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One sentence, or two sentences linked by a name.

    - `coverage` is the share of the question's words that the sentences have, by weight.
    - `value` ranks the chains: the coverage, plus a bonus for a link.
    """

    sentences: tuple[MatchedSentence, ...]
    coverage: float
    value: float


def find_best_chains(matches: SentenceMatches, enough: float) -> list[Chain]:
    """Return the chains, best first. If one sentence has a coverage of at least `enough`, there are no chains of two."""
    quotable = [sentence for sentence in matches.all if sentence.candidate.has_usable_form]
    best = sorted(quotable, key=lambda sentence: -sentence.value)[:MAX_FIRST_SENTENCES]
    chains = [Chain((sentence,), sentence.value, sentence.value) for sentence in best]
    if best and best[0].value >= enough:
        return chains
    names = [_list_linking_names(first, matches) for first in best]
    with_name = _find_sentences_by_name({name for of_first in names for name in of_first}, quotable)
    for first, of_first in zip(best, names, strict=True):
        chains += _find_links(first, of_first, matches, with_name)
    return sorted(chains, key=lambda chain: -chain.value)


def _list_linking_names(first: MatchedSentence, matches: SentenceMatches) -> list[str]:
    """Return the folded names that a sentence and the title of its source add to the question."""
    title = [first.title] if matches.is_new(first.title) else []
    return [name.folded for name in (*title, *matches.list_new_names(first)) if name.folded.strip()]


def _find_sentences_by_name(names: set[str], sentences: list[MatchedSentence]) -> dict[str, list[MatchedSentence]]:
    """Return the sentences that have each name."""
    searched = {word for name in names for word in name.split()}
    with_word: dict[str, list[MatchedSentence]] = defaultdict(list)
    for sentence in sentences:
        for word in searched & sentence.text_words:
            with_word[word].append(sentence)
    rarest = {name: min((with_word[word] for word in name.split()), key=len) for name in names}
    return {name: [sentence for sentence in having if name in sentence.text] for name, having in rarest.items()}


def _find_links(
    first: MatchedSentence, names: list[str], matches: SentenceMatches, with_name: dict[str, list[MatchedSentence]]
) -> Iterator[Chain]:
    """Yield the chains of a sentence and a sentence of another source that has one of the names and more of the question."""
    linked: dict[int, tuple[MatchedSentence, bool]] = {}
    for name in names:
        for second in with_name[name]:
            if second.candidate.source_rank != first.candidate.source_rank:
                in_title = second.title.folded.startswith(name)
                linked[id(second)] = (second, in_title or linked.get(id(second), (second, False))[1])
    for second, in_title in linked.values():
        term_credits = dict(first.candidate.credits)
        gained = [
            (number, credit)
            for number, credit in second.candidate.credits.items()
            if credit > term_credits.get(number, 0.0)
        ]
        if not gained:
            continue
        term_credits.update(gained)
        coverage = matches.measure_coverage(term_credits)
        if coverage > first.value:
            yield Chain((first, second), coverage, coverage + LINK_VALUE + TITLE_LINK_VALUE * in_title)


def list_best_sentences(chains: list[Chain], limit: int) -> list[MatchedSentence]:
    """Return the quotable sentences of the best chains, in the order of the chains."""
    chosen: list[MatchedSentence] = []
    of_a_source: Counter[int] = Counter()
    for chain in chains:
        for sentence in chain.sentences:
            if len(chosen) == limit:
                return chosen
            source_rank = sentence.candidate.source_rank
            is_usable = (
                sentence not in chosen
                and of_a_source[source_rank] < MAX_SENTENCES_PER_SOURCE
                and sentence.candidate.is_quotable
            )
            if is_usable:
                chosen.append(sentence)
                of_a_source[source_rank] += 1
    return chosen
