"""Find a name or identifier of a claim that its source contradicts, and count the names that the source lacks.

"The bridge of Keller" is refuted by "the bridge of Strabag", and `wait_time` by `lock_time` where the source says the same.
"""

from collections.abc import Iterator
from typing import Final

from modules.llm_platform.domain.citations.compare.bindings import (
    find_program_name,
    is_of_another_entry,
    list_program_names,
)
from modules.llm_platform.domain.citations.compare.comparison import Comparison
from modules.llm_platform.domain.citations.compare.mismatches import Mismatch, find_word
from modules.llm_platform.domain.citations.read.claims import Claim, TextFacts
from modules.llm_platform.domain.citations.read.words import IDENTIFIER
from modules.llm_platform.domain.text.data_files import load_words
from modules.llm_platform.domain.text.numbers import load_date_words
from modules.llm_platform.domain.text.positions import ClaimWordNumber, SentenceNumber, WordNumber
from modules.llm_platform.domain.text.sentences import Span
from modules.llm_platform.domain.text.stemming import is_form_of_any
from modules.llm_platform.domain.text.tokens import fold

SIMILAR_LETTERS: Final = 2  # the difference in length between similar names
SHORT_DATE_LETTERS: Final = (3, 4)  # lengths of short names such as `Aug` and `Sept`


def find_name_mismatch(compared: Comparison) -> Mismatch | None:
    """Return the first name or identifier of the claim that the source contradicts."""
    claim, forms_of_address = compared.claim, load_words("connectives", "forms_of_address")
    for position, word in enumerate(claim.words):
        found = None
        if word.is_content and word.is_identifier:
            found = _find_other_identifier(compared, ClaimWordNumber(position))
        elif (
            word.is_content and word.written[0].isupper() and word.key not in forms_of_address and not _is_day(word.key)
        ):
            found = _find_other_name(compared, ClaimWordNumber(position))
        if found is not None:
            start = claim.offsets[position]
            return Mismatch("name", (start, start + len(word.written)), found)
    return None


def _is_day(word: str) -> bool:
    """Return whether a word is the plural of a weekday, which `number_mismatches` compares as a date: "Fridays"."""
    return word not in load_date_words() and word.removesuffix("s") in load_date_words()


def _find_other_identifier(compared: Comparison, position: ClaimWordNumber) -> Span | None:
    """Return the span of the source that contradicts the claim's identifier at `position`; None if none does.

    It is the span of the identifier that the source has instead. If the source does not know the identifier, or lists it for
    another option, it is the span of the best sentence.
    """
    word = compared.claim.words[position]
    best = compared.source.spans[compared.passage.sentences[0]]
    if not compared.source.knows(word.key, word.written):
        return best
    if word.written.isalnum() and IDENTIFIER.match(word.written):
        return None  # the word is an abbreviation, or a name such as OpenAI
    for sentence in compared.find_sentences_lacking(position):
        facts = compared.read_facts(sentence)
        if others := list_program_names(facts.text).difference(compared.claim.keys):
            return compared.locate(sentence, find_program_name(facts.text, min(others)))
    sentences = map(compared.read_facts, compared.passage.sentences)
    is_elsewhere = any(is_of_another_entry(compared.claim, position, sentence) for sentence in sentences)
    return best if is_elsewhere else None


def _find_other_name(compared: Comparison, position: ClaimWordNumber) -> Span | None:
    """Return the span of another name that the source has beside the same word: "of Keller", "of Strabag"."""
    for sentence, name in _list_other_words(compared, position):
        facts = compared.read_facts(sentence)
        if position or not _may_be_common_words(compared, facts, name):
            return compared.locate(sentence, find_word(facts.text, name))
    return None


def begins_with_other_word(compared: Comparison) -> bool:
    """Return whether the source begins with a different word, if its capital letter does not show whether it is a name.

    "Adults pay £12" may or may not be about the same people as "Seniors pay £12".
    """
    first = ClaimWordNumber(0)
    word = compared.claim.words[first]
    if not (word.is_content and word.written[0].isupper() and not word.is_identifier):
        return False
    return any(
        _may_be_common_words(compared, compared.read_facts(sentence), name)
        for sentence, name in _list_other_words(compared, first)
    )


def _list_other_words(compared: Comparison, position: ClaimWordNumber) -> Iterator[tuple[SentenceNumber, WordNumber]]:
    """Yield the words with a capital that sentences about the same have in place of the claim's word."""
    word, sentences = compared.claim.words[position], compared.passage.sentences
    if compared.source.knows(word.key, word.written):
        sentences = tuple(compared.find_sentences_lacking(position))
    for sentence in sentences:
        name = find_replacing_name(compared.claim, position, compared.read_facts(sentence))
        if name is not None:
            yield sentence, name


def _may_be_common_words(compared: Comparison, facts: TextFacts, position: WordNumber) -> bool:
    """Return whether the first word of the claim, and another in the source, have a capital only because they begin a sentence.

    They are names if a name follows ("Leon Strauss", "Joseph Strauss"), or if the source has its word elsewhere with a capital.
    """
    follows_name = any(word.is_name for word in compared.claim.words[1:2])
    is_first = position in facts.sentence_starts
    return is_first and not follows_name and not compared.source.capitalizes_inside(facts.words[position])


def count_missing_names(compared: Comparison) -> int:
    """Return how many names and identifiers of the claim are missing in the whole source."""
    names = (word for word in compared.claim.words if word.is_name or word.is_identifier)
    return sum(not compared.source.knows(word.key, word.written) for word in names)


def find_replacing_name(claim: Claim, position: ClaimWordNumber, facts: TextFacts) -> WordNumber | None:
    """Return the position of a name that the source has instead of the claim's name at `position`; None if there is none.

    Both names are beside the same word. In languages that capitalise all nouns, the first word of a claim is compared only
    if it is like another first name before the same surname: "Inge Brand" and "Imke Brandt".
    """
    if not position and not claim.capitals_name:
        return _find_similar_name(claim, facts)
    keys, folded, articles = claim.keys, facts.folded, load_words("connectives", "articles")
    before, after = keys[max(0, position - 1) : position], keys[position + 1 : position + 2]
    beside = [(at + 1, at + 1) for at, word in enumerate(folded[:-1]) if word in before and word not in articles]
    beside += [(at - 1, at) for at, word in enumerate(folded) if at and word in after and word not in articles]
    return next(
        (
            WordNumber(name)
            for name, later in beside
            if facts.content[name]
            and later not in facts.sentence_starts
            and facts.words[name][0].isupper()
            and not is_form_of_any(folded[name], keys)
            and not _is_same_date(folded[name], keys[position])
        ),
        None,
    )


def _find_similar_name(claim: Claim, facts: TextFacts) -> WordNumber | None:
    """Return the position of a word that differs from the claim's first word, and is like it, before the same name."""
    first, second = claim.words[0].written, claim.words[1].written if len(claim.words) > 1 else ""
    is_title = fold(first) in load_words("connectives", "forms_of_address")
    if is_title or not (first[:1].isupper() and second[:1].isupper()):
        return None
    key, after = claim.keys[:2]
    return next(
        (
            WordNumber(at)
            for at, (name, later) in enumerate(zip(facts.folded, facts.folded[1:], strict=False))
            if facts.words[at][0].isupper()
            and name[0] == key[0]
            and abs(len(name) - len(key)) <= SIMILAR_LETTERS
            and (later.startswith(after) or after.startswith(later))
            and not (name.startswith(key) or key.startswith(name) or is_form_of_any(name, claim.keys))
        ),
        None,
    )


def _is_same_date(one: str, other: str) -> bool:
    """Return whether two words name the same month or weekday, maybe in two languages or shortened: `March`, `März`, `Mar`."""
    dates = load_date_words()
    short, name = sorted((one, other), key=len)
    if len(short) in SHORT_DATE_LETTERS and name in dates and name.startswith(short):
        return True
    return one in dates and dates[one] == dates.get(other)
