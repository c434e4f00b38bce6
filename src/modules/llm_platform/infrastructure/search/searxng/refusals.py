"""SearXNG's refusals and their duration: statuses, its limiter, and suspended engines.

The durations are in its shipped `settings.yml` and in `searx/botdetection/ip_limit.py`. An operator may change them.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final
from urllib.parse import urljoin, urlsplit

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchConfigError, WebSearchRequestError
from modules.llm_platform.infrastructure.http.errors import Rule
from modules.llm_platform.infrastructure.search.searxng.answer import NOT_REACHABLE, TIMEOUT, FailedEngine
from shared.exceptions import AppException

BURST_WINDOW_S: Final = 20.0  # the limiter allows 15 requests of an address in this time …
LONG_WINDOW_S: Final = 600.0  # … and 150
LIMITER_BODY: Final = b"Too Many Requests"  # body of its 429, which has no Retry-After
BOT_DETECTION: Final = (
    "SearXNG's bot detection refused this client: allow its address (botdetection.ip_lists.pass_ip in limiter.toml) "
    "or set server.limiter to false"
)
ENGINES_BLOCKED_S: Final = 600.0  # the shortest time for which health reports that all engines are blocked
JSON_CHECK_S: Final = 60.0  # pause between checks; each is one of the limiter's 150 requests in 10 minutes
MAX_ENGINES_IN_ERROR: Final = 3
MAX_SUSPENSIONS: Final = 500  # an instance has fewer than 300 engines

RULES: Final = {
    401: Rule("config", "requires a user name and password (401): set SEARXNG_USERNAME and SEARXNG_PASSWORD"),
    403: Rule(
        "config",
        "does not serve JSON (403): add json to its settings.yml (search.formats: [html, json]) and restart it",
    ),
    404: Rule("config", "is not at this address (404): set {setting} to the address of its start page"),
    429: Rule(
        "blocked",
        "refuses requests by its limiter (429): set server.limiter to false in its settings.yml, or allow this address",
    ),
}
CREDENTIALS_REFUSED: Final = Rule(
    "config",
    "does not accept the user name and password (401): check SEARXNG_USERNAME and SEARXNG_PASSWORD, or those in {setting}",
)
# Parts of SearXNG's message for an invalid form: a wrong setting, or a wrong request.
_BAD_SETTING: Final = {b"parameter safesearch": "SEARXNG_SAFESEARCH must be 0, 1 or 2"}
_BAD_REQUEST: Final = {
    b"No query": "query must contain words to search for",
    b"parameter q": "query must contain words to search for",
    b"parameter language": "SearXNG does not know this language",
    b"parameter pageno": "SearXNG does not know this page",
    b"parameter time_range": "SearXNG does not know this time_range",
}


def form_error(body: bytes) -> AppException | None:
    """Return the error for a 400: of the request or of a setting, or None if the message is unknown."""
    for error, messages in ((WebSearchRequestError, _BAD_REQUEST), (WebSearchConfigError, _BAD_SETTING)):
        for part, message in messages.items():
            if part in body:
                return error(message)
    return None


def is_limiter_redirect(location: str, url: str) -> bool:
    """Return whether a 302 of `url` (…/search) leads to the start page, by which the limiter rejects suspicious clients.

    A redirect to another address (https, another host or path) is not.
    """
    requested, target = urlsplit(url), urlsplit(urljoin(url, location))
    start_page = requested.path.rpartition("/")[0] + "/"
    return (
        target.netloc == requested.netloc and target.path in (start_page, start_page.rstrip("/")) and not target.query
    )


class LimiterWindow:
    """Derives from the order of the limiter's refusals which of its windows is exhausted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.refused_since: float | None = None

    def note_refusal(self) -> float:
        """Return the wait in seconds: the short window, or the long one when the short one has already passed."""
        now = self._clock()
        if self.refused_since is None:
            self.refused_since = now
        return BURST_WINDOW_S if now - self.refused_since < BURST_WINDOW_S else LONG_WINDOW_S

    def note_answer(self) -> None:
        """Note that a request was answered."""
        self.refused_since = None


class Suspensions:
    """Remembers until when SearXNG suspends engines, for observed failures whose reason has a fixed duration.

    "Suspended: …" means that the suspension began earlier: then an observed beginning counts, else the end is unknown.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._suspensions: dict[str, tuple[str, datetime]] = {}

    def describe(self, provider: str, failed: Sequence[FailedEngine]) -> list[Degraded]:
        return [
            Degraded(component=f"{provider}/{failure.engine}", reason=failure.reason, until=self._find_end(failure))
            for failure in failed
        ]

    def make_blocked_error(self, failed: Sequence[FailedEngine]) -> WebSearchBlockedError:
        """Return the error for a search that no engine answered, with the time until the first one is available again."""
        failures = dict.fromkeys(
            f"{failure.engine}: {failure.reason}" for failure in failed
        )  # a second search meets the same engines
        engines = ", ".join(list(failures)[:MAX_ENGINES_IN_ERROR])
        message = (
            f"SearXNG has no available engine ({engines}): try later, or name other engines in the request, or in "
            "SEARXNG_ENGINES_WEB, SEARXNG_ENGINES_NEWS or SEARXNG_ENGINES_ACADEMIC"
        )
        if {failure.reason for failure in failed} <= {NOT_REACHABLE, TIMEOUT}:
            message = (
                f"SearXNG reaches none of its engines ({engines}): check that instance's connection to the internet "
                "(DNS, firewall, outgoing.proxies in its settings.yml)"
            )
        wait_s = min((self._wait_s(failure) for failure in failed), default=BURST_WINDOW_S)
        return WebSearchBlockedError(message, retry_after_s=wait_s, engines_only=True)

    def _wait_s(self, failed: FailedEngine) -> float:
        until = self._find_end(failed)
        return failed.min_suspension_s if until is None else float(max(ceil((until - self._now()).total_seconds()), 1))

    def _find_end(self, failed: FailedEngine) -> datetime | None:
        now = self._now()
        reason, until = self._suspensions.get(failed.engine, ("", now))
        if until > now and reason == failed.reason:
            return until
        if failed.is_suspended or not failed.suspension_s:
            return None
        if len(self._suspensions) >= MAX_SUSPENSIONS:
            self._suspensions.clear()
        until = now + timedelta(seconds=failed.suspension_s)
        self._suspensions[failed.engine] = failed.reason, until
        return until


class LastOutcome:
    """The outcome of the last search, for a health check that must not search.

    A refusal counts until a search succeeds or its time is over. A JSON answer is valid for JSON_CHECK_S.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusal: WebSearchBlockedError | None = None
        self._refused_until = 0.0
        self._json_until = 0.0

    def note_answer(self) -> None:
        self._refusal = None
        self._json_until = self._clock() + JSON_CHECK_S

    def note_json(self) -> None:
        self._json_until = self._clock() + JSON_CHECK_S

    def note_failure(self, error: AppException) -> None:
        self._json_until = 0.0
        if isinstance(error, WebSearchBlockedError):
            wait_s = error.retry_after_s or BURST_WINDOW_S
            self._refusal = error
            self._refused_until = self._clock() + (max(wait_s, ENGINES_BLOCKED_S) if error.engines_only else wait_s)

    @property
    def refusal(self) -> WebSearchBlockedError | None:
        """A new error like the error of the last search, while its time is not over."""
        left_s = self._refused_until - self._clock()
        if self._refusal is None or left_s <= 0:
            return None
        return WebSearchBlockedError(
            self._refusal.message, retry_after_s=left_s, engines_only=self._refusal.engines_only
        )

    @property
    def has_recent_json(self) -> bool:
        """True if JSON was received within the last JSON_CHECK_S."""
        return self._clock() < self._json_until
