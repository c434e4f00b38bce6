"""Which addresses of a name may be connected to (tests/security/test_ssrf.py has the law for whole requests)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.exceptions import PageRequestError
from modules.llm_platform.infrastructure.http.guarded.guard import MAX_ADDRESSES, Guard
from modules.llm_platform.infrastructure.http.guarded.url import parse_address

PUBLIC = [f"93.184.216.{number}" for number in range(MAX_ADDRESSES)]


class Names:
    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(self, host: str, port: int) -> list[str]:
        return list(self._addresses)


@for_each("last", ["93.184.217.1", "10.0.0.1", "fe80::1%eth0"])
async def test_a_name_with_too_many_addresses_is_refused(last: str) -> None:
    """Addresses beyond the limit would not be checked."""
    address = parse_address("http://a.example.net/")
    assert len((await Guard(Names(PUBLIC)).check(address)).ips) == MAX_ADDRESSES
    with pytest.raises(PageRequestError):
        await Guard(Names([*PUBLIC, last])).check(address)
