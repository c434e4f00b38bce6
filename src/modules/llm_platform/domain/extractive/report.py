"""A report without a model: for each question the passages of the pages that answer it, verbatim, under its heading."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from modules.llm_platform.domain.dtos.research_dtos import Source
from modules.llm_platform.domain.extractive.blocks import Block, ends_like_a_sentence
from modules.llm_platform.domain.extractive.candidates import (
    LONG_WORDS,
    MIN_WORDS,
    TITLE_CREDIT,
    Candidate,
    find_candidates,
)
from modules.llm_platform.domain.extractive.question import Question, TermMatcher, read_question
from modules.llm_platform.domain.extractive.rendering import render_conflict, render_passage
from modules.llm_platform.domain.extractive.scoring import Weights, coverage, judge_passages, score, subjects, weigh
from modules.llm_platform.domain.extractive.selection import (
    ANSWERS_FROM,
    LOOKED_AT,
    OTHER_PARTS_WEIGHT,
    Quote,
    find_conflict,
    group_of,
    says_the_same,
    shows,
)
from modules.llm_platform.domain.extractive.sentences import blocks_of
from modules.llm_platform.domain.text.language import detect
from modules.llm_platform.domain.text.messages import Messages
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.domain.untrusted_text import one_line

# Choose for one question of a report the passages that answer it: runs of neighbouring sentences of whole pages.
# A report has more room than an answer and its sources are pages, so that the neighbours of the best sentence are worth
# more than the next best sentences elsewhere. No sentence is taken twice in a whole report.


MAX_PASSAGES = 5  # of one section
MAX_SENTENCES = 4  # of one passage
MAX_OF_A_SOURCE = 3  # passages of one section
MAX_OF_A_HEADING = 2  # and below one heading of a source
MAX_PASSAGE_WORDS = 110
MIN_SENTENCE_WORDS = 6  # a shorter one is a caption most often: taken where there is nothing else
MAX_FRAGMENT_WORDS = 25  # a longer one that does not end like a sentence is a table of contents
REPEATS_FROM = 0.8  # of the words of the shorter sentence
PASSAGE_FLOOR = 0.55  # of the top score: what a further passage needs
FIRST_FLOOR = 0.25  # and what the first few need, so that a section is more than a line
FIRST_FEW = 3
NEIGHBOUR_FLOOR = 0.2  # of the score of the sentence that a neighbour is taken with
FEW_TERMS = 2  # a question of more is not answered where only one of them stands

_SECTION_NUMBER = re.compile(r"\A\d+(?:\.\d+)*\.?\s+(?=[^\W\d])")

Passage = Sequence[Quote]
Conflict = tuple[Candidate, Candidate]


class SelectedPassages:
    """What a report holds so far."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._chosen: list[tuple[Candidate, frozenset[str]]] = []

    def add(self, chosen: Sequence[Candidate]) -> None:
        self._texts.update(one.sentence.text for one in chosen)
        self._chosen += [(one, frozenset(one.words)) for one in chosen]

    def holds(self, one: Candidate) -> bool:
        return one.sentence.text in self._texts

    def repeats(self, one: Candidate) -> bool:
        """Whether the report says it already, in these words or much the same, or shows it in a list or table."""
        if self.holds(one):
            return True
        own = frozenset(one.words)
        enough = [REPEATS_FROM * min(len(own), len(words)) for _, words in self._chosen]
        return any(
            (len(words) >= MIN_SENTENCE_WORDS and len(own & words) >= least) or shows(other, one)
            for (other, words), least in zip(self._chosen, enough, strict=True)
        )


class PassageSelector:
    """What the pages hold on one question; found once, chosen from as often as need be."""

    def __init__(self, question: Question, sources: Sequence[Source], texts: Sequence[Sequence[Block]]) -> None:
        """`texts` are the blocks of the sources."""
        matcher = TermMatcher(question.terms)
        candidates = find_candidates(question, sources, texts, matcher)
        self._question = question
        self._weights = weigh(question, candidates, subjects(sources, matcher))
        judge_passages(candidates, self._weights)
        fit = (one for one in candidates if one.fit)
        self._ranked = sorted(fit, key=lambda one: (-one.score, one.rank, one.sentence.position))
        self._near = [one for one in self._ranked[:LOOKED_AT] if one.tells]
        self._behind = {id(one.before): one for one in candidates if one.before is not None}

    def is_answered(self) -> bool:
        """Whether the sources answer the question at all, when it has them to itself."""
        taken = SelectedPassages()
        found = [*(self.conflict(taken) or ()), *(one for run in self.passages(taken) for one in run)]
        subject = self._weights.subject
        return coverage(found, subject, range(len(subject))) >= ANSWERS_FROM

    def conflict(self, taken: SelectedPassages) -> Conflict | None:
        """Two sentences of different sources that contradict each other; they are taken with it."""
        found = find_conflict([one for one in self._near if not taken.holds(one)])
        if found:
            taken.add(found)
        return found

    def passages(
        self,
        taken: SelectedPassages,
        *,
        most: int = MAX_PASSAGES,
        sentences: int = MAX_SENTENCES,
        opening: bool = False,
    ) -> Iterator[Sequence[Candidate]]:
        """Best first, at most `most` of at most `sentences`; each is taken when it is asked for, if nobody else has it then.

        A row without the rest of its table is a passage only where it answers best of all. `opening`: the beginning of a
        report is prose, neither rows nor headings above a table or code, and takes one passage of a source.
        """
        ranked, of_a_source = [*self._leaders(), *self._ranked], MAX_OF_A_SOURCE
        if opening:
            ranked = [one for one in ranked if not one.sentence.row and not one.sentence.announces]
            of_a_source = 1
        found = False
        for shortest in (MIN_SENTENCE_WORDS, MIN_WORDS):
            for run in self._choose(ranked, taken, shortest, most, sentences, of_a_source):
                found = True
                yield run
            if found:
                return

    def _choose(
        self,
        ranked: Sequence[Candidate],
        taken: SelectedPassages,
        shortest: int,
        most: int,
        sentences: int,
        of_a_source: int,
    ) -> Iterator[Sequence[Candidate]]:
        top, count = 0.0, 0
        below: Counter[tuple[int, str]] = Counter()  # source and heading; the empty one is the whole source
        for one in ranked:
            floor = FIRST_FLOOR if count < FIRST_FEW else PASSAGE_FLOOR
            if count == most or one.score < floor * top:
                break
            here = (one.rank, one.sentence.heading)
            enough = below[one.rank, ""] >= of_a_source or (here[1] and below[here] >= MAX_OF_A_HEADING)
            stray = count and one.sentence.row
            if enough or stray or not _can_lead(one, shortest) or taken.repeats(one):
                continue
            run = _run(one, taken, self._behind, sentences)
            if run and self._is_about_it(run):
                top = max(top, one.score)
                count += 1
                below.update({here, (one.rank, "")})
                taken.add(run)
                yield run

    def quoted(self, runs: Sequence[Sequence[Candidate]]) -> tuple[Passage, ...]:
        """Passages to be read: sources as they were first chosen from, passages as they stand in their source."""
        order: dict[int, int] = {}
        for run in runs:
            order.setdefault(run[0].rank, len(order))
        told = sorted(runs, key=lambda run: (order[run[0].rank], run[0].sentence.position))
        return tuple(tuple(_quote(one, self._near) for one in run) for run in told)

    def _leaders(self) -> Iterator[Candidate]:
        """The best sentence for each part of a question that asks several things."""
        parts, weights = self._question.parts, self._weights
        if len(parts) < 2:
            return
        fit = [one for one in self._near if _can_lead(one, MIN_SENTENCE_WORDS) and group_of(one)]
        for part, asked in enumerate(parts if fit else ()):
            focus = _focus(weights, asked)
            yield max(fit, key=lambda one: score(one, focus, weights, asked, part))

    def _is_about_it(self, run: Sequence[Candidate]) -> bool:
        """Whether the passage, with its headings, holds more than one of the words of a question of several."""
        met = {number for one in run for number, credit in one.met.items() if credit >= TITLE_CREDIT}
        return len(met) > 1 or len(self._question.terms) <= FEW_TERMS


def _focus(weights: Weights, asked: frozenset[int]) -> list[float]:
    return [weight * (1.0 if number in asked else OTHER_PARTS_WEIGHT) for number, weight in enumerate(weights.ranking)]


def _can_lead(one: Candidate, shortest: int) -> bool:
    if not one.direct or one.follows or one.sentence.row:
        return one.direct
    longest = MAX_PASSAGE_WORDS if ends_like_a_sentence(one.sentence.text) else MAX_FRAGMENT_WORDS
    return shortest <= len(one.words) <= longest


def _run(one: Candidate, taken: SelectedPassages, behind: Mapping[int, Candidate], most: int) -> list[Candidate]:
    """The sentence, the one that it hangs on, and those behind it that go on with it; none where it cannot stand."""
    run = [member for member in group_of(one) if not taken.holds(member)]
    if one not in run or (one.hanging and len(run) < 2):
        return []
    room = MAX_PASSAGE_WORDS - sum(len(member.words) for member in run)
    following = behind.get(id(one))
    while following is not None and len(run) < most and not run[-1].follows:
        room -= len(following.words)
        if room < 0 or not _goes_on(following, one) or taken.repeats(following):
            break
        run.append(following)
        following = behind.get(id(following))
    return run


def _goes_on(following: Candidate, one: Candidate) -> bool:
    whole = following.tells and following.sentence.whole and len(following.words) <= LONG_WORDS
    return whole and (following.hanging or following.score >= NEIGHBOUR_FLOOR * one.score)


def _quote(one: Candidate, near: Sequence[Candidate]) -> Quote:
    lead = _SECTION_NUMBER.sub("", one.lead)
    return Quote(one.sentence, one.source, lead, one.above, one.follows, says_the_same(one, near))


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
class SectionAnswer:
    """The passages for one question, best source first, and two sentences of it that contradict each other."""

    passages: tuple[Passage, ...]
    conflict: Conflict | None


def write_report(
    question: str, questions: Sequence[str], sources: Sequence[Source], language: str, own: Messages, max_tokens: int
) -> str:
    """Introduction, a section for each question, what could not be found; empty when no question is answered."""
    texts = [blocks_of(source.text) for source in sources]
    latin = _in_latin_letters(sources)

    def search(text: str) -> PassageSelector:
        read = read_question(text, detect(text) or language)
        return PassageSelector(_in_reach(read) if latin else read, sources, texts)

    whole, parts = search(question), [search(each) for each in questions]
    opening, sections = _answers(whole, parts)
    if not any(sections):
        return ""
    return _set(opening, list(zip(map(one_line, questions), sections, strict=True)), own, max_tokens)


def _answers(
    whole: PassageSelector, parts: Sequence[PassageSelector]
) -> tuple[SectionAnswer, list[SectionAnswer | None]]:
    """What opens the report, and what answers each question, None where nothing does.

    Each question first gets the passage that answers it best, then the opening its few, then the questions further ones in
    turns: none takes away what another needs more. What was answered elsewhere has an answer without passages.
    """
    taken = SelectedPassages()
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
    told = {key: SectionAnswer(part.quoted(chosen[key]), conflicts[key]) for part in asked if (key := id(part))}
    return SectionAnswer(whole.quoted(opening), None), [told.get(id(part)) for part in parts]


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
    opening: SectionAnswer, sections: Sequence[tuple[str, SectionAnswer | None]], own: Messages, max_tokens: int
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


def _blocks_of(found: SectionAnswer) -> list[str]:
    """One text for each passage."""
    return ["\n\n".join(map(_with_code_spans, render_passage(passage))) for passage in found.passages]


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


def _disagreement(found: SectionAnswer, own: Messages) -> list[str]:
    return [f"### {own.disagreements}", render_conflict(found.conflict, own)] if found.conflict else []


def _not_found(missing: Sequence[str], own: Messages) -> str:
    if not missing:
        return ""
    asked = [title if title.endswith(_ASKS) else f"{title}?" for title in missing]
    return "\n".join([f"## {own.not_found}", "", own.unanswered, "", *(f"- {each}" for each in asked)])


def _heading(title: str) -> str:
    return title.lstrip("# ").rstrip("# ") or "…"
