"""Tells a page from what stands in its place: a login, a consent, a riddle for people, an error page that says 200.

Only short texts are suspected: an article about logins is an article. The words are those of page titles and of the
scripts that such walls are made of; a language that is missing here costs a bad source, never a good one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from modules.llm_platform.domain.exceptions import PageBlockedError, PageError
from modules.llm_platform.infrastructure.reading import wall_words as words
from shared.exceptions import AppException

SHORT_CHARS: Final = 1500  # of text; walls have 50 to 1000, news in brief has more
VERY_SHORT_CHARS: Final = 400
LOOKED_AT: Final = 200_000  # characters of HTML

RIDDLE = "The page wants proof that a person reads it, so it cannot be used as a source"
LOGIN = "The page is behind a login, so it cannot be used as a source"
CONSENT = "The page is behind a question for consent, so it cannot be used as a source"
NOT_THERE = "The page is an error page, so it cannot be used as a source"
NEEDS_SCRIPT = "The page shows its text only where its scripts run, so it cannot be used as a source"
EMPTY = "The page holds no text"


class Seen(NamedTuple):
    """What a page shows: where it ended, its title, its text, and its HTML where it is that."""

    host: str
    path: str
    title: str
    text: str
    html: str = ""


def check(seen: Seen) -> None:
    """Raises PageBlockedError for a wall, PageError for an error page and for a page without text."""
    error = _wall(seen)
    if error is not None:
        raise error
    if not seen.text.strip():
        raise PageError(NEEDS_SCRIPT if words.SCRIPT_WORDS.search(seen.html[:LOOKED_AT]) else EMPTY)


def riddle() -> PageBlockedError:
    """What a page is that wants proof of a person."""
    return PageBlockedError(RIDDLE)


def _wall(seen: Seen) -> AppException | None:
    length = len(seen.text)
    if length > SHORT_CHARS:
        return None
    if _is_riddle(seen):
        return riddle()
    if words.ERROR_TITLE.search(seen.title):
        return PageError(NOT_THERE)
    if length <= VERY_SHORT_CHARS and words.ERROR_TITLE.search(_first_line(seen.text)):
        return PageError(NOT_THERE)
    if _is_consent(seen):
        return PageBlockedError(CONSENT)
    if _is_login(seen):
        return PageBlockedError(LOGIN)
    if length <= VERY_SHORT_CHARS and words.SCRIPT_WORDS.search(seen.text):
        return PageError(NEEDS_SCRIPT)
    return None


def _is_riddle(seen: Seen) -> bool:
    parts = words.RIDDLE_PARTS.search(seen.html[:LOOKED_AT]) is not None
    titled, said = words.RIDDLE_TITLE.search(seen.title), words.RIDDLE_WORDS.search(seen.text)
    if len(seen.text) <= VERY_SHORT_CHARS:
        return bool(parts or titled or said)
    return bool(titled and (parts or said))


def _is_consent(seen: Seen) -> bool:
    if words.CONSENT_HOST.search(seen.host) or words.CONSENT_TITLE.search(seen.title):
        return True
    return len(seen.text) <= VERY_SHORT_CHARS and words.CONSENT_WORDS.search(seen.text) is not None


def _is_login(seen: Seen) -> bool:
    signs = (
        words.LOGIN_TITLE.search(seen.title),
        words.LOGIN_PATH.search(seen.path),
        words.PASSWORD.search(seen.html[:LOOKED_AT]),
        words.LOGIN_WORDS.search(seen.text),
    )
    needed = 1 if len(seen.text) <= VERY_SHORT_CHARS else 2
    return sum(map(bool, signs)) >= needed


def _first_line(text: str) -> str:
    return next((line.strip("# ") for line in text.splitlines() if line.strip("# ")), "")
