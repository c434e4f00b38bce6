"""The entries of the ledger of what a research run sent out, and to whom (docs/reference/http.md)."""

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel

SentKind = Literal["query", "url", "page text"]


class Sent(BaseModel, frozen=True):
    """One kind of data that was sent to one host.

    - `requests` and `bytes` say in how many requests it was sent, and how many bytes of it in all.
    - `via` is the proxy that the requests went through (UPSTREAM_PROXY); None without one.
    """

    host: str
    kind: SentKind
    requests: int
    bytes: int
    via: str | None = None


def merge_sent(entries: Iterable[Sent]) -> tuple[Sent, ...]:
    """Return one entry for each host, kind and proxy, with the sums of requests and bytes, sorted by them."""
    merged: dict[tuple[str, str, str], Sent] = {}
    for entry in entries:
        key = (entry.host, entry.kind, entry.via or "")
        if previous := merged.get(key):
            sums = {"requests": previous.requests + entry.requests, "bytes": previous.bytes + entry.bytes}
            merged[key] = entry.model_copy(update=sums)
        else:
            merged[key] = entry
    return tuple(merged[key] for key in sorted(merged))
