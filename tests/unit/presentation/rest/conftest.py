"""Fixtures of the REST tests: fake services, and a client of the application around them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.unit.presentation.rest.fake_platform import FakeServices, app_client


@pytest.fixture
def services() -> FakeServices:
    return FakeServices()


@pytest.fixture
async def client(services: FakeServices) -> AsyncIterator[httpx2.AsyncClient]:
    async with app_client(services) as client:
        yield client
