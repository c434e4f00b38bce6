"""What a sentence asserts that must not be changed: numbers, months and weekdays, what is denied, opposites.

Written for many languages at once: a word that means nothing in the sentence's language simply does not occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from modules.llm_platform.domain.text import fold

_CLAUSE_END = re.compile(
    r"[,;:.!?()–—]\s|\b(?:but|although|though|while|whereas|so|that|which|who|aber|sondern|während|mais|qui|pero|ma|а|но)\b"
)
_CLAUSE_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

Reading = frozenset[str]  # the values that a written number can have: 1.000 is one thousand or one

MAX_NUMBERS = 60  # of one text; a table of figures is not compared cell by cell

_NUMBER = re.compile(r"(?<![A-Za-z_\u00c0-\u024f\u0370-\u052f])[0-9]+(?:[.,'’\u00a0\u202f·:/][0-9]+|[ ](?=[0-9]{3}(?![0-9]))[0-9]{3})*(?![0-9])")
_SCALE = re.compile(r"[ \u00a0-]?(thousand|tsd|тыс\w*|million\w*|mio|mln|млн|миллион\w*|billion\w*|bn|milliard\w*|mrd|млрд|"
                    r"trillion\w*|mil(?!\w)|万|萬|亿|億|千|百|만|억)", re.IGNORECASE)  # fmt: skip
_FACTORS = {
    "thousand": 1e3, "tsd": 1e3, "тыс": 1e3, "mil": 1e3, "千": 1e3, "百": 1e2, "million": 1e6, "mio": 1e6, "mln": 1e6,
    "млн": 1e6, "миллион": 1e6, "billion": 1e9, "bn": 1e9, "milliard": 1e9, "mrd": 1e9, "млрд": 1e9, "trillion": 1e12,
    "万": 1e4, "萬": 1e4, "만": 1e4, "亿": 1e8, "億": 1e8, "억": 1e8,
}  # fmt: skip
_HAN_NUMBER = re.compile("[两二三四五六七八九十百千万亿零〇一][二三四五六七八九十百千万亿零〇一]+|[两二三四五六七八九十](?=[个個名人座条条年月日天次种家公米元级層层位度克倍])")
_HAN_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_BLOCKS = {"万": 10_000, "亿": 100_000_000}

# Number words; left out are those that mean something else in another of the languages (once, sei, sept, die, one).
_WORDS_BY_VALUE = {
    2: "two twice zwei zweimal deux dos due duas dwa dwie два две двух двумя двум дві",
    3: "three thrice drei dreimal trois tres tre três drie trzy три трёх трех тремя трём",
    4: "four vier quatre cuatro quattro quatro cztery четыре четырёх четырех чотири",
    5: "five fünf cinq cinco cinque vijf pięć пять пяти пятью п'ять",
    6: "six sechs seis zes sześć шесть шести шесть",
    7: "seven sieben siete sette sete zeven siedem семь семи сім",
    8: "eight acht huit ocho otto oito osiem восемь восьми вісім",
    9: "nine neun neuf nueve nove negen dziewięć девять девяти",
    10: "ten zehn dix diez dieci dez tien dziesięć десять десяти",
    11: "eleven elf onze undici jedenaście одиннадцать одиннадцати",
    12: "twelve dozen zwölf douze doce dodici doze twaalf dwanaście двенадцать двенадцати",
    13: "thirteen dreizehn treize trece тринадцать", 14: "fourteen vierzehn quatorze catorce четырнадцать",
    15: "fifteen fünfzehn quinze quince пятнадцать", 16: "sixteen sechzehn seize шестнадцать",
    17: "seventeen siebzehn семнадцать", 18: "eighteen achtzehn восемнадцать", 19: "nineteen neunzehn девятнадцать",
    20: "twenty zwanzig vingt veinte venti vinte twintig dwadzieścia двадцать двадцати",
    30: "thirty dreißig trente treinta trenta trinta dertig тридцать тридцати",
    40: "forty vierzig quarante cuarenta quaranta quarenta сорок", 50: "fifty fünfzig cinquante cincuenta пятьдесят",
    60: "sixty sechzig soixante sesenta шестьдесят", 70: "seventy siebzig setenta семьдесят",
    80: "eighty achtzig ochenta восемьдесят", 90: "ninety neunzig noventa девяносто",
    100: "hundred hundert cent cien cento honderd sto сто", 1000: "thousand tausend mille mil duizend tysiąc тысяча тысячи",
}  # fmt: skip
NUMBER_WORDS = {word: str(value) for value, words in _WORDS_BY_VALUE.items() for word in words.split()}

_MONTHS_AND_DAYS = (
    "january januar janvier enero gennaio janeiro januari stycznia января январь январе січня",
    "february februar février febrero febbraio fevereiro februari lutego февраля февраль феврале лютого",
    "march märz mars marzo março maart marca марта март марте березня",
    "april avril abril aprile kwietnia апреля апрель апреле квітня",
    "may mai mayo maggio maio mei maja мая май мае травня",
    "june juni juin junio giugno junho czerwca июня июнь июне червня",
    "july juli juillet julio luglio julho lipca июля июль июле липня",
    "august août agosto augustus sierpnia августа август августе серпня",
    "september septembre septiembre settembre setembro września сентября сентябрь сентябре вересня",
    "october oktober octobre octubre ottobre outubro października октября октябрь октябре жовтня",
    "november novembre noviembre novembro listopada ноября ноябрь ноябре листопада",
    "december dezember décembre diciembre dicembre dezembro grudnia декабря декабрь декабре грудня",
    "monday montag lundi lunes lunedì poniedziałek понедельник понедельникам понедельника",
    "tuesday dienstag mardi martes martedì wtorek вторник вторникам вторника",
    "wednesday mittwoch mercredi miércoles mercoledì środa среда среду средам",
    "thursday donnerstag jeudi jueves giovedì czwartek четверг четвергам четверга",
    "friday freitag vendredi viernes venerdì piątek пятница пятницу пятницам",
    "saturday samstag sonnabend samedi sábado sabato sobota суббота субботу субботам",
    "sunday sonntag dimanche domingo domenica niedziela воскресенье воскресеньям",
)  # fmt: skip
DATE_WORDS = {word: number for number, names in enumerate(_MONTHS_AND_DAYS) for word in names.split()}
_MONTHS = 12  # of them; the others are days of the week

NEGATORS = frozenset(
    "not no never none nor neither without cannot can't cant don't doesn't didn't isn't aren't wasn't weren't won't"
    " wouldn't shouldn't couldn't hasn't haven't hadn't mustn't nobody nothing nowhere hardly barely fails failed"
    " nicht kein keine keinen keinem keiner keines nie niemals ohne weder niemand nichts kaum"
    " ne pas jamais aucun aucune sans rien personne nunca jamás ningún ninguna ninguno sin nada tampoco non mai nessun"
    " nessuno nessuna senza não nem sem nenhum nenhuma niet geen nooit zonder nie bez nigdy żaden żadna"
    " не нет никогда без ни нельзя ані немає değil yok hiç لا ليس لم لن بدون غير नहीं बिना".split()
)
# They say no without saying exactly to what: a sentence with one of them is not blamed for a "not" that it lacks.
SOFT_NEGATORS = NEGATORS | frozenset(
    "lack lacks lacked unlike excluding except instead prevent prevents prevented avoid avoids avoided discourage discouraged"
    " discourages refuse refuses refused unable impossible without only unless rather against forbidden prohibited disabled"
    " statt außer verboten unmöglich verhindert vermeiden abgeraten lediglich nur вместо кроме лишь только нельзя запрещено"
    " éviter interdit evitar prohibido evitare vietato".split()
)
_AFTER_ONLY = frozenset("no never without ohne sans sin senza sem bez без не kein keine keinen keinem keiner keines geen".split())
_HAN_NEGATION = re.compile("(?:不得|不能|不会|不會|不可|不是|并不|並不|没有|沒有|禁止|无法|無法|从不|從不|不|没|沒|无|無|未|非|勿|别)([\u4e00-\u9fff]{1,4})")
_KANA_NEGATION = re.compile("([\u3040-\u30ff\u4e00-\u9fff]{2,5}?)(?:ない|ません|なかった|なく|ず(?!つ))")
TIE_BREAK = 0.5  # an opposite among no known neighbours still counts where the word itself is missing
NEIGHBOURS = 4  # words on each side of an opposite that tell what it is about
MIN_NEIGHBOUR_LETTERS = 4
NEGATION_REACH = 3  # words after a "not" among which the denied one is looked for

_NEGATIVE_PREFIX = re.compile(r"(?:un|in|im|ir|il|dis|non|nicht|не)(?=\w{5})")
_OPPOSITES = (
    "rise rises rose risen increase increases increased grow grows grew grown climb climbed gain gained raise raised"
    " | fall falls fell fallen decrease decreases decreased decline declined drop dropped shrink shrank",
    "higher höher | lower niedriger",
    "open opens opened offen geöffnet открыт открыта открыто открыты ouvert abierto aperto"
    " | close closes closed geschlossen закрыт закрыта закрыто закрыты fermé cerrado chiuso",
    "before earlier vor avant antes prima до перед | after later since nach après después dopo после",
    "always immer toujours siempre sempre всегда | never nie jamais nunca никогда",
    "more above over mehr über plus más più больше более выше | less fewer below under weniger unter moins menos meno меньше менее ниже",
    "first erste premier primero primo первый первая первое | last letzte dernier último ultimo последний последняя",
    "largest biggest greatest highest most größte höchste крупнейший крупнейшая самый"
    " | smallest lowest least kleinste niedrigste мельчайший",
    "longest längste | shortest kürzeste", "maximum max at-most | minimum min at-least",
    "allow allows allowed permit permits permitted erlaubt разрешено разрешается"
    " | forbid forbids forbidden prohibit prohibits prohibited disallow disallowed ban banned verboten запрещено запрещается",
    "enable enables enabled run runs running | disable disables disabled", "one single only sole | several multiple various",
    "keep keeps kept retain retains hold holds | release releases released", "better worse superior inferior | equally equal",
    "simplify simplifies simplified | complicate complicates complicated", "possible möglich | impossible unmöglich", "accept accepts accepted approve approved | reject rejects rejected refuse refused",
    "win wins won | lose loses lost defeated", "import imports imported | export exports exported",
    "buy buys bought acquire acquired | sell sells sold", "north northern nord северный север | south southern süd южный юг",
    "east eastern ost восточный восток | west western западный запад", "left linke links | right rechte rechts",
    "male männlich | female weiblich", "hot heiß горячий | cold kalt холодный", "safe sicher безопасный | unsafe dangerous unsicher опасный",
    "synchronous sync blocking | asynchronous async non-blocking", "mutable | immutable", "required mandatory must | optional",
    "start starts started begin begins began begun | end ends ended stop stops stopped finish finished",
    "add adds added | remove removes removed delete deleted", "present | absent", "true wahr | false falsch",
    "success succeed succeeds succeeded | failure fail fails failed", "cheap cheaper | expensive costlier dearer",
    "fast faster faster quick schneller | slow slower langsamer", "strong stronger | weak weaker",
    "support supports supported | oppose opposes opposed", "ascending | descending", "public | private", "internal | external",
    "best | worst", "better | worse", "exact exactly | approximate approximately", "many viele viel много | few wenige wenig мало",
)  # fmt: skip


def _by_word(groups: Iterable[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    table: dict[str, tuple[tuple[int, int], ...]] = {}
    for number, group in enumerate(groups):
        for side, listed in enumerate(group.split("|")):
            for word in listed.split():
                table[word] = (*table.get(word, ()), (number, side))
    return table


OPPOSITES = _by_word(_OPPOSITES)


def numbers_in(text: str) -> list[tuple[Reading, int]]:
    """The numbers of a text with their places, figures and words, each with all the values that it can mean."""
    found = []
    for match in _NUMBER.finditer(text):
        scale = _SCALE.match(text, match.end())
        found.append((_readings(match[0], scale[1] if scale else None), match.start()))
        if len(found) >= MAX_NUMBERS:
            break
    if not text.isascii():
        found += [(frozenset({_plain(_han_value(match[0]))}), match.start()) for match in _HAN_NUMBER.finditer(text)]
    return found


def _readings(written: str, scale: str | None) -> Reading:
    factor = next((value for name, value in _FACTORS.items() if (scale or "").lower().startswith(name)), 1.0) if scale else 1.0
    values = {_plain(value * factor) for value in _values(written)}
    if factor != 1.0:
        values |= {_plain(value) for value in _values(written)}
    return frozenset(values or {written})


def _values(written: str) -> list[float]:
    parts = re.split(r"[^0-9]", written)
    signs = re.findall(r"[^0-9]", written)
    if len(parts) == 1:
        return [float(written)] if len(written) < 300 else []
    grouped = all(len(part) == 3 for part in parts[1:]) and len(parts[0]) <= 3 and ":" not in signs and "/" not in signs
    values = [float("".join(parts))] if grouped else []
    if len(parts) == 2 and signs[0] in ".,·":
        values.append(float(".".join(parts)))
    elif len(parts) > 2 and signs[-1] in ".," and signs[-1] != signs[0] and all(len(part) == 3 for part in parts[1:-1]):
        values.append(float("".join(parts[:-1]) + "." + parts[-1]))
    return values


def _plain(value: float) -> str:
    return f"{value:.12g}"


def _han_value(written: str) -> float:
    total = block = digit = 0
    for sign in written:
        if sign in _HAN_DIGITS:
            digit = digit * 10 + _HAN_DIGITS[sign] if digit else _HAN_DIGITS[sign]
        elif sign in _HAN_UNITS:
            block += (digit or 1) * _HAN_UNITS[sign]
            digit = 0
        else:
            total += (block + digit or 1) * _HAN_BLOCKS[sign]
            block = digit = 0
    return float(total + block + digit)


def contradicting_date(mine: Iterable[str], theirs: Iterable[str]) -> bool:
    """Whether a month or weekday is named where the other text names only other ones."""
    own, other = {DATE_WORDS[w] for w in mine if w in DATE_WORDS}, {DATE_WORDS[w] for w in theirs if w in DATE_WORDS}
    for months in (True, False):
        mine_of_kind = {number for number in own if (number < _MONTHS) is months}
        theirs_of_kind = {number for number in other if (number < _MONTHS) is months}
        if mine_of_kind and theirs_of_kind and not mine_of_kind & theirs_of_kind:
            return True
    return False


def opposed(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one text says a word where the other, among the same neighbours, says its opposite."""
    if _negated_form(mine, theirs) or _negated_form(theirs, mine):
        return True
    both = {pair for word in mine for pair in OPPOSITES.get(word, ())}
    for place, word in enumerate(mine):
        for group, side in OPPOSITES.get(word, ()):
            if (group, 1 - side) in both:
                continue  # it says both itself
            near = _neighbours(mine, place)
            same, opposite = 0.0, 0.0
            for other, their_word in enumerate(theirs):
                for their_group, their_side in OPPOSITES.get(their_word, ()):
                    if their_group != group:
                        continue
                    closeness = len(near & _neighbours(theirs, other)) + TIE_BREAK
                    same, opposite = (max(same, closeness), opposite) if their_side == side else (same, max(opposite, closeness))
            if opposite > same:
                return True
    return False


def _negated_form(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether one says "supported" where the other says "unsupported"."""
    for word in mine:
        prefix = _NEGATIVE_PREFIX.match(word)
        if prefix is not None and word[prefix.end() :] in theirs and word not in theirs and word[prefix.end() :] not in mine:
            return True
    return False


def _neighbours(words: Sequence[str], place: int) -> set[str]:
    return {word for word in words[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1] if len(word) >= MIN_NEIGHBOUR_LETTERS}


def denied(words: Sequence[str], is_content: Sequence[bool]) -> Iterator[int]:
    """Where the words stand that a negation is about: the first content word behind it, or the one before where none is."""
    for place, word in enumerate(words):
        if word not in NEGATORS or (word == "none" and words[place + 1 : place + 2] != ["of"]):
            continue
        behind = [at for at in range(place + 1, min(len(words), place + 1 + NEGATION_REACH)) if is_content[at]]
        if behind:
            yield behind[0]
        elif word not in _AFTER_ONLY:
            yield from [at for at in range(max(0, place - NEGATION_REACH), place) if is_content[at]][-1:]


def undenied_words(text: str) -> list[str]:
    """The words, folded, of those clauses that hold no negation."""
    clauses = [_CLAUSE_WORD.findall(fold(clause).replace("’", "'")) for clause in _CLAUSE_END.split(text)]
    return [word for clause in clauses if NEGATORS.isdisjoint(clause) for word in clause]


def denied_han(text: str) -> list[str]:
    """What is denied in Chinese and Japanese: the pairs of characters right at the negation."""
    heads = []
    for pattern in (_HAN_NEGATION, _KANA_NEGATION):
        heads += [match[1] for match in pattern.finditer(text)]
    return heads
