"""presentation/cli/render/terminal.py: what left the machine, for people."""

from __future__ import annotations

from typing import Any

from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.presentation.cli.render.terminal import (
    NOT_RECORDED,
    NOTHING_SENT,
    NOTHING_SENT_NOW,
    render_egress_log,
)


def printed(*sent: Sent, **fields: Any) -> list[str]:
    return [line.text for line in render_egress_log(ResearchMetadata(latency_ms=1, sent_to=sent, **fields))]


def test_hosts_and_kinds_are_sorted_by_bytes() -> None:
    """The host with the most bytes comes first, and the columns are aligned."""
    lines = printed(
        Sent(host="127.0.0.1", kind="query", requests=6, bytes=420),
        Sent(host="api.example", kind="page text", requests=1, bytes=48_211),
        Sent(host="api.example", kind="query", requests=2, bytes=2_000_000),
    )
    assert lines == [
        "",
        "Sent",
        "api.example  query      2 requests, 2.0 MB",
        "api.example  page text  1 request, 48.2 kB",
        "127.0.0.1    query      6 requests, 420 B",
    ]


def test_empty_egress_log_has_a_message() -> None:
    """An empty list would look like something forgotten."""
    assert printed() == ["", "Sent", NOTHING_SENT]


def test_a_cached_answer_says_what_was_sent_earlier() -> None:
    """Nothing is sent for it now, which is not the whole truth about its question; an old entry of a cache has no record."""
    earlier = Sent(host="api.example", kind="query", requests=1, bytes=9)
    head = ["", "Sent", NOTHING_SENT_NOW, "", "Sent earlier, to produce the cached or stored parts"]
    assert printed(cache_hit=True, cached_sent_to=(earlier,)) == [*head, "api.example  query  1 request, 9 B"]
    assert printed(cache_hit=True) == [*head, NOT_RECORDED]


def test_long_host_does_not_widen_the_column() -> None:
    """A host may have 253 characters: the other lines stay readable."""
    lines = printed(
        Sent(host="a" * 253, kind="url", requests=1, bytes=9),
        Sent(host="b.example", kind="url", requests=1, bytes=8),
    )
    assert lines[2].startswith("a" * 253 + "  url")
    assert len(lines[3]) < 100


def test_proxy_is_named_beside_the_host() -> None:
    """The proxy is named at hosts that were reached through it, and not at others."""
    lines = printed(
        Sent(host="api.example", kind="query", requests=2, bytes=20, via="proxy.example"),
        Sent(host="b.example", kind="url", requests=1, bytes=8),
    )
    assert lines[2:] == [
        "api.example via proxy.example  query  2 requests, 20 B",
        "b.example                      url    1 request, 8 B",
    ]
