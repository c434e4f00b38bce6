"""What one request of a caller may fetch of other servers (docs/howto/limits-and-budgets.md)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from modules.llm_platform.domain.exceptions import PageLimitError

FETCHES_PER_REQUEST: Final = 20  # requests to other servers that the rate limit counts as one request of the caller
MAX_PAGES_PER_HOST: Final = 60  # pages of one text, or of one list; a redirect to another host is a page of that host
MAX_WAIT_S: Final = 10.0  # for the rate limit of the caller; a page has twice this time
MANY_OF_HOST: Final = (
    f"A request reads at most {MAX_PAGES_PER_HOST} pages of one host, redirects included. Split the text or the list."
)
LIMIT_REACHED: Final = (
    f"The rate limit of this caller was reached: each {FETCHES_PER_REQUEST} requests to other servers count as one request. "
    "Try again in a minute, or send fewer addresses"
)

# Counts one more request of the caller. Returns 0, or, if the limit refuses it, the seconds until it allows one.
Charge = Callable[[], Awaitable[float]]


class PageAllowance:
    """Counts what one request fetches. The first FETCHES_PER_REQUEST are paid: the request itself was counted.

    `charge` counts against the rate limit of the caller, and `max_of_host` limits the pages of one host. None means no limit.
    """

    def __init__(self, charge: Charge | None, max_of_host: int | None) -> None:
        self._charge = charge
        self._max_of_host = max_of_host
        self._of_host: Counter[str] = Counter()
        self._paid = FETCHES_PER_REQUEST
        self._paying = asyncio.Lock()  # one waits for the limit, and all others for that one

    async def count(self, host: str, *, is_same_page: bool) -> None:
        """Count a request to a host, and wait until the limit of the caller allows it. Raises PageLimitError.

        With `is_same_page`, it follows a redirect of the host itself, which belongs to its page.
        """
        if not is_same_page and self._max_of_host is not None:
            if self._of_host[host] >= self._max_of_host:
                raise PageLimitError(MANY_OF_HOST)
            self._of_host[host] += 1
        if self._charge is None:
            return
        async with self._paying:
            if not self._paid:
                await self._pay(self._charge)
            self._paid -= 1

    async def _pay(self, charge: Charge) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_WAIT_S
        while wait_s := await charge():
            if loop.time() + wait_s > until:
                raise PageLimitError(LIMIT_REACHED)
            await asyncio.sleep(wait_s)
        self._paid = FETCHES_PER_REQUEST


_CHARGE: ContextVar[Charge | None] = ContextVar("charge", default=None)
_ALLOWANCE: ContextVar[PageAllowance | None] = ContextVar("page_allowance", default=None)


def set_page_charge(charge: Charge | None) -> None:
    """Set how this task, and the tasks that it starts from now on, are charged for pages."""
    _CHARGE.set(charge)


@contextmanager
def page_allowance(max_of_host: int | None = MAX_PAGES_PER_HOST) -> Iterator[None]:
    """Count what is fetched in the block as the pages of one request."""
    token = _ALLOWANCE.set(PageAllowance(_CHARGE.get(), max_of_host))
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


async def count_fetch(host: str, *, is_same_page: bool = False) -> None:
    """Count a request to a host for the block of `page_allowance`; outside of one, count nothing. Raises PageLimitError."""
    allowance = _ALLOWANCE.get()
    if allowance is not None:
        await allowance.count(host, is_same_page=is_same_page)
