"""Find the sentences that answer a question: one sentence, or two of different sources that share a name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from modules.llm_platform.domain.evidence.statements import Statement, Statements

BEGINNINGS = 40  # only the best sentences begin a chain
LINK_VALUE = 0.05  # added to a chain of two sentences that share a name
TITLE_LINK_VALUE = 0.2  # also added if the title of the second sentence begins with this name
MAX_OF_A_SOURCE = 2  # chosen sentences


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One sentence, or two sentences linked by a name.

    - `coverage` is the share of the question's words that the sentences have, by weight.
    - `value` ranks the chains: the coverage, and more for a link.
    """

    statements: tuple[Statement, ...]
    coverage: float
    value: float


def find_best_chains(found: Statements, enough: float) -> list[Chain]:
    """Return the chains, best first. If one sentence has a coverage of at least `enough`, there are no chains of two."""
    quotable = [statement for statement in found.all if statement.candidate.has_usable_form]
    best = sorted(quotable, key=lambda statement: -statement.value)[:BEGINNINGS]
    chains = [Chain((statement,), statement.value, statement.value) for statement in best]
    if best and best[0].value >= enough:
        return chains
    names = [_list_linking_names(first, found) for first in best]
    with_name = _find_statements({name for of_first in names for name in of_first}, quotable)
    for first, of_first in zip(best, names, strict=True):
        chains += _find_links(first, of_first, found, with_name)
    return sorted(chains, key=lambda chain: -chain.value)


def _list_linking_names(first: Statement, found: Statements) -> list[str]:
    """Return the folded names that a sentence and the title of its source add to the question."""
    title = [first.title] if found.is_new(first.title) else []
    return [name.folded for name in (*title, *found.list_new_names(first)) if name.folded.strip()]


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
    """Yield the chains of a sentence and a sentence of another source that has one of the names and more of the question."""
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
    """Return the quotable sentences of the best chains, in the order of the chains."""
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
