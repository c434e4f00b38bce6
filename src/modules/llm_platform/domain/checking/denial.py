"""What a text denies: words of negation in many languages, and which word each of them is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from modules.llm_platform.domain.checking.words import is_form_of_any, is_same_word
from modules.llm_platform.domain.text import fold

OPENED = 9  # words behind "no evidence that" that are denied with it
REACH = 3  # words behind a negation among which the denied one is looked for

_NEGATORS = """
aren't aucun aucune barely bez can't cannot cant couldn't değil didn't doesn't don't fehlen fehlt geen hadn't hardly
hasn't haven't hiç isn't jamais jamás kaum kein keine keinem keinen keiner keines lack lacked lacks mai mustn't nada
ne neither nem nenhum nenhuma nessun nessuna nessuno never nicht nichts nie niemals niemand niet nigdy ninguna ninguno
ningún no nobody non none nooit nor not nothing nowhere nunca não ohne pas personne rien sans sem senza shouldn't sin
tampoco unable wasn't weder weren't without won't wouldn't yok zonder żaden żadna ані без не нельзя немає нет ни
никогда بدون غير لا لم لن ليس नहीं बिना
"""
# They say no without saying exactly to what: a sentence with one of them is not blamed for a "not" that it lacks.
_SOFT_NEGATORS = """
abgeraten against ausgefallen ausgeschlossen außer avoid avoided avoids disabled discourage discouraged discourages
eliminado entfallen entfällt evitar evitare except exclude excluded excludes excluding fail failed fails forbidden
höchstens impossible instead interdit least lediglich maximal maximum mindestens minimal minimum most nur only prevent
prevented prevents prohibido prohibited rather refuse refused refuses retiré statt supprimé unless unlike unmöglich
verboten verhindert vermeiden vietato éviter вместо запрещено кроме лишь только
"""
# A clause with one of them, or with a "without", is neither denied nor plainly affirmed.
_HINTS = """
absent block blocked blocks drop dropped drops end ended ends free fällt gratis gratuit gratuite halt halts kostenlos
missing remove removed removes stop stopped stops
"""
_PHRASE_NEGATORS = "without ohne sans sin senza sem без bez zonder"
_BEFORE_ONLY = "bez geen kein keine keinem keinen keiner keines never no ohne sans sem senza sin without без не"
_NO_HEADS = "longer more yet mehr noch plus más più"  # "no longer": what is denied comes later
# "advise against using it" is a no, "protect against rain" is none.
_DECIDES = """
advise advised advises advising argue argued decide decided decides recommend recommended recommends vote voted votes
warn warned warns
"""
# Words that set two things against each other: what is denied of one holds for the other.
_CONTRASTS = "contrairement hingegen instead mentre mientras rather statt unlike whereas while während"

# "No evidence that it rained" denies the rain.
_OPENERS = """
evidence indication indications proof sign signs suggest suggests suggested indicate indicates indicated
anzeichen belege beweise hinweis hinweise deutet preuve preuves indice indices signe pruebas evidencia indicios
доказательств признаков свидетельств
"""
OPENERS = frozenset(_OPENERS.split())
NEGATORS = frozenset(_NEGATORS.split())
_NEGATIVE = NEGATORS | {"against"}
SOFT_NEGATORS = NEGATORS | frozenset(_SOFT_NEGATORS.split())
CONTRASTS = frozenset(_CONTRASTS.split())
_UNCLEAR = (SOFT_NEGATORS - NEGATORS) | frozenset(f"{_HINTS} {_PHRASE_NEGATORS}".split())
_ALWAYS_BEFORE = frozenset(_BEFORE_ONLY.split())
_NEVER_DENIED = frozenset(_NO_HEADS.split())
_DECISIONS = frozenset(_DECIDES.split())

_INSTEAD = frozenset(["statt", "anstatt", "anstelle", "вместо", "instead"])
_INSTEAD_OF = frozenset(
    [("rather", "than"), ("plutôt", "que"), ("au", "lieu"), ("en", "lugar"), ("en", "vez"), ("а", "не")]
)
_SET_AGAINST = _INSTEAD | {first for first, _ in _INSTEAD_OF}
_CLAUSE_END = re.compile(
    r"[,;:.!?()–—]\s|\b(?:but|although|though|while|whereas|so|that|which|who|where|when|if|unless|because"
    r"|aber|sondern|während|wenn|falls|weil|mais|qui|si|quand|pero|cuando|ma|quando|а|но|если|когда)\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HAN_NEGATION = re.compile(
    "(?:不得|不能|不会|不會|不可|不是|并不|並不|没有|沒有|禁止|无法|無法|从不|從不|不|没|沒|无|無|未|非|勿|别)([\u4e00-\u9fff]{1,4})"
)
_PARTICLES = "はがをもにでとのへや、"
_KANA_NEGATION = re.compile("([\u3040-\u30ff\u4e00-\u9fff]{2,5}?)(?:ない|ません|なかった|なく|ず(?!つ))")


def denied(words: Sequence[str], is_content: Sequence[bool]) -> Iterator[int]:
    """Where the words stand that a negation is about: the first content word behind it, or the one before where none is."""
    if not may_deny(words):
        return
    for place, word in enumerate(words):
        if not _negates(words, place):
            continue
        until = min(len(words), place + 1 + REACH)
        behind = [at for at in range(place + 1, until) if is_content[at] and words[at] not in _NEVER_DENIED]
        if behind and words[behind[0]] in OPENERS:
            yield from [at for at in range(behind[0], min(len(words), behind[0] + OPENED)) if is_content[at]]
        elif behind:
            yield from behind[: 2 if words[behind[0]].endswith("ing") else 1]  # "without giving a reason"
        elif word not in _ALWAYS_BEFORE:
            yield from [at for at in range(max(0, place - REACH), place) if is_content[at]][-1:]


def may_deny(words: Iterable[str]) -> bool:
    """Whether a word of negation is among them: most texts have none, and need not be looked at any closer."""
    return not _NEGATIVE.isdisjoint(words)


@dataclass(frozen=True, slots=True)
class Clause:
    """The words of a part of a sentence, folded, and whether they are denied; None where something hints at it only."""

    words: tuple[str, ...]
    denied: bool | None


def clauses_of(text: str) -> list[Clause]:
    found: list[Clause] = []
    for part in _CLAUSE_END.split(text):
        words = tuple(_WORD.findall(fold(part).replace("’", "'")))
        negations = sum(_negates(words, place) for place in range(len(words)))
        negations += bool(found and found[-1].denied and not OPENERS.isdisjoint(found[-1].words[-1:]))
        unclear = negations > 1 or not _UNCLEAR.isdisjoint(words)
        found.append(Clause(words, None if unclear else negations == 1))
    return found


def hints_at_denial(words: Iterable[str]) -> bool:
    """Whether a "not" of the other side may be said here in another way: "drops support" is "no longer supported"."""
    return not _UNCLEAR.isdisjoint(words)


def undenied_words(text: str) -> list[str]:
    """The words, folded, of those clauses that hold no negation."""
    clauses = [_WORD.findall(fold(clause).replace("’", "'")) for clause in _CLAUSE_END.split(text)]
    return [
        word
        for before, clause in zip([[], *clauses], clauses, strict=False)
        if NEGATORS.isdisjoint(clause) and not _opens_denial(before)
        for word in clause
    ]


def _opens_denial(clause: Sequence[str]) -> bool:
    return not OPENERS.isdisjoint(clause[-1:]) and not NEGATORS.isdisjoint(clause)


def preferred(words: Sequence[str], is_content: Sequence[bool]) -> tuple[str, str] | None:
    """What a text says instead of what: (steel, iron) of "steel rather than iron"; None where it sets nothing so."""
    if _SET_AGAINST.isdisjoint(words):
        return None
    for place in range(1, len(words) - 1):
        if words[place] in _INSTEAD or tuple(words[place : place + 2]) in _INSTEAD_OF:
            before = next((words[at] for at in range(place - 1, -1, -1) if is_content[at]), None)
            behind = next(
                (words[at] for at in range(place + 1, len(words)) if is_content[at] and words[at] not in _INSTEAD), None
            )
            return (before, behind) if before and behind else None
    return None


def prefers_the_contrary(mine: tuple[str, str] | None, theirs: tuple[str, str] | None, words: Sequence[str]) -> bool:
    """Whether a text of these words has what the other rejects, and not what it prefers."""
    if theirs is None:
        return False
    if mine is not None:
        return is_same_word(mine[0], theirs[1]) and is_same_word(mine[1], theirs[0])
    return is_form_of_any(theirs[1], words) and not is_form_of_any(theirs[0], words)


def contradicts_han(mine: str, theirs: str) -> bool:
    """Whether a Chinese or Japanese text denies what the other affirms."""
    own, other = _denied_han(mine), _denied_han(theirs)
    if len(own) == len(other) == 1:
        return False  # each denies one thing; told in other words it need not begin with the same sign
    return any(_affirmed(head, theirs, other) for head in own) or any(_affirmed(head, mine, own) for head in other)


def _negates(words: Sequence[str], place: int) -> bool:
    word = words[place]
    if word == "against":
        return place > 0 and words[place - 1] in _DECISIONS
    return word in NEGATORS and (word != "none" or words[place + 1 : place + 2] == ["of"])


def _denied_han(text: str) -> list[str]:
    """What stands right at each negation, up to five characters."""
    chinese = [found[1] for found in _HAN_NEGATION.finditer(text)]
    return chinese + [found[1].lstrip(_PARTICLES) for found in _KANA_NEGATION.finditer(text)]


def _affirmed(head: str, text: str, denied_there: Sequence[str]) -> bool:
    start = head[:2]
    return len(start) == 2 and start in text and not any(start in phrase for phrase in denied_there)
