"""A report without a model: for each question the passages of the pages that answer it, verbatim, under its heading."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.foreign_text import one_line
from modules.llm_platform.domain.language import detect
from modules.llm_platform.domain.own_words import OwnWords
from modules.llm_platform.domain.quoting.candidates import Candidate
from modules.llm_platform.domain.quoting.passages import MAX_PASSAGES, Conflict, Passage, Search, Taken
from modules.llm_platform.domain.quoting.question import Question, read_question
from modules.llm_platform.domain.quoting.sentences import blocks_of
from modules.llm_platform.domain.quoting.setting import set_conflict, set_passage
from modules.llm_platform.domain.text import count_tokens

OPENING_PASSAGES = 2
OPENING_SENTENCES = 2  # of a passage
OPENING_SHARE = 0.25  # of the tokens
MIN_SECTION_TOKENS = 120  # a section is given this much even where the questions are many
LATIN_ONLY_BELOW = 0.02  # of the letters: a source with fewer of another script is not written in it
LOOKED_AT_CHARS = 3000  # of each source, to tell its script

_OTHER_LETTER = re.compile(r"[\u0370-\u03ff\u0400-\u1fff\u2e80-\ud7af]")
_PLACEHOLDER = re.compile(r"<[\w][\w .:/|@-]{0,60}>")
_ASKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class Answered:
    """The passages for one question, best source first, and two sentences of it that contradict each other."""

    passages: tuple[Passage, ...]
    conflict: Conflict | None


def write_report(
    question: str, questions: Sequence[str], sources: Sequence[Source], language: str, own: OwnWords, max_tokens: int
) -> str:
    """Introduction, a section for each question, what could not be found; empty when no question is answered."""
    texts = [blocks_of(source.text) for source in sources]
    latin = _in_latin_letters(sources)

    def search(text: str) -> Search:
        read = read_question(text, detect(text) or language)
        return Search(_in_reach(read) if latin else read, sources, texts)

    whole, parts = search(question), [search(each) for each in questions]
    opening, sections = _answers(whole, parts)
    if not any(sections):
        return ""
    return _set(opening, list(zip(map(one_line, questions), sections, strict=True)), own, max_tokens)


def _answers(whole: Search, parts: Sequence[Search]) -> tuple[Answered, list[Answered | None]]:
    """What opens the report, and what answers each question, None where nothing does.

    Each question first gets the passage that answers it best, then the opening its few, then the questions further ones in
    turns: none takes away what another needs more. What was answered elsewhere has an answer without passages.
    """
    taken = Taken()
    answered = [part.is_answered() for part in parts]
    asked = [part for part, is_answered in zip(parts, answered, strict=True) if is_answered]
    conflicts = {id(part): part.conflict(taken) for part in asked}
    waiting = {id(part): part.passages(taken) for part in asked}
    chosen: dict[int, list[Sequence[Candidate]]] = {id(part): [] for part in asked}
    opening: list[Sequence[Candidate]] = []
    for turn in range(MAX_PASSAGES):
        for part in asked:
            chosen[id(part)] += itertools.islice(waiting[id(part)], 1)
        if not turn and whole.is_answered():
            opening += whole.passages(taken, most=OPENING_PASSAGES, sentences=OPENING_SENTENCES, opening=True)
    told = {key: Answered(part.quoted(chosen[key]), conflicts[key]) for part in asked if (key := id(part))}
    return Answered(whole.quoted(opening), None), [told.get(id(part)) for part in parts]


def _in_latin_letters(sources: Sequence[Source]) -> bool:
    seen = "".join(source.text[:LOOKED_AT_CHARS] for source in sources)
    return len(_OTHER_LETTER.findall(seen)) < LATIN_ONLY_BELOW * max(1, len(seen))


def _in_reach(question: Question) -> Question:
    """A question of another script asked of sources in Latin letters: only its names and identifiers can be found there."""
    kept = [number for number, term in enumerate(question.terms) if not _OTHER_LETTER.search(term.word)]
    if len(kept) == len(question.terms):
        return question
    renumbered = {old: new for new, old in enumerate(kept)}
    parts = [frozenset(renumbered[number] for number in part if number in renumbered) for part in question.parts]
    told = [(part, kind) for part, kind in zip(parts, question.kinds, strict=True) if part]
    return replace(
        question,
        terms=tuple(question.terms[number] for number in kept),
        parts=tuple(part for part, _ in told) or (frozenset(),),
        kinds=tuple(kind for _, kind in told) or (question.kind,),
    )


def _set(
    opening: Answered, sections: Sequence[tuple[str, Answered | None]], own: OwnWords, max_tokens: int
) -> str:
    blocks = [own.quotes_only, *_fitting(_blocks_of(opening), round(max_tokens * OPENING_SHARE))]
    missing = [title for title, found in sections if found is None]
    told = [(title, found) for title, found in sections if found]
    closing = _not_found(missing, own)
    left = max_tokens - count_tokens("\n".join((*blocks, closing)))
    for number, (title, found) in enumerate(told):
        share = max(MIN_SECTION_TOKENS, left // (len(told) - number))
        quoted = [*_fitting(_blocks_of(found), share), *_disagreement(found, own)]
        section = [f"## {_heading(title)}", *(quoted or [own.told_above])]
        left -= sum(map(count_tokens, section))
        blocks += section
    return "\n\n".join([*blocks, closing] if closing else blocks)


def _blocks_of(found: Answered) -> list[str]:
    """One text for each passage."""
    return ["\n\n".join(map(_with_code_spans, set_passage(passage))) for passage in found.passages]


def _with_code_spans(block: str) -> str:
    """Placeholders of manuals, `<branch>`, as code: they would pass for HTML otherwise."""
    return block if "<" not in block or "`" in block else _PLACEHOLDER.sub(r"`\g<0>`", block)


def _fitting(blocks: Sequence[str], room: int) -> list[str]:
    """As many whole passages as fit, one at least."""
    kept: list[str] = []
    for block in blocks:
        room -= count_tokens(block)
        if kept and room < 0:
            break
        kept.append(block)
    return kept


def _disagreement(found: Answered, own: OwnWords) -> list[str]:
    return [f"### {own.disagreements}", set_conflict(found.conflict, own)] if found.conflict else []


def _not_found(missing: Sequence[str], own: OwnWords) -> str:
    if not missing:
        return ""
    asked = [title if title.endswith(_ASKS) else f"{title}?" for title in missing]
    return "\n".join([f"## {own.not_found}", "", own.unanswered, "", *(f"- {each}" for each in asked)])


def _heading(title: str) -> str:
    return title.lstrip("# ").rstrip("# ") or "…"
