"""The sentences that together answer a question: one of a source, and one of another that has a name of the first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.evidence.statements import Statement, Statements
from modules.llm_platform.domain.text.tokens import normalize

BEGINNINGS = 40  # best sentences from which a chain may begin
LINK_VALUE = 0.05  # two sentences that share a name
TITLE_LINK_VALUE = 0.2  # the name of the first is the title of the second
MAX_OF_A_SOURCE = 2  # sentences


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One sentence, or two that a name links, in this order; `coverage` is the share of the question's words they have."""

    statements: tuple[Statement, ...]
    coverage: float
    value: float


def best_chains(found: Statements, enough: float) -> list[Chain]:
    """Return the chains, best first. Where one sentence has all that is needed (`enough`), none of two is looked for."""
    quotable = [statement for statement in found.all if statement.candidate.fit]
    best = sorted(quotable, key=lambda statement: -statement.value)[:BEGINNINGS]
    chains = [Chain((statement,), statement.value, statement.value) for statement in best]
    if best and best[0].value >= enough:
        return chains
    with_word: dict[str, list[Statement]] = defaultdict(list)
    for statement in quotable:
        for word in set(statement.text.split()):
            with_word[word].append(statement)
    for first in best:
        chains += _links(first, found, with_word)
    return sorted(chains, key=lambda chain: -chain.value)


def _links(first: Statement, found: Statements, with_word: dict[str, list[Statement]]) -> Iterator[Chain]:
    title = first.candidate.source.title
    names = [normalize(name) for name in ([title] if found.is_new(title) else []) + found.names(first)]
    linked: dict[int, tuple[Statement, bool]] = {}
    for name in filter(str.strip, names):
        for second in with_word.get(min(name.split(), key=lambda word: len(with_word.get(word, ()))), ()):
            if second.candidate.rank != first.candidate.rank and name in second.text:
                in_title = second.title.startswith(name)
                linked[id(second)] = (second, in_title or linked.get(id(second), (second, False))[1])
    for second, in_title in linked.values():
        met = dict(first.candidate.met)
        for number, credit in second.candidate.met.items():
            met[number] = max(met.get(number, 0.0), credit)
        coverage = found.coverage(met)
        if coverage > first.value:
            yield Chain((first, second), coverage, coverage + LINK_VALUE + TITLE_LINK_VALUE * in_title)


def best_statements(chains: list[Chain], limit: int) -> list[Statement]:
    """Return the sentences of the best chains, in order, quotable ones only."""
    chosen: list[Statement] = []
    of_a_source: Counter[int] = Counter()
    for chain in chains:
        for statement in chain.statements:
            if len(chosen) == limit:
                return chosen
            rank = statement.candidate.rank
            is_usable = statement not in chosen and of_a_source[rank] < MAX_OF_A_SOURCE and statement.candidate.is_quotable
            if is_usable:
                chosen.append(statement)
                of_a_source[rank] += 1
    return chosen
