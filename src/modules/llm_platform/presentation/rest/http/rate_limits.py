"""Rate limits of a request: the caller that it counts for, and the fields of the response.

The fields RateLimit and RateLimit-Policy follow draft-ietf-httpapi-ratelimit-headers-11.
"""

import math
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import Scope

from modules.llm_platform.domain.concurrency.page_allowance import Charge
from modules.llm_platform.domain.ports.rate_limiter import LimitState, RateLimitDecision, RateLimits
from modules.llm_platform.presentation.request_head import get_host_name
from modules.llm_platform.presentation.rest.http.problems import RateLimitedError
from modules.llm_platform.presentation.rest.http.server_state import ServerState
from shared.config import LOOPBACK_HOSTS, Settings

BACKGROUND = "background"  # The client of background runs of callers without a key.
UNKNOWN_ADDRESS = "unknown"  # The address of a client of a Unix socket.
MAX_FORWARDED = 32  # Entries of X-Forwarded-For that are read, from the right.
PARSED_ADDRESSES = 4096
MAX_REFUSED = 10_000  # Addresses above the limit of wrong keys.
MAX_USED_KEYS = 10_000  # Pairs of an address and a key that it has used.
MAX_SCHEDULED = 10_000  # Clients with refused requests.
MAX_SCHEDULED_S = 60.0  # SDKs wait no longer for a Retry-After
IPV6_HOST_BITS = 64  # One customer gets a whole /64.

# Settings of an operator who limits clients, or serves others than the programs of this machine.
SERVING = frozenset(
    (
        "RATE_LIMIT_PER_MINUTE",
        "RATE_LIMIT_BURST",
        "RATE_LIMIT_READS_PER_MINUTE",
        "RATE_LIMIT_READS_BURST",
        "RATE_LIMIT_GLOBAL_PER_HOUR",
        "TRUSTED_PROXIES",
        "ALLOWED_HOSTS",
        "LLM_PLATFORM_API_KEYS",
    )
)
FORWARDING = frozenset(
    b"cf-connecting-ip forwarded via x-forwarded-for x-forwarded-host x-forwarded-proto x-real-ip".split()
)

Address = IPv4Address | IPv6Address
Header = tuple[bytes, bytes]


class ClientAddresses:
    """Finds the address of a client. X-Forwarded-For counts only if it was sent by a trusted proxy."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._trusted = tuple(ip_network(network) for network in trusted)

    @property
    def reads_forwarded(self) -> bool:
        return bool(self._trusted)

    def identify(self, peer: str, forwarded: bytes) -> str:
        """Return the client's address as it is counted: an IPv4 address or an IPv6 /64.

        The list is read from the right, because each proxy appends the address that it saw. The first address that is not
        a trusted proxy is the client. The entries before it are the client's own claim. An unreadable entry ends the list.
        """
        if not forwarded:
            return group_address(peer)
        client = peer
        # From the right: the last proxies are ours.
        for part in reversed(forwarded.rsplit(b",", MAX_FORWARDED)[-MAX_FORWARDED:]):
            entry = _without_port(part.decode("latin-1").strip())
            if not self._is_trusted(client) or parse_address(entry) is None:
                break
            client = entry
        return group_address(client)

    def _is_trusted(self, text: str) -> bool:
        address = parse_address(text)
        return address is not None and any(address in network for network in self._trusted)


class LocalPrograms:
    """The programs on this machine, such as the user's own agent. Their requests are not limited by default.

    This applies if the server listens on loopback alone and no setting of SERVING is set. A request that may come through a
    proxy (a header of FORWARDING, a Host that is not a loopback name, HTTP/1.0 as nginx sends it) or from a web page of another
    origin does not count as one of theirs.
    """

    def __init__(self, settings: Settings) -> None:
        self._are_exempt = settings.LLM_PLATFORM_HOST in LOOPBACK_HOSTS and SERVING.isdisjoint(
            settings.model_fields_set
        )

    @property
    def are_exempt(self) -> bool:
        return self._are_exempt

    def have_sent(self, scope: Scope) -> bool:
        """Return whether a program on this machine sent the request."""
        if not self._are_exempt or scope.get("http_version") == "1.0":
            return False
        address = parse_address((scope.get("client") or ("",))[0])
        headers = dict(scope["headers"])
        return (
            address is not None
            and address.is_loopback
            and get_host_name(headers.get(b"host", b"")) in LOOPBACK_HOSTS
            and FORWARDING.isdisjoint(headers)
        )


def parse_address(text: str) -> Address | None:
    """Return the address, an IPv4-mapped one as IPv4, or None if it cannot be read."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


@lru_cache(PARSED_ADDRESSES)
def group_address(text: str) -> str:
    """Return the address as it is counted."""
    address = parse_address(text)
    if address is None:
        return UNKNOWN_ADDRESS
    return str(address) if isinstance(address, IPv4Address) else f"{int(address) >> IPV6_HOST_BITS:x}/{IPV6_HOST_BITS}"


def _without_port(entry: str) -> str:
    """Return the address of `203.0.113.9:5050`, `[2001:db8::1]:443` or an address alone."""
    if entry.startswith("["):
        return entry[1:].partition("]")[0]
    return entry.partition(":")[0] if entry.count(":") == 1 else entry


class WrongKeyLimit:
    """Limits the requests of an address that have a wrong API key, so that keys cannot be guessed at full speed.

    An address above the limit gets 429 instead of 401, even with a right key, which would otherwise confirm a guess. A key
    that this address has used before is still accepted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Keyed by address; the state and the end of the refusal.
        self._refused: dict[str, tuple[LimitState, float]] = {}
        self._used: dict[tuple[str, str], None] = {}  # Addresses with the keys that they have used, oldest first.

    def refuse(self, address: str, exceeded: LimitState) -> RateLimitedError:
        """Refuse requests of this address until the limit allows one more, and return the error."""
        if len(self._refused) >= MAX_REFUSED:
            self._refused.clear()
        self._refused[address] = (exceeded, self._clock() + exceeded.next_s)
        return RateLimitedError(exceeded)

    def check(self, address: str, key: str) -> None:
        """Raise RateLimitedError for a right key if the address is refused and has not used this key before."""
        pair = (address, key)
        if pair in self._used:
            return
        exceeded, until = self._refused.get(address, (None, 0.0))
        if exceeded is not None and self._clock() < until:
            raise RateLimitedError(exceeded)
        if len(self._used) >= MAX_USED_KEYS:
            del self._used[next(iter(self._used))]  # The oldest one.
        self._used[pair] = None


class RetrySchedule:
    """Spreads the retries of refused requests of a client: each gets the time at which the limit allows one more request.

    With the same time, all but one of a burst would be refused again, and SDKs retry only twice.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], float] = {}  # The last time that was given, keyed by limit and client.

    def wait_s(self, client: str, exceeded: LimitState) -> float:
        """Return the seconds after which one more refused request may come back.

        They are at most MAX_SCHEDULED_S, unless the limit itself allows no earlier request.
        """
        now, of_all = self._clock(), exceeded.limit.name == "server"
        key = exceeded.limit.name, "" if of_all else client
        earliest = now + exceeded.next_s
        free = max(earliest, self._last.pop(key, 0.0) + exceeded.limit.interval_s)
        # A limit of one request in several minutes has a longer wait; it is not extended by a queue.
        given = max(earliest, min(free, now + MAX_SCHEDULED_S))
        if len(self._last) >= MAX_SCHEDULED:
            del self._last[next(iter(self._last))]  # The least recently used one.
        self._last[key] = given
        return given - now


def make_policy_header(limits: RateLimits) -> Header:
    """Return RateLimit-Policy, the same for all responses. The burst is a parameter of our own, as the draft allows."""
    policies = (
        f'"{limit.name}";q={limit.quota};w={limit.window_s};llm-platform-burst={limit.burst}'
        for limit in (limits.client, limits.server, limits.reads)
        if limit
    )
    return (b"ratelimit-policy", ", ".join(policies).encode())


def rate_limit_header(decision: RateLimitDecision) -> Header | None:
    """Return RateLimit. The limit of all clients appears only if it refuses: it would reveal what others do."""
    server = decision.server if decision.server is not None and decision.server.is_exceeded else None
    states = [state for state in (decision.client, server) if state is not None]
    if not states:
        return None
    items = (f'"{state.limit.name}";r={state.remaining};t={max(1, math.ceil(state.next_s))}' for state in states)
    return (b"ratelimit", ", ".join(items).encode())


def charge_background_pages(server: ServerState, owner: str) -> Charge:
    """Return how the pages of a background run are charged: to its API key, or without keys to all background runs together,
    since the address of a client is not stored.
    """

    async def charge() -> float:
        limiter = server.rate_limiter
        decision = await limiter.take(owner or BACKGROUND) if limiter is not None else RateLimitDecision()
        return decision.exceeded.next_s if decision.exceeded is not None else 0.0

    return charge
