"""Add to a quoted proposal what was decided: "Ann proposed to raise the fee to £45. The meeting agreed on £42."

The proposal has the words of a question about the fee, and the decision does not.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE

SENTENCES_AFTER: Final = 2  # a decision is looked for in so many sentences after the proposal


def add_decisions(chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the chosen sentences, each proposal followed by the sentence of its section that says what became of it."""
    found: list[Candidate] = []
    for one in chosen:
        decision = _find_decision(one, candidates)
        found += [one, decision] if decision is not None and decision not in chosen else [one]
    return found


def _find_decision(proposal: Candidate, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the first sentence after a proposal that decides on it; None if the sentence is no proposal, or decides itself."""
    language, text = proposal.found_in.language, proposal.sentence.text.casefold()
    if not _load_phrases(language, "requests").search(text) or _load_phrases(language, "decisions").search(text):
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
    text = candidate.sentence.text.casefold()
    return _load_phrases(candidate.found_in.language, "decisions").search(text) is not None


@cache
def _load_phrases(language: str | None, kind: str) -> re.Pattern[str]:
    data = load_data("unasserted")
    parts = ("acceptances", "rejections") if kind == "decisions" else (kind,)
    phrases = "|".join(data[part].get(language or DEFAULT_LANGUAGE, data[part][DEFAULT_LANGUAGE]) for part in parts)
    return re.compile(rf"\b(?:{phrases})\b")
