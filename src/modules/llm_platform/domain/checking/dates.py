"""Months and days of the week in many languages."""

from __future__ import annotations

import re
from collections.abc import Collection

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
_MONTHS = 12
DATE_WORDS = {word: number for number, names in enumerate(_MONTHS_AND_DAYS.strip().splitlines()) for word in names.split()}


ISO_DATE = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")


def _months_and_days(words: Collection[str]) -> set[int]:
    found = {DATE_WORDS[word] for word in words if word in DATE_WORDS}
    return found | {int(word[5:7]) - 1 for word in words if ISO_DATE.fullmatch(word)}


def contradicting_date(mine: Collection[str], theirs: Collection[str]) -> bool:
    """Whether a month or weekday is named where the other text names only other ones."""
    own, other = _months_and_days(mine), _months_and_days(theirs)
    for months in (True, False):
        mine_of_kind = {number for number in own if (number < _MONTHS) is months}
        theirs_of_kind = {number for number in other if (number < _MONTHS) is months}
        if mine_of_kind and theirs_of_kind and not mine_of_kind & theirs_of_kind:
            return True
    return False




def other_date(word: str, theirs: Collection[str], mine: Collection[str]) -> bool:
    """Whether a text names a month or weekday, as `word` is one, that is none of mine."""
    own, other = _months_and_days(mine), _months_and_days(theirs)
    is_month = DATE_WORDS[word] < _MONTHS
    return any((number < _MONTHS) is is_month for number in other - own)
