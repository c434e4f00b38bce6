"""The pages work without a network and an API key, and load only local files."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin
from xml.etree import ElementTree

import pytest
from scripts import vendored
from tests.support.cases import for_each
from tests.unit.presentation.rest.fake_platform import app_client

from modules.llm_platform.infrastructure.documents.folder import SUFFIXES
from modules.llm_platform.presentation.rest.docs_routes import (
    FOLDER,
    MEDIA_TYPES,
    RESEARCH_FILES,
    RESEARCH_FOLDER,
    UNCHANGING,
    research_version,
)

KEY = "a-long-random-word"
MAX_PAGE_BYTES = 187_000
# Loaded for a formula, a file, a report, the check of a text, watched questions.
LAZY = (
    "watches",
    "formulas",
    "vendor/temml",
    "export_files",
    "picture",
    "ready",
    "sections",
    "verification",
    "verified_text",
)
LANGUAGES = ("ar", "de", "he", "ru", "zh")  # in addition to English
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Sec-Fetch-Mode": "navigate"}


class Links(HTMLParser):
    """The links of a page, and its inline scripts and styles."""

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
async def test_page_and_its_files_are_served(keys: str) -> None:
    """Page, scripts, style and document are there under relative addresses, with keys set too, and of the right type."""
    async with app_client(LLM_PLATFORM_API_KEYS=keys) as client:
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


async def test_page_uses_the_openapi_document_of_the_server() -> None:
    """The page's copy of the document is the one that /openapi.json gives, and the script asks for it."""
    async with app_client() as client:
        own, document = await client.get("/docs/openapi.json"), await client.get("/openapi.json")
    assert own.json() == document.json()
    assert 'url: "docs/openapi.json"' in (FOLDER / "start.js").read_text(encoding="utf-8")


async def test_content_security_policy_allows_local_files_only() -> None:
    """The policy allows files of this server alone, no script or style in the page, and no frame around it."""
    async with app_client() as client:
        page = await client.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "http" not in page.headers["content-security-policy"]
    assert Links(page.text).written == ""


async def test_other_routes_require_a_key() -> None:
    """The page is public, but its requests are not: neither a search nor the document under its public name."""
    async with app_client(LLM_PLATFORM_API_KEYS=KEY) as client:
        for path in ("/search?q=x", "/openapi.json", "/docsx", "/doc"):
            assert (await client.get(path)).status_code == 401
        assert (await client.post("/research", json={"query": "solar sails"})).status_code == 401


@for_each(
    ("accept", "is_page"),
    [(BROWSER["Accept"], True), ("TEXT/HTML", True), ("*/*", False), ("application/json", False), ("", False)],
)
@for_each("keys", ["", KEY])
async def test_root_is_the_page_for_browsers(accept: str, is_page: bool, keys: str) -> None:
    """A browser gets the page, any other client reads which routes there are; neither needs a key."""
    async with app_client(LLM_PLATFORM_API_KEYS=keys) as client:
        answer = await client.get("/", headers={"Accept": accept})
        assert answer.status_code == 200
        assert "Accept" in answer.headers["vary"]
        if is_page:
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            content = (RESEARCH_FOLDER / "index.html").read_text(encoding="utf-8")
            assert answer.text == content.replace('"page/', f'"page/{research_version()}/')
        else:
            named = answer.json()
            described = (await client.get("/docs/openapi.json")).json()["paths"]
            assert {route.split(" ")[1] for route in named["routes"]} <= set(described)
            assert {"POST /research", "POST /verify", "POST /watches"} <= set(named["routes"])
            assert (await client.get(named["docs"])).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_any_site_may_link_to_the_page(path: str) -> None:
    """A link to the page may be opened from any site.

    A script of another site cannot load it, and the page's address opens no other route.
    """
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    async with app_client() as client:
        assert (await client.get(path, headers=followed)).status_code == 200
        assert (
            await client.get(path, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})
        ).status_code == 403
        assert (await client.get(path, headers={**followed, "Origin": "https://evil.test"})).status_code == 403
        assert (await client.get("/search?q=x", headers=followed)).status_code == 403
        assert (await client.get("/docs/start.js", headers=followed)).status_code == 403
        assert (await client.get(path, headers={"Host": "evil.test"})).status_code == 421


async def test_redaction_does_not_change_the_page_files() -> None:
    """Answers are searched for configured secrets: the script passes through unchanged when it holds none."""
    async with app_client(BOCHA_API_KEY="sk-bocha-0123456789") as client:
        script = await client.get("/docs/swagger-ui-bundle.js")
    assert script.content == (FOLDER / "swagger-ui-bundle.js").read_bytes()
    assert int(script.headers["content-length"]) == len(script.content)


class TestBrowserFiles:
    """What a browser reads to install the page and to offer it as a search engine."""

    @pytest.mark.parametrize("keys", ["", KEY])
    async def test_manifest(self, keys: str) -> None:
        """It needs no key, and its addresses are relative, so that a prefix of a proxy is no matter; its icon is there."""
        async with app_client(LLM_PLATFORM_API_KEYS=keys) as client:
            links = Links((await client.get("/", headers=BROWSER)).text).found
            answer = await client.get("/manifest.webmanifest", headers={"Sec-Fetch-Site": "same-origin"})
            manifest = answer.json()
            icon = await client.get(urljoin("/manifest.webmanifest", manifest["icons"][0]["src"]))
        assert "manifest.webmanifest" in links
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/manifest+json")
        assert manifest["start_url"] == manifest["scope"] == "./"
        assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")

    @for_each(
        ("headers", "base"),
        [
            ({"Host": "localhost:8000"}, "http://localhost:8000/"),
            ({"Host": "localhost", "X-Forwarded-Proto": "https"}, "https://localhost/"),
            ({"Host": "localhost", "X-Forwarded-Proto": "javascript"}, "http://localhost/"),
        ],
    )
    async def test_search_engine(self, headers: dict[str, str], base: str) -> None:
        """A question is sent to the address under which the page was opened, also behind a proxy that terminates TLS."""
        async with app_client(LLM_PLATFORM_API_KEYS=KEY) as client:
            links = Links((await client.get("/", headers=BROWSER)).text).found
            answer = await client.get("/opensearch.xml", headers=headers)
        assert "opensearch.xml" in links
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/opensearchdescription+xml")
        name = "{http://a9.com/-/spec/opensearch/1.1/}Url"
        (url,) = ElementTree.fromstring(answer.content).iter(name)
        assert url.get("template") == f"{base}?q={{searchTerms}}"

    async def test_search_engine_for_an_unknown_host(self) -> None:
        """A host name that is not the server's gets no OpenSearch description."""
        async with app_client() as client:
            assert (await client.get("/opensearch.xml", headers={"Host": "evil.test"})).status_code == 421


class TestResearchPage:
    """The page at /: its files, its content security policy, and its size."""

    @pytest.mark.parametrize("keys", ["", KEY])
    async def test_its_files_are_served(self, keys: str) -> None:
        """Everything that the page and its modules name is there under relative addresses, and nothing else is served."""
        async with app_client(LLM_PLATFORM_API_KEYS=keys) as client:
            links = Links((await client.get("/", headers=BROWSER)).text).found
            loaded = {link.replace(f"{research_version()}/", "") for link in links if link.startswith("page/")}
            for name in RESEARCH_FILES:
                answer = await client.get(
                    f"/page/{research_version()}/{name}", headers={"Sec-Fetch-Site": "same-origin"}
                )
                assert answer.status_code == 200
                assert answer.content == (RESEARCH_FOLDER / name).read_bytes()
                folder = f"page/{name}".rpartition("/")[0]
                found = (
                    re.findall(r'(?:from |import |import\()"\./([\w./-]+)"', answer.text)
                    if name.endswith(".js")
                    else []
                )
                loaded |= {f"{folder}/{module}" for module in found}
            lazy = {f"page/lang/{language}.js" for language in LANGUAGES}  # one of them, when it is chosen
            assert loaded | lazy == {f"page/{name}" for name in RESEARCH_FILES}
            for name in ("index.html", "vendor/dompurify.LICENSE", "../docs_routes.py", "vendor", ""):
                assert (await client.get(f"/page/{name}")).status_code in (401, 404)

    def test_every_file_of_the_folder_is_known(self) -> None:
        """Every file of the folder is served or is a licence."""
        files = {path.relative_to(RESEARCH_FOLDER).as_posix() for path in RESEARCH_FOLDER.rglob("*") if path.is_file()}
        assert {name for name in files if not name.endswith(".LICENSE")} == {*RESEARCH_FILES, "index.html"}

    async def test_policy(self) -> None:
        """Files of this server alone, no script or style in the page, and only the sanitizer makes elements of text."""
        async with app_client() as client:
            page = await client.get("/", headers=BROWSER)
        policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert policy["trusted-types"] == "dompurify"
        assert policy["manifest-src"] == "'self'"
        assert Links(page.text).written == ""

    async def test_the_whole_page_is_small(self) -> None:
        """With the longest of the languages, compressed as a browser asks for it: below 187 kB, without LAZY."""
        async with app_client() as client:
            paths = ["/", *(f"/page/{name}" for name in RESEARCH_FILES)]
            answers = [await client.get(path, headers={**BROWSER, "Accept-Encoding": "gzip"}) for path in paths]
        assert all(answer.headers["content-encoding"] == "gzip" for answer in answers)
        # A cache must not return the compressed file to a client without compression, nor the page to a JSON client.
        assert {answer.headers["vary"] for answer in answers} == {"Accept, Accept-Encoding"}
        sizes = {path: int(answer.headers["content-length"]) for path, answer in zip(paths, answers, strict=True)}
        unused = sorted(size for path, size in sizes.items() if path.startswith("/page/lang/"))[:-1]
        lazy = sum(sizes[f"/page/{name}.js"] for name in LAZY)
        assert sum(sizes.values()) - sum(unused) - lazy < MAX_PAGE_BYTES

    def test_style_has_logical_sides(self) -> None:
        """No rule names left or right, so that the page mirrors for Arabic and Hebrew; the alignment of a column may."""
        for name in ("page.css", "print.css"):
            rules = re.sub(r"/\*.*?\*/", "", (RESEARCH_FOLDER / name).read_text(encoding="utf-8"), flags=re.DOTALL)
            named = re.findall(r".*\b(?:left|right)\b.*", rules.replace("[align=right] { text-align: right }", ""))
            assert not named

    async def test_unchanged_files_are_not_sent_again(self) -> None:
        """A browser asks each time, so that a new version is seen at once, and gets 304 with the same headers."""
        async with app_client() as client:
            first = await client.get("/page/main.js")
            again = await client.get("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
            page = await client.get("/", headers=BROWSER)
            page_again = await client.get("/", headers={**BROWSER, "If-None-Match": page.headers["etag"]})
        assert (first.headers["cache-control"], again.status_code, again.content) == ("no-cache", 304, b"")
        assert page_again.headers["content-security-policy"] == page.headers["content-security-policy"]

    async def test_files_of_this_version_are_not_asked_for_again(self) -> None:
        """The addresses that the page names are kept; one of another version, as an open page may name it, is never kept."""
        async with app_client() as client:
            named = [
                link for link in Links((await client.get("/", headers=BROWSER)).text).found if link.startswith("page/")
            ]
            kept = [await client.get(f"/{link}") for link in named]
            other = await client.get(f"/page/{'0' * 16}/main.js")
        assert named
        assert {(response.status_code, response.headers["cache-control"]) for response in kept} == {(200, UNCHANGING)}
        assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")

    def test_first_paint_names_the_modules_of_each_part(self) -> None:
        """first_paint.js preloads exactly the modules that each part imports at its start."""
        script = (RESEARCH_FOLDER / "first_paint.js").read_text(encoding="utf-8")
        lists = dict(re.findall(r"const (BOTH|ASKING|READING) = \[(.*?)\];", script, flags=re.DOTALL))
        named = {name: set(re.findall(r'"([^"]+)"', text)) for name, text in lists.items()}
        main, asking, reading = imported("main") - {"main"}, imported("form", "sidebar"), imported("thread")
        assert named["BOTH"] == main | (asking & reading)
        assert named["ASKING"] == asking - named["BOTH"]
        assert named["READING"] == reading - named["BOTH"]

    def test_files_are_offered_as_the_server_reads_them(self) -> None:
        """The file dialogue offers the suffixes that the server can read."""
        (offered,) = re.findall(r'SUFFIXES = "([^"]+)"', (RESEARCH_FOLDER / "files.js").read_text("utf-8"))
        assert tuple(offered.split(",")) == SUFFIXES

    def test_every_text_is_translated(self) -> None:
        """All that the page says is in each catalogue, with the same places, and the catalogues hold nothing else.

        The scripts are read, because no visit of the page shows all of its texts.
        """
        sources = [path.read_text(encoding="utf-8") for path in RESEARCH_FOLDER.glob("*.js")]
        page = (RESEARCH_FOLDER / "index.html").read_text(encoding="utf-8")
        texts = {text for source in sources for text in re.findall(r'\bt\("([^"]+)"', source)}
        texts |= set(
            re.findall(r'\["\w+", "([^"]+)", \d+\]', (RESEARCH_FOLDER / "plan.js").read_text(encoding="utf-8"))
        )
        texts |= set(re.findall(r"data-t>([^<]+)<", page)) | set(re.findall(r'data-t-\w+="([^"]+)"', page))
        assert len(texts) > 80
        for language in LANGUAGES:
            found = catalogue(language)
            missing, unused = sorted(texts - set(found)), sorted(set(found) - texts)
            assert not missing, f"lang/{language}.js lacks a translation of: {missing}"
            assert not unused, f"Remove from lang/{language}.js what the page no longer says: {unused}"
            empty = [text for text, translated in found.items() if not translated.strip()]
            assert not empty, f"lang/{language}.js has an empty translation of: {empty}"
            for text, translated in found.items():
                assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", translated)), text

    def test_no_number_stands_before_what_it_counts(self) -> None:
        """There are no plurals: "sub-questions planned: 1" is right for any number in any language, "1 sub-questions" is not.

        The limits of a request are never 1.
        """
        counted = re.compile(r"(?<!At most )\{n\} [a-z-]+s\b")
        assert [text for text in catalogue("de") if counted.search(text)] == []
        german = re.compile(r"(?<!Höchstens )\{n\} [A-ZÄÖÜ]\w+")
        assert [translated for translated in catalogue("de").values() if german.search(translated)] == []


def imported(*names: str) -> set[str]:
    """These modules of the page, and those that they import before they run."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            script = (RESEARCH_FOLDER / f"{name}.js").read_text(encoding="utf-8")
            waiting += re.findall(
                r'^(?:import|export|\}) ?(?:[^;()]*? from )?"\./([\w/-]+)\.js";', script, flags=re.MULTILINE
            )
    return found


def catalogue(language: str) -> dict[str, str]:
    """Return the translations of the page's texts."""
    text = (RESEARCH_FOLDER / "lang" / f"{language}.js").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text[text.index("{\n") : text.rindex(",\n}")] + "}")
    return found


class TestVendoredFiles:
    def test_files_have_the_pinned_hashes(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Nobody changed what came from the registry."""
        assert vendored.main(["--check"]) == 0, capsys.readouterr().err

    def test_changed_file_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One byte more, or a missing file, is named."""
        folder = tmp_path / "files"
        shutil.copytree(FOLDER, folder)
        (folder / "swagger-ui.css").write_bytes((FOLDER / "swagger-ui.css").read_bytes() + b"\n")
        (folder / "NOTICE").unlink()
        monkeypatch.setattr(vendored, "PACKAGES", [replace(vendored.PACKAGES[0], folder=folder)])
        assert vendored.main(["--check"]) == 1
        assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["swagger-ui.css", "NOTICE"]

    def test_tarball_with_another_hash_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What the registry gives under the pinned version is compared before anything is written."""

        def pack(command: list[str], **_: object) -> None:
            (Path(command[command.index("--pack-destination") + 1]) / "swagger-ui-dist.tgz").write_bytes(b"another one")

        monkeypatch.setattr(vendored.subprocess, "run", pack)
        monkeypatch.setattr(vendored, "PACKAGES", [replace(vendored.PACKAGES[0], folder=tmp_path / "files")])
        assert vendored.main([]) == 1
        assert "is pinned" in capsys.readouterr().err
        assert not (tmp_path / "files").exists()

    def test_licence_is_in_the_notice(self) -> None:
        """NOTICE lists each bundled work with its version and licence."""
        notice = (vendored.ROOT / "NOTICE").read_text(encoding="utf-8")
        for package in vendored.PACKAGES:
            assert (f"{package.name} {package.version} (" in notice) == package.is_shipped
        assert "Apache-2.0" in notice
