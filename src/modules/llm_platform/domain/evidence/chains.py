"""The sentences that together answer a question: one of a source, and one of another that has a name of the first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.evidence.statements import Statement, Statements

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


def find_best_chains(found: Statements, enough: float) -> list[Chain]:
    """Return the chains, best first. Where one sentence has all that is needed (`enough`), none of two is looked for."""
    quotable = [statement for statement in found.all if statement.candidate.has_usable_form]
    best = sorted(quotable, key=lambda statement: -statement.value)[:BEGINNINGS]
    chains = [Chain((statement,), statement.value, statement.value) for statement in best]
    if best and best[0].value >= enough:
        return chains
    names: list[
        list[str]
    ] = []  # folded, that the question lacks: the title of the source, and the names of the sentence
    for first in best:
        title = [first.title] if found.is_new(first.title) else []
        names.append([name.folded for name in (*title, *found.list_new_names(first)) if name.folded.strip()])
    with_name = _find_statements({name for of_first in names for name in of_first}, quotable)
    for first, of_first in zip(best, names, strict=True):
        chains += _find_links(first, of_first, found, with_name)
    return sorted(chains, key=lambda chain: -chain.value)


def _find_statements(names: set[str], statements: list[Statement]) -> dict[str, list[Statement]]:
    """Return the statements that have each name."""
    searched = {word for name in names for word in name.split()}
    with_word: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        for word in searched & statement.text_words:
            with_word[word].append(statement)
    rarest = {name: min((with_word[word] for word in name.split()), key=len) for name in names}
    return {name: [statement for statement in having if name in statement.text] for name, having in rarest.items()}


def _find_links(
    first: Statement, names: list[str], found: Statements, with_name: dict[str, list[Statement]]
) -> Iterator[Chain]:
    linked: dict[int, tuple[Statement, bool]] = {}
    for name in names:
        for second in with_name[name]:
            if second.candidate.rank != first.candidate.rank:
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
        coverage = found.measure_coverage(term_credits)
        if coverage > first.value:
            yield Chain((first, second), coverage, coverage + LINK_VALUE + TITLE_LINK_VALUE * in_title)


def list_best_statements(chains: list[Chain], limit: int) -> list[Statement]:
    """Return the sentences of the best chains, in order, quotable ones only."""
    chosen: list[Statement] = []
    of_a_source: Counter[int] = Counter()
    for chain in chains:
        for statement in chain.statements:
            if len(chosen) == limit:
                return chosen
            rank = statement.candidate.rank
            is_usable = (
                statement not in chosen and of_a_source[rank] < MAX_OF_A_SOURCE and statement.candidate.is_quotable
            )
            if is_usable:
                chosen.append(statement)
                of_a_source[rank] += 1
    return chosen
