"""The SearXNG that compose.yaml starts must answer us, and nobody else.

Not run here (it needs a container engine): what is checked is that the two files say what SearXNG reads.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture
def service() -> dict[str, Any]:
    return read("compose.yaml")["services"]["searxng"]


@pytest.fixture
def settings() -> dict[str, Any]:
    return read("deploy/searxng/settings.yml")


def test_searxng_stands_alone() -> None:
    """Nothing is started that this version does not use."""
    assert list(read("compose.yaml")["services"]) == ["searxng"]


def test_the_image_is_pinned(service: dict[str, Any]) -> None:
    """A moving tag would be another program each time: the version is named."""
    assert re.fullmatch(r"docker\.io/searxng/searxng:\d{4}\.\d+\.\d+-[0-9a-f]{9}", service["image"])


def test_only_this_machine_can_reach_it(service: dict[str, Any]) -> None:
    """An open SearXNG without a limiter would be everybody's proxy."""
    assert service["ports"] == ["127.0.0.1:8080:8080"]


def test_no_secret_stands_in_the_files(service: dict[str, Any], settings: dict[str, Any]) -> None:
    """The secret key comes from the environment, and compose refuses to start without it."""
    assert service["environment"]["SEARXNG_SECRET"].startswith("${SEARXNG_SECRET:?")
    assert "secret_key" not in settings["server"]


def test_the_settings_reach_searxng(service: dict[str, Any]) -> None:
    """The mounted file exists and lands where SearXNG looks, read-only."""
    source, target, mode = service["volumes"][0].split(":")
    assert (ROOT / source).is_file()
    assert (target, mode) == ("/etc/searxng/settings.yml", "ro")


def test_json_is_on_and_the_limiter_off(settings: dict[str, Any]) -> None:
    """Without json in `search.formats` every request is answered 403; the limiter allows four an hour."""
    assert settings["use_default_settings"] is True
    assert {"html", "json"} <= set(settings["search"]["formats"])
    assert settings["server"]["limiter"] is False
