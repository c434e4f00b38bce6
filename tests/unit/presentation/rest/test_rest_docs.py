"""The page of the HTTP interface: it works without a network and without a key, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
from scripts import swagger_ui
from tests.unit.presentation.rest.fake_platform import door

from modules.llm_platform.presentation.rest.docs_routes import FOLDER, MEDIA_TYPES

KEY = "a-long-random-word"
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Sec-Fetch-Mode": "navigate"}


class Links(HTMLParser):
    """What a page loads or leads to, and the text of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""
        self.written = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]
        self.written += "".join(value or "" for name, value in attrs if name == "style" or name.startswith("on"))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style"):
            self.written += data.strip()


@pytest.mark.parametrize("keys", ["", KEY])
async def test_the_page_comes_with_all_that_it_loads(keys: str) -> None:
    """Page, scripts, style and document are there under relative addresses, with keys set too, and of the right type."""
    async with door(LLM_PLATFORM_API_KEYS=keys) as client:
        page = await client.get("/docs", headers=BROWSER)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        links = Links(page.text)
        loaded = [link for link in links.found if not link.startswith("data:")]
        assert {link.rpartition("/")[2] for link in loaded} == {*MEDIA_TYPES, "openapi.json"}
        for link in loaded:
            assert not re.match(r"[a-z]*:|/", link), "an address of its own host or root breaks behind a proxy's prefix"
            answer = await client.get(urljoin("/docs", link), headers={"Sec-Fetch-Site": "same-origin"})
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(("text/javascript", "text/css", "application/json"))
            assert answer.content


async def test_the_page_shows_the_document_of_the_server() -> None:
    """The page's copy of the document is the one that /openapi.json gives, and the script asks for it."""
    async with door() as client:
        own, document = await client.get("/docs/openapi.json"), await client.get("/openapi.json")
    assert own.json() == document.json()
    assert 'url: "docs/openapi.json"' in (FOLDER / "start.js").read_text(encoding="utf-8")


async def test_the_browser_is_told_to_load_nothing_else() -> None:
    """The policy allows files of this server alone, no script or style in the page, and no frame around it."""
    async with door() as client:
        page = await client.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "http" not in page.headers["content-security-policy"]
    assert Links(page.text).written == ""


async def test_with_keys_the_routes_want_one_all_the_same() -> None:
    """The page is open, what it calls is not: neither a search nor the document under its public name."""
    async with door(LLM_PLATFORM_API_KEYS=KEY) as client:
        for path in ("/search?q=x", "/openapi.json", "/docsx", "/doc"):
            assert (await client.get(path)).status_code == 401
        assert (await client.post("/research", json={"query": "solar sails"})).status_code == 401


@pytest.mark.parametrize(
    ("accept", "status"),
    [(BROWSER["Accept"], 307), ("TEXT/HTML", 307), ("*/*", 200), ("application/json", 200), ("", 200)],
)
@pytest.mark.parametrize("keys", ["", KEY])
async def test_the_root_leads_a_browser_to_the_page(accept: str, status: int, keys: str) -> None:
    """A browser is redirected, any other client reads which routes there are; neither needs a key."""
    async with door(LLM_PLATFORM_API_KEYS=keys) as client:
        answer = await client.get("/", headers={"Accept": accept})
        assert answer.status_code == status
        assert answer.headers["vary"] == "Accept"
        if status == 307:
            assert urljoin("http://localhost/", answer.headers["location"]) == "http://localhost/docs"
        else:
            named = answer.json()
            described = (await client.get("/docs/openapi.json")).json()["paths"]
            assert {route.split(" ")[1] for route in named["routes"]} <= set(described)
            assert (await client.get(named["docs"])).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_link_of_any_site_leads_to_the_page(path: str) -> None:
    """Who clicks a link to the page comes in; a script of that site does not, nor does its address open other routes."""
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    async with door() as client:
        assert (await client.get(path, headers=followed)).status_code in (200, 307)
        assert (await client.get(path, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})).status_code == 403
        assert (await client.get(path, headers={**followed, "Origin": "https://evil.test"})).status_code == 403
        assert (await client.get("/search?q=x", headers=followed)).status_code == 403
        assert (await client.get("/docs/start.js", headers=followed)).status_code == 403
        assert (await client.get(path, headers={"Host": "evil.test"})).status_code == 421


async def test_a_secret_that_looks_like_the_page_breaks_nothing() -> None:
    """Answers are searched for configured secrets: the script passes through unchanged when it holds none."""
    async with door(BOCHA_API_KEY="sk-bocha-0123456789") as client:
        script = await client.get("/docs/swagger-ui-bundle.js")
    assert script.content == (FOLDER / "swagger-ui-bundle.js").read_bytes()
    assert int(script.headers["content-length"]) == len(script.content)


class TestTheFilesOfOthers:
    def test_they_are_the_pinned_ones(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Nobody changed what came from the registry."""
        assert swagger_ui.main(["--check"]) == 0, capsys.readouterr().err

    def test_a_changed_file_is_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One byte more, or a missing file, is named."""
        folder = tmp_path / "files"
        shutil.copytree(FOLDER, folder)
        (folder / "swagger-ui.css").write_bytes((FOLDER / "swagger-ui.css").read_bytes() + b"\n")
        (folder / "NOTICE").unlink()
        monkeypatch.setattr(swagger_ui, "FOLDER", folder)
        assert swagger_ui.main(["--check"]) == 1
        assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["swagger-ui.css", "NOTICE"]

    def test_another_tarball_is_not_unpacked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What the registry gives under the pinned version is compared before anything is written."""

        def pack(command: list[str], **_: object) -> None:
            (Path(command[command.index("--pack-destination") + 1]) / "swagger-ui-dist.tgz").write_bytes(b"another one")

        monkeypatch.setattr(swagger_ui.subprocess, "run", pack)
        monkeypatch.setattr(swagger_ui, "FOLDER", tmp_path / "files")
        assert swagger_ui.main([]) == 1
        assert "is pinned" in capsys.readouterr().err
        assert not (tmp_path / "files").exists()

    def test_their_licence_is_named(self) -> None:
        """NOTICE says what is part of the package, of which version, and under which licence."""
        notice = (Path(swagger_ui.__file__).parents[1] / "NOTICE").read_text(encoding="utf-8")
        assert f"swagger-ui-dist {swagger_ui.VERSION}" in notice
        assert "Apache-2.0" in notice
