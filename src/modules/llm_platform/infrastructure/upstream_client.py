"""A client that knows which proxy it sends through: the ledger names it beside the host."""

from __future__ import annotations

from typing import Any

import httpx2


class UpstreamClient(httpx2.AsyncClient):
    """The pooled client of one upstream. `via` is the host of its proxy, None where it has none."""

    def __init__(self, *, via: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.via = via


def via_of(client: httpx2.AsyncClient) -> str | None:
    """The host of the proxy that a client of ours sends through; None where it has none, or is somebody else's."""
    return client.via if isinstance(client, UpstreamClient) else None


def proxy_host(proxy: str | None) -> str | None:
    """The host in the address of a proxy, which may hold a password."""
    try:
        return httpx2.URL(proxy).raw_host.decode("ascii") if proxy else None
    except httpx2.InvalidURL:  # told where the proxy is used
        return None
