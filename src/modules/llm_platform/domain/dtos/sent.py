"""What a research sent out, and to whom: the entries of its ledger (docs/reference/http.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SentKind = Literal["query", "url", "page text"]


class Sent(BaseModel):
    """One kind of data that one host was sent: in how many requests, and how many bytes of it in all. `via` is the proxy
    that they went through (UPSTREAM_PROXY), None where there was none.
    """

    model_config = ConfigDict(frozen=True)

    host: str
    kind: SentKind
    requests: int
    bytes: int
    via: str | None = None
