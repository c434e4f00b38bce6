"""What SearXNG's refusals mean and how long they last: a status, its limiter, and an engine that it leaves alone.

The times are those of its shipped `settings.yml` and of `searx/botdetection/ip_limit.py`. An operator may change them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final
from urllib.parse import urljoin, urlsplit

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.exceptions import WebSearchBlockedError, WebSearchConfigError, WebSearchRequestError
from modules.llm_platform.infrastructure.adapters.searxng_protocol import NOT_REACHABLE, TIMEOUT, Failed
from modules.llm_platform.infrastructure.http.errors import Rule
from shared.exceptions import AppException

BURST_WINDOW_S: Final = 20.0  # the limiter lets 15 requests of an address pass in it …
LONG_WINDOW_S: Final = 600.0  # … and 150 in this one
LIMITER_WORDS: Final = b"Too Many Requests"  # the body of its 429, which names no time
BOT_DETECTION: Final = (
    "SearXNG's bot detection refused this client: allow its address (botdetection.ip_lists.pass_ip in limiter.toml) "
    "or set server.limiter to false"
)
ENGINES_BLOCKED_S: Final = 600.0  # that no engine could look counts so long at least, unless a search comes through
JSON_SEEN_S: Final = 60.0  # a look costs one of the limiter's 150 requests in 10 minutes
NAMED_IN_ERROR: Final = 3  # engines
MAX_REMEMBERED: Final = 500  # engines; an instance has fewer than 300

RULES: Final = {
    401: Rule("config", "wants a user name and password (401): set SEARXNG_USERNAME and SEARXNG_PASSWORD"),
    403: Rule(
        "config",
        "does not serve JSON (403): add json to its settings.yml (search.formats: [html, json]) and restart it",
    ),
    404: Rule("config", "is not at this address (404): set {setting} to the address of its start page"),
    429: Rule(
        "blocked",
        "refuses us by its limiter (429): set server.limiter to false in its settings.yml, or let our address pass",
    ),
}
CREDENTIALS_REFUSED: Final = Rule(
    "config",
    "does not accept the user name and password (401): check SEARXNG_USERNAME and SEARXNG_PASSWORD, or those in {setting}",
)
# What SearXNG says of a form that it does not take, and whose mistake that is.
_BAD_SETTING: Final = {b"parameter safesearch": "SEARXNG_SAFESEARCH must be 0, 1 or 2"}
_BAD_REQUEST: Final = {
    b"No query": "query must hold words to search for",
    b"parameter q": "query must hold words to search for",
    b"parameter language": "language is none that SearXNG knows",
    b"parameter pageno": "page is none that SearXNG knows",
    b"parameter time_range": "time_range is none that SearXNG knows",
}


def bad_form(body: bytes) -> AppException | None:
    """The error behind a 400: the caller's mistake or the operator's; None when it is neither."""
    for words, advice in _BAD_REQUEST.items():
        if words in body:
            return WebSearchRequestError(advice)
    for words, advice in _BAD_SETTING.items():
        if words in body:
            return WebSearchConfigError(advice)
    return None


def is_limiter_redirect(status: int, location: str, url: str) -> bool:
    """Whether a reply of `url` (…/search) sends a suspicious client to the start page, as the limiter does with a 302.

    A move to another address (to https, to another host or path) is none.
    """
    if status != 302:
        return False
    asked, target = urlsplit(url), urlsplit(urljoin(url, location))
    home = asked.path.rpartition("/")[0] + "/"
    return target.netloc == asked.netloc and target.path in (home, home.rstrip("/")) and not target.query


class LimiterWindow:
    """Which window of the limiter refuses us, as far as the order of its refusals tells."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused_since: float | None = None

    def refused(self) -> float:
        """The seconds until a request can pass: the short window, the long one where the short one is over already."""
        now = self._clock()
        if self._refused_since is None:
            self._refused_since = now
        return BURST_WINDOW_S if now - self._refused_since < BURST_WINDOW_S else LONG_WINDOW_S

    def passed(self) -> None:
        """A request came through."""
        self._refused_since = None


class Suspensions:
    """Until when SearXNG leaves engines alone, where that is known: where the failure itself was seen, and its reason has
    one length. "Suspended: …" says that it began earlier: then the time that was seen to begin counts, or none.
    """

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._known: dict[str, tuple[str, datetime]] = {}

    def degraded(self, provider: str, failed: Sequence[Failed]) -> list[Degraded]:
        """The engines that failed, for the reader of the answer."""
        return [
            Degraded(component=f"{provider}/{each.engine}", reason=each.reason, until=self._until(each))
            for each in failed
        ]

    def blocked(self, failed: Sequence[Failed]) -> WebSearchBlockedError:
        """The error for a search that no engine could serve; its time is when the first of them can be asked again."""
        named = dict.fromkeys(f"{each.engine}: {each.reason}" for each in failed)  # a second try meets the same engines
        who = ", ".join(list(named)[:NAMED_IN_ERROR])
        words = f"SearXNG has no engine that can look now ({who}): try later, or name others in SEARXNG_ENGINES_WEB"
        if {each.reason for each in failed} <= {NOT_REACHABLE, TIMEOUT}:
            words = (
                f"SearXNG reaches none of its engines ({who}): check that instance's connection to the internet "
                "(DNS, firewall, outgoing.proxies in its settings.yml)"
            )
        wait = min((self._wait_s(each) for each in failed), default=BURST_WINDOW_S)
        return WebSearchBlockedError(words, retry_after_s=wait, engines_only=True)

    def _wait_s(self, failed: Failed) -> float:
        until = self._until(failed)
        return failed.at_least_s if until is None else float(max(ceil((until - self._now()).total_seconds()), 1))

    def _until(self, failed: Failed) -> datetime | None:
        now = self._now()
        reason, until = self._known.get(failed.engine, ("", now))
        if until > now and reason == failed.reason:
            return until
        if failed.suspended or not failed.exact_s:
            return None
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        until = now + timedelta(seconds=failed.exact_s)
        self._known[failed.engine] = failed.reason, until
        return until


class LastMet:
    """What the last search met, for a health check that must not search itself: a refusal stands until a search comes
    through or its time is over, and JSON that was seen needs no second look for a minute.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusal: WebSearchBlockedError | None = None
        self._refused_until = 0.0
        self._json_until = 0.0

    def answered(self) -> None:
        """A search came through."""
        self._refusal = None
        self.saw_json()

    def saw_json(self) -> None:
        """The instance serves JSON."""
        self._json_until = self._clock() + JSON_SEEN_S

    def failed(self, error: AppException) -> None:
        """A search did not come through."""
        self._json_until = 0.0
        if isinstance(error, WebSearchBlockedError):
            wait = error.retry_after_s or BURST_WINDOW_S
            self._refusal = error
            self._refused_until = self._clock() + (max(wait, ENGINES_BLOCKED_S) if error.engines_only else wait)

    @property
    def refusal(self) -> WebSearchBlockedError | None:
        """A new error like the one that the last search met, while it stands."""
        left_s = self._refused_until - self._clock()
        if self._refusal is None or left_s <= 0:
            return None
        return WebSearchBlockedError(
            self._refusal.message, retry_after_s=left_s, engines_only=self._refusal.engines_only
        )

    @property
    def json_is_fresh(self) -> bool:
        """Whether JSON was seen within the last minute."""
        return self._clock() < self._json_until
