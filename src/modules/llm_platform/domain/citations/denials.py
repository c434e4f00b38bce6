"""What a text denies, and by which words two texts say the contrary of each other.

Three signs are looked for: a word that only one of the texts denies, a copy with a "not" more or less, and a word whose
opposite stands among the same neighbours in the other text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from modules.llm_platform.domain.text.tokens import fold

OPENER_REACH = 9  # words behind "no evidence that" that are denied with it
HEAD_REACH = 3  # words behind a negation among which the denied one is looked for
NEIGHBOURS = 4  # words on each side of an opposite that tell what it is about
MIN_NEIGHBOUR_LETTERS = 4
MIN_COPIED_WORDS = 4  # fewer words in a row are no copy

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
# A text with one of them, or with a "without", is neither denied nor plainly affirmed.
_HINTS = """
absent block blocked blocks drop dropped drops end ended ends free fällt gratis gratuit gratuite halt halts kostenlos
missing remove removed removes stop stopped stops
"""
_OPENERS = """
evidence indication indications proof sign signs suggest suggests suggested indicate indicates indicated
anzeichen belege beweise hinweis hinweise deutet preuve preuves indice indices signe pruebas evidencia indicios
доказательств признаков свидетельств
"""
_BEFORE_ONLY = "bez geen kein keine keinem keinen keiner keines never no ohne sans sem senza sin without без не"
_NO_HEADS = "longer more yet mehr noch plus más più"  # "no longer": what is denied comes later
_WITHOUT = "without ohne sans sin senza sem без bez zonder"
# Pairs of opposites; each must hold in any text.
_OPPOSITES = """
more above over mehr über plus más più больше более выше | less fewer below under weniger unter moins menos meno меньше
ниже; higher höher larger greater größer | lower niedriger smaller kleiner; most largest highest maximum max größte
höchste | least smallest lowest minimum min kleinste niedrigste; before earlier vor avant antes prima до перед | after
later nach après después dopo после; first erste premier primero первый | last letzte dernier último последний;
always immer toujours siempre sempre всегда | never nie jamais nunca никогда; rise rises rose risen increase increases
increased grow grows grew steigt stieg gestiegen augmente augmenté sube subió aumentó вырос выросла | fall falls fell
fallen decrease decreases decreased decline declined drop dropped sinkt sank gesunken baisse diminue bajó disminuyó
снизился снизилась упал; allow allows allowed permit permits permitted erlaubt autorisé permitido разрешено можно |
forbid forbids forbidden prohibit prohibited banned verboten interdit prohibido запрещено нельзя; enable enables
enabled | disable disables disabled; open opens opened offen geöffnet ouvert abierto открыт открыта | close closes
closed geschlossen fermé cerrado закрыт закрыта; start starts started begin begins began | end ends ended stop stops
stopped; add adds added | remove removes removed delete deletes deleted; keep keeps kept retain retains behält |
delete deletes deleted remove removes removed discard discarded lose loses lost; accept accepts accepted approved |
reject rejects rejected refuse refused; required mandatory must | optional; succeed succeeds succeeded success |
fail fails failed failure; include includes included | exclude excludes excluded; faster quicker schneller | slower
langsamer; better | worse; new newer neu neue | old older alt alte; public | private; internal | external; inside |
outside; local locally | remote remotely; left linke links | right rechte rechts; top oben | bottom unten; north | south;
east | west; buy buys bought | sell sells sold; win wins won | lose loses lost; import imports | export exports; read
reads | write writes written; input | output; ascending | descending; mutable | immutable; temporary | permanent;
true wahr | false falsch; many viele | few wenige; possible möglich возможно | impossible unmöglich невозможно
"""

OPENERS = frozenset(_OPENERS.split())
NEGATORS = frozenset(_NEGATORS.split())
_SOFT = frozenset(_SOFT_NEGATORS.split())
_UNCLEAR = frozenset(f"{_HINTS} {_WITHOUT}".split())
_ALWAYS_BEFORE = frozenset(_BEFORE_ONLY.split())
_NEVER_DENIED = frozenset(_NO_HEADS.split())
_AUXILIARIES = frozenset(["do", "does", "did"])
_MERGED = {"cannot": "can", "can't": "can", "won't": "will"}
_CLAUSE_END = re.compile(
    r"[,;:.!?()–—]\s|\b(?:but|although|though|while|whereas|so|that|which|who|where|when|if|unless|because"
    r"|aber|sondern|während|wenn|falls|weil|mais|qui|si|quand|pero|cuando|ma|quando|а|но|если|когда)\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HAN_NEGATION = re.compile(
    "(?:不得|不能|不会|不會|不可|不是|并不|並不|没有|沒有|禁止|无法|無法|从不|從不|不|没|沒|无|無|未|非|勿|别)([\u4e00-\u9fff]{2})"
)
_KANA_NEGATION = re.compile("([\u3040-\u30ff\u4e00-\u9fff]{2,5}?)(?:ない|ません|なかった|なく|ず(?!つ))")
_PARTICLES = "はがをもにでとのへや、"


def _sides_by_word(listed: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """For each word the pairs that it belongs to, as number and side."""
    table: dict[str, tuple[tuple[int, int], ...]] = {}
    for number, pair in enumerate(listed.split(";")):
        for side, words in enumerate(pair.split("|")):
            for word in words.split():
                table[word] = (*table.get(word, ()), (number, side))
    return table


_SIDES = _sides_by_word(_OPPOSITES)


def denied_words(words: Sequence[str], is_content: Sequence[bool]) -> list[str]:
    """What each negation is about: the first content word behind it, or the one before it where none follows."""
    found: list[str] = []
    if NEGATORS.isdisjoint(words):
        return found
    for place, word in enumerate(words):
        if word not in NEGATORS:
            continue
        behind = [
            at
            for at in range(place + 1, min(len(words), place + 1 + HEAD_REACH))
            if is_content[at] and words[at] not in _NEVER_DENIED
        ]
        if behind and words[behind[0]] in OPENERS:
            found += [words[at] for at in range(behind[0], min(len(words), behind[0] + OPENER_REACH)) if is_content[at]]
        elif behind:
            found.append(words[behind[0]])
        elif word not in _ALWAYS_BEFORE:
            found += [words[at] for at in range(max(0, place - HEAD_REACH), place) if is_content[at]][-1:]
    return found


def undenied_words(text: str) -> list[str]:
    """The words, folded, of those clauses that hold no negation."""
    clauses = [_WORD.findall(clause) for clause in _CLAUSE_END.split(fold(text).replace("’", "'"))]
    return [
        word
        for before, clause in zip([[], *clauses], clauses, strict=False)
        if NEGATORS.isdisjoint(clause) and (NEGATORS.isdisjoint(before) or OPENERS.isdisjoint(before[-1:]))
        for word in clause
    ]


def says_no(words: Sequence[str]) -> bool:
    """Whether it denies anything, in whatever way."""
    return not (NEGATORS.isdisjoint(words) and _SOFT.isdisjoint(words))


def leaves_open(words: Sequence[str]) -> bool:
    """Whether a "not" may be said here in another way: "drops support" is "no longer supported"."""
    return not _UNCLEAR.isdisjoint(words)


def negated_copy(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one text is a part of the other word for word but for one "not" that only one of the two has."""
    if NEGATORS.isdisjoint(mine) and NEGATORS.isdisjoint(theirs):
        return False
    own, other = _without_negations(mine), _without_negations(theirs)
    at = f" {' '.join(other.values())} ".find(f" {' '.join(own.values())} ")
    if len(own) < MIN_COPIED_WORDS or at < 0:
        return False
    first = " ".join(other.values()).count(" ", 0, at)
    places = list(other)[first : first + len(own)]
    return _negations(mine) % 2 != _negations(theirs[places[0] : places[-1] + 1]) % 2


def _without_negations(words: Sequence[str]) -> dict[int, str]:
    """What remains without each "not" and the "do" that comes with it, by its place."""
    return {
        place: _MERGED.get(word, word)
        for place, word in enumerate(words)
        if (word not in NEGATORS or word in _MERGED) and word not in _AUXILIARIES
    }


def _negations(words: Sequence[str]) -> int:
    return sum(word in NEGATORS for word in words)


def opposed(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one text says a word where the other, among the same neighbours, says its opposite."""
    said = [(place, *pair) for place, word in enumerate(mine) if word in _SIDES for pair in _SIDES[word]]
    both = {(pair, side) for _, pair, side in said}
    for place, pair, side in said:
        if (pair, 1 - side) in both:
            continue  # it says both itself
        near, closest = _neighbours(mine, place), [-1, -1]
        for at, word in enumerate(theirs):
            for their_pair, their_side in _SIDES.get(word, ()):
                if their_pair == pair:
                    closest[their_side] = max(closest[their_side], len(near & _neighbours(theirs, at)))
        if closest[1 - side] > max(0, closest[side]):
            return True
    return False


def _neighbours(words: Sequence[str], place: int) -> set[str]:
    around = words[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]
    return {word for word in around if len(word) >= MIN_NEIGHBOUR_LETTERS and word != words[place]}


def contradicts_han(mine: str, theirs: str) -> bool:
    """Whether a Chinese or Japanese text denies what the other affirms."""
    own, other = _denied_han(mine), _denied_han(theirs)
    if len(own) == len(other) == 1:
        return False  # each denies one thing, maybe in other words
    return any(_affirms(theirs, head, other) for head in own) or any(_affirms(mine, head, own) for head in other)


def _denied_han(text: str) -> list[str]:
    """The two characters right at each negation."""
    chinese = [found[1] for found in _HAN_NEGATION.finditer(text)]
    return chinese + [found[1].lstrip(_PARTICLES)[:2] for found in _KANA_NEGATION.finditer(text)]


def _affirms(text: str, head: str, denied_there: Sequence[str]) -> bool:
    return len(head) == 2 and head in text and head not in denied_there
