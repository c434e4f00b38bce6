"""Tells a page from what stands in its place: a login, a consent, a riddle for people, an error page that says 200.

Only short texts are suspected: an article about logins is an article. The words are those of page titles and of the
scripts that such walls are made of; a language that is missing here costs a bad source, never a good one.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from modules.llm_platform.domain.exceptions import PageBlockedError, PageError
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


class PageSample(NamedTuple):
    """What a page shows: where it ended, its title, its text, and its HTML where it is that."""

    host: str
    path: str
    title: str
    text: str
    html: str = ""


def check_bot_wall(seen: PageSample) -> None:
    """Raises PageBlockedError for a wall, PageError for an error page and for a page without text."""
    error = _wall(seen)
    if error is not None:
        raise error
    if not seen.text.strip():
        raise PageError(NEEDS_SCRIPT if SCRIPT_WORDS.search(seen.html[:LOOKED_AT]) else EMPTY)


def is_captcha() -> PageBlockedError:
    """What a page is that wants proof of a person."""
    return PageBlockedError(RIDDLE)


def _wall(seen: PageSample) -> AppException | None:
    length = len(seen.text)
    if length > SHORT_CHARS:
        return None
    if _is_captcha(seen):
        return is_captcha()
    if ERROR_TITLE.search(seen.title):
        return PageError(NOT_THERE)
    if length <= VERY_SHORT_CHARS and ERROR_TITLE.search(_first_line(seen.text)):
        return PageError(NOT_THERE)
    if _is_consent(seen):
        return PageBlockedError(CONSENT)
    if _is_login(seen):
        return PageBlockedError(LOGIN)
    if length <= VERY_SHORT_CHARS and SCRIPT_WORDS.search(seen.text):
        return PageError(NEEDS_SCRIPT)
    return None


def _is_captcha(seen: PageSample) -> bool:
    parts = RIDDLE_PARTS.search(seen.html[:LOOKED_AT]) is not None
    titled, said = RIDDLE_TITLE.search(seen.title), RIDDLE_WORDS.search(seen.text)
    if len(seen.text) <= VERY_SHORT_CHARS:
        return bool(parts or titled or said)
    return bool(titled and (parts or said))


def _is_consent(seen: PageSample) -> bool:
    if CONSENT_HOST.search(seen.host) or CONSENT_TITLE.search(seen.title):
        return True
    return len(seen.text) <= VERY_SHORT_CHARS and CONSENT_WORDS.search(seen.text) is not None


def _is_login(seen: PageSample) -> bool:
    signs = (
        LOGIN_TITLE.search(seen.title),
        LOGIN_PATH.search(seen.path),
        PASSWORD.search(seen.html[:LOOKED_AT]),
        LOGIN_WORDS.search(seen.text),
    )
    needed = 1 if len(seen.text) <= VERY_SHORT_CHARS else 2
    return sum(map(bool, signs)) >= needed


def _first_line(text: str) -> str:
    return next((line.strip("# ") for line in text.splitlines() if line.strip("# ")), "")


# By which words walls and error pages are known: of their titles, their texts, their scripts, their addresses.


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


RIDDLE_TITLE: Final = _any_of(
    r"just a moment|attention required|access (?:to this page has been )?denied|are you (?:a )?(?:robot|human)",
    r"robot check|verify(?:ing)? (?:that )?you are (?:a )?human|human verification|pardon our interruption|ddos.guard",
    r"security check|bot verification|captcha|one more step|checking your browser|un instant|einen moment",
    r"проверка браузера|请稍候",
)
RIDDLE_PARTS: Final = _any_of(  # of HTML
    r"cf-challenge|/cdn-cgi/challenge-platform|challenges\.cloudflare\.com|cf-turnstile|g-recaptcha|/recaptcha/api",
    r"h-captcha|hcaptcha\.com|px-captcha|captcha-delivery\.com|geo\.captcha|awswaf|_Incapsula_Resource",
)
RIDDLE_WORDS: Final = _any_of(
    r"(?:verify|prove|confirm)(?:ing)? (?:that )?you(?:'re| are) (?:not a robot|(?:a )?human)|not a robot",
    r"unusual traffic from your|enable javascript and cookies to continue|complete the (?:captcha|security check)",
    r"checking your browser before|доступ ограничен|я не робот|ich bin kein roboter|je ne suis pas un robot",
)
LOGIN_TITLE: Final = _any_of(
    r"^\W*(?:log ?in|sign ?in|sign ?up|login required|authentication required|please (?:log|sign) in|anmelden|anmeldung"
    r"|einloggen|connexion|se connecter|iniciar sesión|acceder|accedi|inloggen|entrar|вход|войти|авторизация"
    r"|登录|登入|ログイン|로그인)\b",
)
LOGIN_WORDS: Final = _any_of(
    r"(?:please )?(?:log|sign) ?in (?:to|or) (?:continue|read|view|see|access|your|create|register)",
    r"you (?:must|need to) (?:be logged|log|sign) in|subscribe to (?:continue|read)|(?:already a|for) subscribers? only",
    r"create (?:a free )?(?:an )?account to (?:continue|read)|melden sie sich an|bitte (?:loggen|melden)|connectez-vous",
    r"inicia sesión|войдите,? чтобы|请登录|ログインして",
)
LOGIN_PATH: Final = _any_of(r"/(?:log-?in|sign-?in|sso|oauth2?|account/(?:begin|login)|users/sign_in|wp-login\.php)\b")
PASSWORD: Final = _any_of(r"<input\b[^<>]{0,500}\btype\s*=\s*[\"']?password")
CONSENT_HOST: Final = _any_of(r"^(?:consent|guce|privacywall|cmp)\.")
CONSENT_TITLE: Final = _any_of(
    r"before you continue|bevor sie fortfahren|avant d.accéder|antes de continuar|cookie (?:consent|wall)",
    r"we value your privacy|your privacy choices|ihre privatsphäre|zustimmung|согласие на",
)
CONSENT_WORDS: Final = _any_of(
    r"(?:accept|reject|agree to|manage) (?:all )?(?:cookies|and continue|and close)|we and our (?:\d+ )?partners",
    r"we use cookies|alle (?:cookies )?akzeptieren|wir verwenden cookies|tout (?:accepter|refuser)",
    r"aceptar (?:todo|cookies)|принять (?:все )?cookie",
)
ERROR_TITLE: Final = _any_of(
    r"^\W*(?:(?:error|http|fehler|erreur|ошибка)\W*)*(?:40[0-9]|41[0-9]|429|50[0-9])\b(?!\W*\d)",
    r"^(?:the )?page (?:was |could )?(?:not|cannot) be found|page not found|^not found\b|^file not found",
    r"^forbidden\b|^access forbidden|seite (?:wurde )?nicht gefunden|page (?:non trouvée|introuvable)",
    r"página no encontrada|страница не найдена|页面不存在",
    r"(?:internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out)\W*$",
    r"^(?:something went wrong|oops)\b|site (?:is )?under maintenance|^database error",
)
SCRIPT_WORDS: Final = _any_of(
    r"(?:enable|activate|turn on|requires?|needs?) java ?script|aktivieren sie java ?script|activer java ?script",
    r"java ?script (?:is (?:disabled|required|not enabled)|to run this app)|включите java ?script",
)
