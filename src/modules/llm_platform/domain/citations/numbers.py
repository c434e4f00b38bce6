"""Numbers and dates as texts write them, and the values that each can mean: figures, words, Chinese characters."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

Reading = frozenset[str]  # the values that a written number can have: 1.000 is one thousand or one

MAX_NUMBERS = 60  # of one text; a table of figures is not compared cell by cell
WORDS_KEPT = 1024  # figures whose values are remembered
MAX_FIGURES = 300  # a longer run of digits is no number that anybody compares

_LETTERS = r"A-Za-z_\u00c0-\u024f\u0370-\u052f"
_NUMBER = re.compile(
    rf"(?<![{_LETTERS}0-9])[0-9]+(?:[.,'’\u00a0\u202f·:/][0-9]+|[ ](?=[0-9]{{3}}(?![0-9]))[0-9]{{3}})*(?![0-9])"
)
_SCALE = re.compile(
    r"[ \u00a0-]?(thousand|tsd|тыс\w*|million\w*|mio|mln|млн|миллион\w*|billion\w*|bn|milliard\w*|mrd|млрд|миллиард\w*"
    r"|trillion\w*|mil(?!\w)|万|萬|亿|億|千|百|만|억)",
    re.IGNORECASE,
)
_AFTERNOON = re.compile(r" ?p\.?m\b", re.IGNORECASE)
_FACTORS = {
    "thousand": 1e3, "tsd": 1e3, "тыс": 1e3, "千": 1e3, "百": 1e2, "million": 1e6, "mio": 1e6, "mln": 1e6, "млн": 1e6,
    "миллион": 1e6, "billion": 1e9, "bn": 1e9, "milliard": 1e9, "mrd": 1e9, "млрд": 1e9, "миллиард": 1e9,
    "trillion": 1e12, "mil": 1e3, "万": 1e4, "萬": 1e4, "만": 1e4, "亿": 1e8, "億": 1e8, "억": 1e8,
}  # fmt: skip
_COUNTED = "个個名人座条年月日天次种種家公米元级層层位度克倍小分秒只隻周週岁歳頭匹本回成项所部台辆艘篇块杯张"
_HAN_NUMBER = re.compile(
    f"[两二三四五六七八九十百千万亿零〇一][二三四五六七八九十百千万亿零〇一]+|[两二三四五六七八九十](?=[{_COUNTED}])"
)
_HAN_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_BLOCKS = {"万": 10_000, "亿": 100_000_000}

# Of many languages; left out are those that mean something else in another of them (once, sei, sept, die, one).
_NUMBER_WORDS = """
0.5: half halves halved halving hälfte halbiert halbierte moitié mitad metà metade половина половину вдвое; 0.333:
drittel tiers tercio треть трети; 0.25: quarter viertel; 2: double doubles doubled doubling verdoppelt verdoppelte
verdoppelten doublé удвоилась удвоился two twice zwei zweimal deux dos due duas dwa dwie два две двух двумя двум дві;
3: triple triples tripled tripling verdreifacht three thrice drei dreimal trois tres tre três drie trzy три трёх трех
тремя трём; 4: quadruple quadruples quadrupled four vier quatre cuatro quattro quatro cztery четыре четырёх четырех
чотири; 5: five fünf cinq cinco cinque vijf pięć пять пяти пятью п'ять; 6: six sechs seis zes sześć шесть шести шесть;
7: seven sieben siete sette sete zeven siedem семь семи сім; 8: eight acht huit ocho otto oito osiem восемь восьми
вісім; 9: nine neun neuf nueve nove negen dziewięć девять девяти; 10: ten zehn dix diez dieci dez tien dziesięć десять
десяти; 11: eleven elf onze undici jedenaście одиннадцать одиннадцати; 12: twelve dozen zwölf douze doce dodici doze
twaalf dwanaście двенадцать двенадцати; 13: thirteen dreizehn treize trece тринадцать; 14: fourteen vierzehn quatorze
catorce четырнадцать; 15: fifteen fünfzehn quinze quince пятнадцать; 16: sixteen sechzehn seize шестнадцать; 17:
seventeen siebzehn семнадцать; 18: eighteen achtzehn восемнадцать; 19: nineteen neunzehn девятнадцать; 20: twenty
zwanzig vingt veinte venti vinte twintig dwadzieścia двадцать двадцати; 30: thirty dreißig trente treinta trenta
trinta dertig тридцать тридцати; 40: forty vierzig quarante cuarenta quaranta quarenta сорок; 50: fifty fünfzig
cinquante cincuenta пятьдесят; 60: sixty sechzig soixante sesenta шестьдесят; 70: seventy siebzig setenta семьдесят;
80: eighty achtzig ochenta восемьдесят; 90: ninety neunzig noventa девяносто; 100: hundred hundert cent cien cento
honderd sto сто; 1000: thousand tausend mille mil duizend tysiąc тысяча тысячи
"""


def _by_word(listed: str) -> dict[str, str]:
    table = {}
    for entry in listed.split(";"):
        value, _, words = entry.partition(":")
        table.update(dict.fromkeys(words.split(), value.strip()))
    return table


NUMBER_WORDS = _by_word(_NUMBER_WORDS)
_TIMES = ("vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "zwölf")
NUMBER_WORDS |= {f"{word}mal": NUMBER_WORDS[word] for word in _TIMES}
_PERCENT = {"0.25": "25", "0.333": "33", "0.5": "50", "0.667": "67", "0.75": "75"}
_FRACTION = re.compile(
    r"\b(?:(a|one)|(two)|(three))[ -](?:(thirds?)|(quarters?))(?= (?:of|less|more|fewer|lower|higher)\b)"
)
_ISO_MONTH = re.compile(r"(?<=\d{4}-)\d\d(?=-\d\d(?!\d))")


def reading_of(value: str) -> Reading:
    """A fraction is a percentage, too."""
    return frozenset({value, _PERCENT[value]}) if value in _PERCENT else frozenset({value})


def numbers_in(text: str) -> list[tuple[Reading, int]]:
    """The numbers of a text with their places, figures and words, each with all the values that it can mean."""
    found: list[tuple[Reading, int]] = []
    if "third" in text or "quarter" in text:
        found += [(_fraction(match), match.start()) for match in _FRACTION.finditer(text)]
    if "-" in text:
        text = _ISO_MONTH.sub("--", text)  # a month is compared by its name
    for match in _NUMBER.finditer(text):
        scale = _SCALE.match(text, match.end())
        reading = _readings(match[0], scale[1] if scale else None)
        if ":" in match[0] and _AFTERNOON.match(text, match.end()):
            hours, _, minutes = match[0].partition(":")
            reading |= {f"{int(hours) % 12 + 12}:{minutes}"}
        found.append((reading, match.start()))
        if len(found) >= MAX_NUMBERS:
            break
    if not text.isascii():
        found += [(frozenset({_plain(_han_value(match[0]))}), match.start()) for match in _HAN_NUMBER.finditer(text)]
    return found


def _fraction(match: re.Match[str]) -> Reading:
    _, two, three, third, _ = match.groups()
    if third:
        return reading_of("0.667" if two else "0.333")
    return reading_of("0.75" if three else "0.5" if two else "0.25")


@lru_cache(maxsize=WORDS_KEPT)
def values_of(figures: str) -> tuple[Reading, ...]:
    """The numbers in one written word, each with all the values that it can mean."""
    return tuple(reading for reading, _ in numbers_in(figures))


def _readings(written: str, scale: str | None) -> Reading:
    values = _values(written)
    if scale is not None:
        factor = next(value for name, value in _FACTORS.items() if scale.lower().startswith(name))
        values += [value * factor for value in values]
    return frozenset(map(_plain, values)) or frozenset({written})


def _values(written: str) -> list[float]:
    parts = re.split(r"[^0-9]", written)
    signs = re.findall(r"[^0-9]", written)
    if len(parts) == 1:
        return [float(written)] if len(written) <= MAX_FIGURES else []
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


# One line for each month from January on, then one for each day from Monday on.
_MONTHS_AND_DAYS = """
january januar janvier enero gennaio janeiro januari stycznia января январь январе січня
february februar février febrero febbraio fevereiro februari lutego февраля февраль феврале лютого
march märz mars marzo março maart marca марта март марте березня
april avril abril aprile kwietnia апреля апрель апреле квітня
may mai mayo maggio maio mei maja мая май мае травня
june juni juin junio giugno junho czerwca июня июнь июне червня
july juli juillet julio luglio julho lipca июля июль июле липня
august août agosto augustus sierpnia августа август августе серпня
september septembre septiembre settembre setembro września сентября сентябрь сентябре вересня
october oktober octobre octubre ottobre outubro października октября октябрь октябре жовтня
november novembre noviembre novembro listopada ноября ноябрь ноябре листопада
december dezember décembre diciembre dicembre dezembro grudnia декабря декабрь декабре грудня
monday montag lundi lunes lunedì poniedziałek понедельник понедельникам понедельника
tuesday dienstag mardi martes martedì wtorek вторник вторникам вторника
wednesday mittwoch mercredi miércoles mercoledì środa среда среду средам
thursday donnerstag jeudi jueves giovedì czwartek четверг четвергам четверга
friday freitag vendredi viernes venerdì piątek пятница пятницу пятницам
saturday samstag sonnabend samedi sábado sabato sobota суббота субботу субботам
sunday sonntag dimanche domingo domenica niedziela воскресенье воскресеньям
"""
_MONTHS, _DAYS = frozenset(range(12)), frozenset(range(12, 19))
DATE_WORDS = {
    word: number for number, names in enumerate(_MONTHS_AND_DAYS.strip().splitlines()) for word in names.split()
}
ISO_DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")


def other_date(mine: Collection[str], theirs: Collection[str]) -> bool:
    """Whether a month or weekday is named where the other text names only other ones."""
    own, other = _months_and_days(mine), _months_and_days(theirs)
    return any(kind & own and kind & other and not kind & own & other for kind in (_MONTHS, _DAYS))


def _months_and_days(words: Collection[str]) -> set[int]:
    found = {DATE_WORDS[word] for word in words if word in DATE_WORDS}
    return found | {int(word[5:7]) - 1 for word in words if ISO_DATE.fullmatch(word)}
