"""Add to a quoted proposal what was decided: "Ann proposed to raise the fee to £45. The meeting agreed on £42."

The proposal has the words of a question about the fee, and the decision does not.
"""

from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.text.statements import compile_phrases

SENTENCES_AFTER: Final = 2  # a decision is at most this many sentences after its proposal


def add_decisions(chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the chosen sentences, each proposal followed by the sentence of its section that says what became of it."""
    found: list[Candidate] = []
    for one in chosen:
        decision = _find_decision(one, candidates)
        found += [one, decision] if decision is not None and decision not in chosen else [one]
    return found


def _find_decision(proposal: Candidate, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the first sentence after a proposal that decides on it; None if the sentence is no proposal, or decides itself."""
    asks = compile_phrases(proposal.found_in.language, "requests").search(proposal.sentence.text.lower()) is not None
    if not asks or _decides(proposal):
        return None
    first = proposal.sentence.position
    after = [
        one
        for one in candidates
        if one.source_rank == proposal.source_rank
        and one.sentence.heading == proposal.sentence.heading
        and one.sentence.position > first
    ]
    following = sorted(after, key=lambda one: one.sentence.position)[:SENTENCES_AFTER]
    return next((one for one in following if one.is_quotable and _decides(one)), None)


def _decides(candidate: Candidate) -> bool:
    decisions = compile_phrases(candidate.found_in.language, "acceptances", "rejections")
    return decisions.search(candidate.sentence.text.lower()) is not None
