"""API keys with labels, owners of stored sources, security headers, and rate limit counts."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.domain.telemetry.metrics import RATE_LIMIT_DECISIONS
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.presentation.rest.http.access import AccessPolicy
from shared.config import Settings
from shared.setting_types import ApiKey

QUESTION = {"query": "solar sails"}
KEY, OTHER_KEY = "a-long-random-word", "another-random-word"


@for_each(
    ("setting", "accepted", "refused"),
    [
        (KEY, [KEY], ["", "a-long"]),
        (f"alice:{KEY}", [KEY, f"alice:{KEY}"], ["alice", "", f"bob:{KEY}", f":{KEY}"]),
        ("old:key", ["old:key"], ["key", "old"]),  # too short for a key: no label
        (f"two words:{KEY}", [f"two words:{KEY}"], [KEY]),
    ],
)
async def test_labelled_and_plain_keys(setting: str, accepted: list[str], refused: list[str]) -> None:
    """A labelled key is sent without its label; a key that merely contains a colon keeps working."""
    async with app_client(LLM_PLATFORM_API_KEYS=setting) as client:
        for expected, keys in ((200, accepted), (401, refused)):
            answers = [await client.get("/search?q=x", headers={"X-API-Key": key}) for key in keys]
            assert [answer.status_code for answer in answers] == [expected] * len(keys)


@for_each(
    ("keys", "is_one"),
    [
        ("", True),
        (KEY, True),
        (f"alice:{KEY}", True),
        (f"alice:{KEY},alice:{OTHER_KEY}", True),
        (f"alice:{KEY},bob:{OTHER_KEY}", False),
        (f"{KEY},{OTHER_KEY}", False),
    ],
)
def test_keys_with_one_label_are_one_caller(keys: str, is_one: bool) -> None:
    """Two keys with one label, as during a rotation, share their data."""
    assert AccessPolicy(Settings(_env_file=None, LLM_PLATFORM_API_KEYS=keys)).has_one_caller == is_one


def test_the_owners_are_all_callers_and_nobody() -> None:
    """Data that was stored without a key belongs to the operator."""
    labelled = Settings(_env_file=None, LLM_PLATFORM_API_KEYS=f"alice:{KEY},alice:{OTHER_KEY},bob:a-third-random-word")
    assert AccessPolicy(labelled).owners == ("", "label:alice", "label:bob")
    assert AccessPolicy(Settings(_env_file=None)).owners == ("",)
    [_, owner] = AccessPolicy(Settings(_env_file=None, LLM_PLATFORM_API_KEYS=KEY)).owners
    assert KEY not in owner


@for_each(
    ("origins", "allowed"), [("*", True), ("https://app.example", True), ("https://other.example", False), ("", False)]
)
def test_no_setting_allows_the_opaque_origin(origins: str, allowed: bool) -> None:
    """`null` is the origin of every sandboxed frame and local file: not even `*` means those."""
    policy = AccessPolicy(Settings(_env_file=None, CORS_ORIGINS=origins))
    assert policy.allows_origin(b"https://APP.example") == allowed
    assert not policy.allows_origin(b"null")
    assert not policy.allows_origin(None)


def test_a_labelled_key_is_a_secret_without_its_label_too() -> None:
    """What the client sends is redacted."""
    settings = Settings(_env_file=None, LLM_PLATFORM_API_KEYS=f"alice:{KEY}")
    assert {KEY, f"alice:{KEY}"} <= set(settings.secrets())
    assert settings.api_keys() == (ApiKey("alice", (KEY, f"alice:{KEY}")),)


async def test_owner_of_a_research() -> None:
    """The owner is the label, or a digest of the key: the same for all routes, another one for another key."""
    services = FakeServices()
    async with app_client(services, LLM_PLATFORM_API_KEYS=f"{KEY},team:{OTHER_KEY},team:third-random-word") as client:
        for key in (KEY, OTHER_KEY, "third-random-word"):
            headers = {"X-API-Key": key}
            await client.post("/research", json=QUESTION, headers=headers)
            await client.post("/research", json={**QUESTION, "stream": True}, headers=headers)
            await client.get("/research/held/sources/1", headers=headers)
    first, second, third = services.owners[:3], services.owners[3:6], services.owners[6:]
    assert [len(set(owners)) for owners in (first, second, third)] == [1, 1, 1]
    assert first[0] != second[0] == third[0] == "label:team"
    assert KEY not in first[0]


def test_public_routes_have_no_caller() -> None:
    """A probe has no caller, even with a key."""
    policy = AccessPolicy(Settings(_env_file=None, LLM_PLATFORM_API_KEYS=KEY))
    assert policy.check("/health", {b"host": b"localhost", b"x-api-key": KEY.encode()}).label == ""


@for_each("path", ["/search?q=x", "/nothing-here", "/health", "/docs", "/docs/swagger-ui.css"])
async def test_security_headers(path: str) -> None:
    """Every response has each header once. The headers forbid sniffing, referrers, frames and embedding."""
    async with app_client() as client:
        headers = (await client.get(path)).headers
    assert headers.get_list("x-content-type-options") == ["nosniff"]
    assert headers.get_list("referrer-policy") == ["no-referrer"]
    assert headers.get_list("cross-origin-resource-policy") == ["same-origin"]
    assert len(headers.get_list("content-security-policy")) == len(headers.get_list("cache-control")) == 1
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == {"/docs": "no-cache", "/docs/swagger-ui.css": "max-age=3600"}.get(
        path, "no-store"
    )


async def test_decisions_are_counted() -> None:
    """The metrics count what each limit allowed and refused."""
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 2, 3600, 2), RateLimit("server", 9, 3600, 9)))
    async with app_client(rate_limiter=limiter) as client:
        for _ in range(3):
            await client.get("/search?q=x")
        text = (await client.get("/metrics")).text
    lines = [line.removeprefix(RATE_LIMIT_DECISIONS.name) for line in text.splitlines()]
    assert {" client allowed 2.0", " client refused 1.0", " server allowed 2.0"} <= set(lines)
