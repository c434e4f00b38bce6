"""Understand follow-up questions by rules: an elliptic question gets the topic terms of its thread.

A question is elliptic if it continues the conversation (`And in Norway?`), refers to something that it does not name
(`How loud are they?`, `What is the reaction?`), or names only a side of something (`What are the disadvantages?`). Any other
question stands alone, because a wrong topic does more harm than a missing one.

The topic terms are the heaviest terms of the earlier questions and the last answer. A term weighs more in a recent question,
in the first question, as a name, and if an answer repeats it.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from modules.llm_platform.domain.dtos.request_dtos import Turn
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.extractive.question import (
    MIN_STEM,
    NAME_WEIGHT,
    WEAK_WEIGHT,
    Term,
    TermMatcher,
    read_question,
)
from modules.llm_platform.domain.markdown.cells import list_cell_spans
from modules.llm_platform.domain.search.query_syntax import has_foreign_syntax
from modules.llm_platform.domain.text.data_files import load_data, load_words
from modules.llm_platform.domain.text.language import capitalises_nouns, get_primary_subtag, load_stop_words
from modules.llm_platform.domain.text.scripts import UNSPACED
from modules.llm_platform.domain.text.tokens import fold, split_words

MAX_TOPIC_TERMS: Final = 4
MAX_TOPIC_CHARS: Final = 120
MIN_TOPIC_SHARE: Final = 0.6  # a topic term has at least this share of the heaviest term's weight
DECAY: Final = 0.6  # the weight of a term shrinks by this factor with each later question
NAME_BONUS: Final = 0.8  # a capitalized word gets this share of a mention's weight in addition
FIRST_WEIGHT: Final = 1.2  # the weight of terms in the first question, which opens the topic
FIRST_TERMS: Final = 3  # the terms of a longer first question share the weight of this many
ANSWER_WEIGHT: Final = 3.0  # the largest weight that the last answer adds to a term
ANSWER_MENTIONS: Final = 6  # the mentions in the last answer that give the largest weight
MIN_MENTIONS: Final = 3  # the mentions that a term needs if only the last answer has it

MAX_SHORT_TERMS: Final = 3  # a question with more terms names what it is about
MAX_DEFINITE_TERMS: Final = 2  # the most terms of a question such as `What is the reaction?`
MAX_REFERRING_TERMS: Final = 4  # a question with more terms names what its pronoun refers to
MAX_HISTORY_CHARS: Final = 20_000  # the text in which the terms of a short question are looked up
MAX_ANSWER_CHARS: Final = 3000  # the text in which terms are counted
ONE_ROW_LINES: Final = 3  # the head of a table, the line below it and a row

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CHUNK = re.compile(rf"[{UNSPACED}]+|[^\W_]\S*")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_TABLE_RULE = re.compile(r"\|[\s:|-]+\|\s*")
_MARKER = re.compile(r"\[\d{1,4}\]")
_POSSESSIVE = re.compile(r"['’]s$")
_PUNCTUATION = "\"'“”„«»()¿¡?？.!,;:。！，；："
_AND: Final = frozenset(["and", "und", "et", "y", "e", "ed", "en", "i", "и", "й", "та", "і"])


def standalone_by_rules(question: str, turns: Sequence[Turn], language: str) -> str:
    """Return the question; if it is elliptic, with the topic terms of the turns in front, cut at MAX_QUERY_CHARS.

    If the last answer is one row of a table, the name of the row takes the place of the pronoun: "Who wrote it?" becomes "Who
    wrote Locus iste?".
    """
    if turns and (named := _name_row(question, turns[-1].answer, get_primary_subtag(language))):
        return named[:MAX_QUERY_CHARS]
    if not turns or not is_elliptic(question, turns, language):
        return question
    topic = topic_terms(question, turns, language)
    if not topic:
        return question
    return f"{topic}: {question}"[:MAX_QUERY_CHARS]


def is_elliptic(question: str, turns: Sequence[Turn], language: str) -> bool:
    """Return whether the question can only be understood with the turns before it."""
    if refers_to_thread(question, turns, language):
        return True
    own = _terms(question, language)
    definite = _rules(get_primary_subtag(language)).definite
    has_name = any(term.weight >= NAME_WEIGHT for term in own)
    if definite and len(own) <= MAX_DEFINITE_TERMS and not has_name and definite.search(question):
        return True  # such as `What is the reaction?`, which does not say of what
    is_thing = len(own) == 1 and not has_name and not read_question(question, language).asks_what
    if is_thing and len(turns) > 1:
        return True  # In a thread, `Does freezing work?` refers to the topic, and `What is photosynthesis?` does not
    topic = _find_known(own, turns[-1].question)
    return (
        not topic
        and len(own) <= MAX_SHORT_TERMS
        and _find_known(own, _join_turns(turns)) == {term.word for term in own}
    )


def refers_to_thread(question: str, turns: Sequence[Turn], language: str) -> bool:
    """Return whether the words of the question refer to an earlier one: `And …`, `they`, or nothing is named."""
    primary = get_primary_subtag(language)
    own = _terms(question, language)
    if not own:
        return True
    rules = _rules(primary)
    found = rules.opening.match(question)
    text = question[found.end() :] if found else question
    if text == question and not (rules.closing and rules.closing.search(question)):
        return _refers_back(question, primary)
    # The text after `And` can be a whole question about something that the turns do not mention.
    first = next(iter(split_words(text)), "")
    is_clause = len(own) >= MAX_SHORT_TERMS and first in load_stop_words(primary) and not _refers_back(text, primary)
    return not is_clause or bool(_find_known(own, _join_turns(turns)))


def has_content_words(question: str, language: str, terms: int = 1) -> bool:
    """Return whether the question has at least this many terms that name something."""
    return len(_terms(question, language)) >= terms


def topic_terms(question: str, turns: Sequence[Turn], language: str) -> str:
    """Return the heaviest terms of the turns that the question lacks, and the names of the last question, in order."""
    own = TermMatcher(_terms(question, language))
    terms = [term for term in _weigh_terms(turns, language) if not own[term.word] and not own[fold(term.written)]]
    ranked = sorted(terms, key=lambda term: -term.weight)
    least = ranked[0].weight * MIN_TOPIC_SHARE if ranked else 0.0
    best = {term.word for term in ranked[:MAX_TOPIC_TERMS] if term.weight >= least}
    topic = " ".join(term.written for term in terms if term.is_new_name or term.word in best)
    return topic if len(topic) <= MAX_TOPIC_CHARS else topic[:MAX_TOPIC_CHARS].rpartition(" ")[0]


@dataclass(slots=True)
class _TopicTerm:
    """A term of the thread.

    - `word` is the term in the singular, and `written` the term as it was written first.
    - `weight` says how likely it is a term of the topic.
    - `is_new_name` is True if the last question has it capitalized.
    """

    word: str
    written: str
    weight: float = 0.0
    is_new_name: bool = False


def _weigh_terms(turns: Sequence[Turn], language: str) -> list[_TopicTerm]:
    """Return the terms of the questions in order of first mention, then the terms that only the last answer has.

    A term of the last answer counts if a question has it too, or if the answer mentions it MIN_MENTIONS times.
    """
    found: dict[str, _TopicTerm] = {}
    for number, turn in enumerate(turns):
        age = len(turns) - 1 - number
        asked = _list_written_terms(turn.question, language)
        opening = 0.0 if number else FIRST_WEIGHT * min(1.0, FIRST_TERMS / max(1, len(asked)))
        for word, written in asked.items():
            is_name = written[0].isupper()
            term = found.setdefault(word, _TopicTerm(word, written))
            term.weight += DECAY**age * (1.0 + NAME_BONUS * is_name) + opening
            term.is_new_name = is_name and not age and len(turns) > 1
    answer = turns[-1].answer[:MAX_ANSWER_CHARS]
    counts = Counter(map(_singularize, split_words(answer)))
    wanted = {word for word, count in counts.items() if word in found or count >= MIN_MENTIONS}
    asked_before = [turn.question for turn in turns]
    for word, written in _list_written_terms(answer, language, wanted).items():
        if has_foreign_syntax(written, asked_before):  # syntax that a page may have put there
            continue
        term = found.setdefault(word, _TopicTerm(word, written))
        term.weight += ANSWER_WEIGHT * min(1.0, math.log1p(counts[word]) / math.log1p(ANSWER_MENTIONS))
    return list(found.values())


def _list_written_terms(text: str, language: str, wanted: Collection[str] | None = None) -> dict[str, str]:
    """Map each term of a text, in the singular, to its first spelling. With `wanted`, other terms are left out."""
    found: dict[str, str] = {}
    for chunk in _CHUNK.findall(_separate_words(text, language)):
        written = _POSSESSIVE.sub("", chunk.strip(_PUNCTUATION))
        word = _singularize(fold(written))
        if written and word not in found and (wanted is None or word in wanted) and _terms(written, language):
            found[word] = written
    return found


def _singularize(word: str) -> str:
    """Remove the `s` of an English plural, so that two forms of a term count as one."""
    return word[:-1] if len(word) >= MIN_STEM and word.endswith("s") else word


def _separate_words(question: str, language: str) -> str:
    """Return the question with spaces instead of the function words of a script without spaces."""
    rules = _rules(get_primary_subtag(language))
    return rules.function_words.sub(" ", question) if rules.function_words else question


def _terms(text: str, language: str) -> list[Term]:
    """Return the terms that name something. In a script without spaces, function words separate the terms."""
    terms = read_question(_separate_words(text, language), language).terms
    return [
        term for term in terms if term.weight > WEAK_WEIGHT and term.word not in load_words("follow_up", "attributes")
    ]


def _find_known(terms: Sequence[Term], text: str) -> set[str]:
    """Return the terms that occur in the text, in any inflection."""
    matcher = TermMatcher(terms)
    return {terms[number].word for found in matcher.find_matches(split_words(text)) for number, _ in found}


def _join_turns(turns: Sequence[Turn]) -> str:
    return " ".join(f"{turn.question} {turn.answer}" for turn in turns)[-MAX_HISTORY_CHARS:]


def _name_row(question: str, answer: str, primary: str) -> str:
    """Return the question with the name of the only row of the answer in place of its first pronoun; empty if it has none."""
    row = _find_row_name(answer) if _refers_back(question, primary) else ""
    pronouns = load_data("follow_up")["row_pronouns"].get(primary, "").split()
    words = (match for match in _WORD.finditer(question) if fold(match.group()) in pronouns)
    if not row or (pronoun := next(words, None)) is None:
        return ""
    return f"{question[: pronoun.start()]}{row}{question[pronoun.end() :]}"


def _find_row_name(answer: str) -> str:
    """Return the first cell of letters in the only row of the only table of an answer; empty if there is none."""
    lines = [line for line in answer.splitlines() if line.startswith("|")]
    if len(lines) != ONE_ROW_LINES or _TABLE_RULE.fullmatch(lines[1]) is None:
        return ""
    cells = (_MARKER.sub("", lines[-1][start:end]).strip() for start, end in list_cell_spans(lines[-1]))
    return next((cell for cell in cells if _LETTERS.search(cell)), "")


def _refers_back(question: str, primary: str) -> bool:
    """Return whether a pronoun refers to something that the question itself does not name before it."""
    rules = _rules(primary)
    if rules.unspaced_pronouns.search(question):
        return True
    if rules.expletives.search(question):
        return False
    before, found = 0, 0
    names = {term.word for term in read_question(question, primary).terms if term.weight >= NAME_WEIGHT}
    has_pronoun = False
    for position, match in enumerate(_WORD.finditer(question)):
        word = fold(match.group())
        is_polite = capitalises_nouns(primary) and position and match.group()[0].isupper()
        if word in rules.pronouns and not is_polite:
            has_pronoun = has_pronoun or before <= 1
        elif word in _AND and found:
            return has_pronoun  # what follows may refer to what was named
        elif _terms(match.group(), primary):
            found += 1
            is_name = position and word in names and not capitalises_nouns(primary)
            before += 2 if is_name else 1
    return has_pronoun and found <= MAX_REFERRING_TERMS


@dataclass(frozen=True, slots=True)
class _Rules:
    opening: re.Pattern[str]
    closing: re.Pattern[str] | None
    pronouns: Collection[str]
    unspaced_pronouns: re.Pattern[str]
    expletives: re.Pattern[str]
    definite: re.Pattern[str] | None
    function_words: re.Pattern[str] | None


@cache
def _rules(primary: str) -> _Rules:
    data = load_data("follow_up")
    opening, closing, definite = (data[key].get(primary, "") for key in ("openings", "closings", "definite"))
    is_unspaced = primary in {"zh", "ja"}
    end = "" if is_unspaced else r"\b"
    functions = sorted(load_stop_words(primary), key=len, reverse=True) if is_unspaced else []
    return _Rules(
        opening=re.compile(rf"\s*(?:{opening}){end}[\s,，、]*" if opening else r"(?!)", re.IGNORECASE),
        closing=re.compile(rf"(?:{closing})\s*[?？]?\s*$") if closing else None,
        pronouns=frozenset(data["pronouns"].get(primary, "").split()),
        unspaced_pronouns=re.compile(data["pronouns_unspaced"] if is_unspaced else r"(?!)"),
        expletives=re.compile(data["expletives"], re.IGNORECASE),
        definite=re.compile(definite, re.IGNORECASE) if definite else None,
        function_words=re.compile("|".join(map(re.escape, functions))) if functions else None,
    )
