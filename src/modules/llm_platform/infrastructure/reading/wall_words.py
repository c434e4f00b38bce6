"""By which words walls and error pages are known: of their titles, their texts, their scripts, their addresses."""

from __future__ import annotations

import re
from typing import Final


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
LOGIN_PATH: Final = _any_of(
    r"/(?:log-?in|sign-?in|sso|oauth2?|account/(?:begin|login)|users/sign_in|wp-login\.php)\b"
)
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
