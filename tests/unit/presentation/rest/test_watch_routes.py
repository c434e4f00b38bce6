"""The routes of watched questions are visible to their owner only."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.fakes.watch_store import change, claim, finish
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client

from modules.llm_platform.application.services import watch_service
from modules.llm_platform.domain.dtos.watch_dtos import NextRun
from modules.llm_platform.domain.ports.rate_limiter import RateLimit, RateLimits
from modules.llm_platform.infrastructure.limits.memory_rate_limiter import MemoryRateLimiter
from modules.llm_platform.infrastructure.stores.watches.sqlite import SqliteWatchStore

QUESTION = "What is the toll on the bridge?"
BODY = {"query": QUESTION, "every_s": 86_400}
KEYS = ("a-long-enough-key-of-alice", "a-long-enough-key-of-bob")
ALICE, BOB = ({"X-API-Key": key} for key in KEYS)


@pytest.fixture
def services(tmp_path: Path) -> FakeServices:
    services = FakeServices()
    services.watch_store = SqliteWatchStore(tmp_path / "watches.sqlite3")
    return services


async def test_a_watch_is_added_listed_and_removed(services: FakeServices) -> None:
    """The response is 201 with the location, and contains the maximal cost."""
    async with app_client(services) as client:
        added = await client.post("/watches", json={**BODY, "urls": ["https://example.org/toll"], "language": "en"})
        assert added.status_code == 201
        watch = added.json()
        assert added.headers["location"] == f"/watches/{watch['id']}"
        assert (watch["query"], watch["depth"], watch["sources"]) == (QUESTION, "deep", None)
        assert (watch["state"], watch["urls"]) == ("active", ["https://example.org/toll"])
        assert watch["at_most"]["run"] == {"searches": 0, "pages": 4, "llm_calls": 0, "tokens": 0, "cost_usd": 0.0}
        assert watch["at_most"]["days_30"]["pages"] == 120
        assert (await client.get(added.headers["location"])).json() == watch
        other = (await client.post("/watches", json={**BODY, "sources": ["news"]})).json()
        assert other["sources"] == ["news"]
        page = (await client.get("/watches", params={"limit": 1})).json()
        assert [one["id"] for one in page["watches"]] == [other["id"]]
        assert page["next"].partition("@")[0] == other["id"]
        rest = (await client.get("/watches", params={"before": page["next"]})).json()
        assert [one["id"] for one in rest["watches"]] == [watch["id"]]
        assert rest["next"] is None
        removed = await client.delete(added.headers["location"])
        assert (removed.status_code, removed.content) == (204, b"")
        assert (await client.get(added.headers["location"])).json()["code"] == "watch_not_found"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("every_s", 60, "greater than or equal to 900"),
        ("every_s", None, "is missing"),
        ("query", "a", "at least 3"),
        ("urls", ["doc:secret.md"], "http"),
        ("depth", "endless", "must be"),
        ("max_cost_usd", -1.0, "greater than 0"),
        ("webhook", "ftp://example.org", "http"),
    ],
)
async def test_a_wrong_field_is_named(services: FakeServices, field: str, value: object, message: str) -> None:
    body = {name: entry for name, entry in {**BODY, field: value}.items() if entry is not None}
    async with app_client(services) as client:
        refused = await client.post("/watches", json=body)
        assert refused.status_code == 422
        [error] = refused.json()["errors"]
        assert field in error["loc"]
        assert message in error["msg"]


async def test_a_webhook_that_cannot_be_signed_is_refused(services: FakeServices) -> None:
    async with app_client(services) as client:
        refused = await client.post("/watches", json={**BODY, "webhook": "https://example.org/hook"})
        assert (refused.status_code, refused.json()["code"]) == (422, "webhook")
        assert (await client.get("/watches")).json()["watches"] == []


async def test_watches_belong_to_the_key_that_added_them(services: FakeServices) -> None:
    """For any other key none of the routes finds one, and without a key nothing is answered."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=",".join(KEYS)) as client:
        assert (await client.get("/watches")).status_code == 401
        added = await client.post("/watches", json=BODY, headers=ALICE)
        assert added.status_code == 201, added.text
        watch_id = added.json()["id"]
        assert len((await client.get("/watches", headers=ALICE)).json()["watches"]) == 1
        assert (await client.get("/watches", headers=BOB)).json()["watches"] == []
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/run"),
            ("GET", "/changes"),
            ("GET", "/feed.atom"),
        ):
            answer = await client.request(method, f"/watches/{watch_id}{path}", headers=BOB)
            assert (answer.status_code, answer.json()["code"]) == (404, "watch_not_found"), path
        assert (await client.get(f"/watches/{watch_id}", headers=ALICE)).status_code == 200


async def test_a_feed_takes_the_key_as_a_password(services: FakeServices) -> None:
    """Feed readers send nothing else. No other route takes it, because a browser would send it without being asked."""
    async with app_client(services, LLM_PLATFORM_API_KEYS=",".join(KEYS)) as client:
        watch_id = (await client.post("/watches", json=BODY, headers=ALICE)).json()["id"]
        feed = f"/watches/{watch_id}/feed.atom"
        refused = await client.get(feed)
        assert (refused.status_code, refused.headers["www-authenticate"].split()[0]) == (401, "Basic")
        assert "as the password" in refused.json()["detail"]
        for key, status in ((KEYS[0], 200), (KEYS[1], 404), ("wrong", 401)):
            assert (await client.get(feed, auth=("reader", key))).status_code == status
        malformed = await client.get(feed, headers={"Authorization": "Basic ?"})
        assert malformed.status_code == 401
        for path in ("/watches", f"/watches/{watch_id}", f"/watches/{watch_id}/changes", f"{feed}/../run"):
            other = await client.get(path, auth=("reader", KEYS[0]))
            assert (other.status_code, other.headers["www-authenticate"]) == (401, "Bearer"), path


async def test_a_feed_reader_that_waits_for_the_challenge_guesses_no_key(services: FakeServices) -> None:
    """It asks without a key before each read. A wrong password counts as a wrong key."""
    limiter = MemoryRateLimiter(RateLimits(RateLimit("client", 1, 3600, burst=1)))
    async with app_client(services, rate_limiter=limiter, LLM_PLATFORM_API_KEYS=",".join(KEYS)) as client:
        feed = f"/watches/{'a' * 32}/feed.atom"
        assert [(await client.get(feed)).status_code for _ in range(3)] == [401] * 3
        wrong = [(await client.get(feed, auth=("reader", "wrong"))).status_code for _ in range(2)]
        assert wrong == [401, 429]


async def test_changes_are_pages_and_a_feed(services: FakeServices) -> None:
    """Newest first, with both sides."""
    store = services.watch_store
    assert store is not None
    async with app_client(services) as client:
        watch_id = (await client.post("/watches", json=BODY)).json()["id"]
        await finish(store, await claim(store), change("12"), change("13"))
        page = (await client.get(f"/watches/{watch_id}/changes", params={"limit": 1})).json()
        [found] = page["changes"]
        assert (found["kind"], found["number"], found["run"], page["next"]) == ("changed", 2, 1, 2)
        assert found["now"]["quote"] == "The toll is 13 euros."
        rest = (await client.get(f"/watches/{watch_id}/changes", params={"before": page["next"]})).json()
        assert ([one["number"] for one in rest["changes"]], rest["next"]) == ([1], None)
        feed = await client.get(f"/watches/{watch_id}/feed.atom")
        assert feed.headers["content-type"].startswith("application/atom+xml")
        root = ElementTree.fromstring(feed.content)
        assert len(root.findall("{http://www.w3.org/2005/Atom}entry")) == 2
        link = root.find("{http://www.w3.org/2005/Atom}link")
        assert link is not None
        assert link.get("href") == f"http://localhost/watches/{watch_id}/feed.atom"


async def test_a_paused_watch_says_why_and_how_to_resume_it(services: FakeServices) -> None:
    """A run makes it active and due."""
    store = services.watch_store
    assert store is not None
    async with app_client(services) as client:
        watch_id = (await client.post("/watches", json=BODY)).json()["id"]
        await finish(store, await claim(store), status="failed", following=NextRun(900.0, 3, "refused"))
        watch = (await client.get(f"/watches/{watch_id}")).json()
        assert (watch["state"], watch["paused_because"], watch["problem"]) == (
            "paused",
            "refused",
            "The site refuses.",
        )
        assert watch["remedy"].endswith("run the watch to resume it")
        assert [run["status"] for run in watch["last_runs"]] == ["failed"]
        resumed = await client.post(f"/watches/{watch_id}/run")
        assert resumed.status_code == 202
        assert resumed.json()["state"] == "active"
        assert datetime.fromisoformat(resumed.json()["next_at"]) <= datetime.now(UTC)


async def test_a_caller_has_a_limited_number_of_watches(
    services: FakeServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_service, "MAX_WATCHES", 1)
    async with app_client(services) as client:
        assert (await client.post("/watches", json=BODY)).status_code == 201
        refused = await client.post("/watches", json=BODY)
        assert (refused.status_code, refused.json()["code"]) == (409, "watch_limit")


async def test_without_a_store_nothing_is_watched() -> None:
    async with app_client() as client:
        for refused in (
            await client.post("/watches", json=BODY),
            await client.get("/watches"),
            await client.get("/watches/abc"),
            await client.post("/watches/abc/run"),
        ):
            assert (refused.status_code, refused.json()["code"]) == (422, "background")
            assert "STORE_TTL_DAYS" in refused.json()["detail"]


async def test_what_is_no_id_is_no_place_in_the_list(services: FakeServices) -> None:
    async with app_client(services) as client:
        refused = await client.get("/watches?before=zz")
        assert refused.status_code == 422
        assert "before" in refused.text
        unknown = await client.get(f"/watches?before={'0' * 32}")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "watch_not_found")
