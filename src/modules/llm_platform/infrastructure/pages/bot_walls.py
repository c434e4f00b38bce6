"""Detect pages without content: logins, consent walls, CAPTCHAs, and error pages with status 200.

Only short texts are checked, so that an article about logins stays an article. The patterns match page titles, texts and
scripts. In a language without patterns, a wall passes as a page.
"""

import re
from typing import Final, NamedTuple

from modules.llm_platform.domain.exceptions import PageBlockedError, PageError
from shared.exceptions import AppException

SHORT_CHARS: Final = 1500  # a longer text is not a wall; walls have 50 to 1000
VERY_SHORT_CHARS: Final = 400
WALL_HTML_CHARS: Final = 200_000  # searched part of the page

CAPTCHA = "The page requires a CAPTCHA, so it cannot be used as a source"
NOT_THERE = "The page is an error page, so it cannot be used as a source"
NEEDS_SCRIPT = "The page needs JavaScript to show its text, so it cannot be used as a source"
EMPTY = "The page has no text"


class PageSample(NamedTuple):
    """The final host and path of a page, its title, text and HTML. The HTML is empty for other types."""

    host: str
    path: str
    title: str
    text: str
    html: str = ""


def check_bot_wall(page: PageSample, *, needs_text: bool = True) -> None:
    """Raise PageBlockedError for a wall, and PageError for an error page, or with `needs_text`, for one without a text."""
    error = _find_wall(page)
    if error is not None:
        raise error
    if needs_text and not page.text.strip():
        raise PageError(NEEDS_SCRIPT if SCRIPT_WORDS.search(page.html[:WALL_HTML_CHARS]) else EMPTY)


def make_captcha_error() -> PageBlockedError:
    return PageBlockedError(CAPTCHA)


def _find_wall(page: PageSample) -> AppException | None:
    length = len(page.text)
    if length > SHORT_CHARS:
        return None
    if _is_captcha(page):
        return make_captcha_error()
    if ERROR_TITLE.search(page.title):
        return PageError(NOT_THERE)
    if length <= VERY_SHORT_CHARS and ERROR_TITLE.search(_find_first_line(page.text)):
        return PageError(NOT_THERE)
    if _is_consent(page):
        return PageBlockedError("The page is behind a consent form, so it cannot be used as a source")
    if _is_login(page):
        return PageBlockedError("The page is behind a login, so it cannot be used as a source")
    if length <= VERY_SHORT_CHARS and SCRIPT_WORDS.search(page.text):
        return PageError(NEEDS_SCRIPT)
    return None


def _is_captcha(page: PageSample) -> bool:
    scripted = CAPTCHA_SCRIPTS.search(page.html[:WALL_HTML_CHARS]) is not None
    titled, worded = CAPTCHA_TITLE.search(page.title), CAPTCHA_TEXT.search(page.text)
    if len(page.text) <= VERY_SHORT_CHARS:
        return bool(scripted or titled or worded)
    return bool(titled and (scripted or worded))


def _is_consent(page: PageSample) -> bool:
    if CONSENT_HOST.search(page.host) or CONSENT_TITLE.search(page.title):
        return True
    return len(page.text) <= VERY_SHORT_CHARS and CONSENT_WORDS.search(page.text) is not None


def _is_login(page: PageSample) -> bool:
    signs = (
        LOGIN_TITLE.search(page.title),
        LOGIN_PATH.search(page.path),
        PASSWORD.search(page.html[:WALL_HTML_CHARS]),
        LOGIN_WORDS.search(page.text),
    )
    needed = 1 if len(page.text) <= VERY_SHORT_CHARS else 2
    return sum(map(bool, signs)) >= needed


def _find_first_line(text: str) -> str:
    return next((line.strip("# ") for line in text.splitlines() if line.strip("# ")), "")


# Patterns of walls and error pages: titles, texts, scripts and addresses.


def _compile_any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


CAPTCHA_TITLE: Final = _compile_any(
    r"just a moment|attention required|access (?:to this page has been )?denied|are you (?:a )?(?:robot|human)",
    r"robot check|verify(?:ing)? (?:that )?you are (?:a )?human|human verification|pardon our interruption|ddos.guard",
    r"security check|bot verification|captcha|one more step|checking your browser|un instant|einen moment",
    r"проверка браузера|请稍候",
)
CAPTCHA_SCRIPTS: Final = _compile_any(  # patterns in HTML
    r"cf-challenge|/cdn-cgi/challenge-platform|challenges\.cloudflare\.com|cf-turnstile|g-recaptcha|/recaptcha/api",
    r"h-captcha|hcaptcha\.com|px-captcha|captcha-delivery\.com|geo\.captcha|awswaf|_Incapsula_Resource",
)
CAPTCHA_TEXT: Final = _compile_any(
    r"(?:verify|prove|confirm)(?:ing)? (?:that )?you(?:'re| are) (?:not a robot|(?:a )?human)|not a robot",
    r"unusual traffic from your|enable javascript and cookies to continue|complete the (?:captcha|security check)",
    r"checking your browser before|доступ ограничен|я не робот|ich bin kein roboter|je ne suis pas un robot",
)
LOGIN_TITLE: Final = _compile_any(
    r"^\W*(?:log ?in|sign ?in|sign ?up|login required|authentication required|please (?:log|sign) in|anmelden|anmeldung"
    r"|einloggen|connexion|se connecter|iniciar sesión|acceder|accedi|inloggen|entrar|вход|войти|авторизация"
    r"|登录|登入|ログイン|로그인)\b",
)
LOGIN_WORDS: Final = _compile_any(
    r"(?:please )?(?:log|sign) ?in (?:to|or) (?:continue|read|view|see|access|your|create|register)",
    r"you (?:must|need to) (?:be logged|log|sign) in|subscribe to (?:continue|read)|(?:already a|for) subscribers? only",
    r"create (?:a free )?(?:an )?account to (?:continue|read)|melden sie sich an|bitte (?:loggen|melden)|connectez-vous",
    r"inicia sesión|войдите,? чтобы|请登录|ログインして",
)
LOGIN_PATH: Final = _compile_any(
    r"/(?:log-?in|sign-?in|sso|oauth2?|account/(?:begin|login)|users/sign_in|wp-login\.php)\b"
)
PASSWORD: Final = _compile_any(r"<input\b[^<>]{0,500}\btype\s*=\s*[\"']?password")
CONSENT_HOST: Final = _compile_any(r"^(?:consent|guce|privacywall|cmp)\.")
CONSENT_TITLE: Final = _compile_any(
    r"before you continue|bevor sie fortfahren|avant d.accéder|antes de continuar|cookie (?:consent|wall)",
    r"we value your privacy|your privacy choices|ihre privatsphäre|zustimmung|согласие на",
)
CONSENT_WORDS: Final = _compile_any(
    r"(?:accept|reject|agree to|manage) (?:all )?(?:cookies|and continue|and close)|we and our (?:\d+ )?partners",
    r"we use cookies|alle (?:cookies )?akzeptieren|wir verwenden cookies|tout (?:accepter|refuser)",
    r"aceptar (?:todo|cookies)|принять (?:все )?cookie",
)
ERROR_TITLE: Final = _compile_any(
    r"^\W*(?:(?:error|http|fehler|erreur|ошибка)\W*)*(?:40[0-9]|41[0-9]|429|50[0-9])\b(?!\W*\d)",
    r"^(?:the )?page (?:was |could )?(?:not|cannot) be found|page not found|^not found\b|^file not found",
    r"^forbidden\b|^access forbidden|seite (?:wurde )?nicht gefunden|page (?:non trouvée|introuvable)",
    r"página no encontrada|страница не найдена|页面不存在",
    r"(?:internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out)\W*$",
    r"^(?:something went wrong|oops)\b|site (?:is )?under maintenance|^database error",
)
SCRIPT_WORDS: Final = _compile_any(
    r"(?:enable|activate|turn on|requires?|needs?) java ?script|aktivieren sie java ?script|activer java ?script",
    r"java ?script (?:is (?:disabled|required|not enabled)|to run this app)|включите java ?script",
)
