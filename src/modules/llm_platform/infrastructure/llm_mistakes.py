"""What is missing or wrong in the settings of a model. It stops no start: it is told when the model is asked."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from modules.llm_platform.domain.canonical_url import is_web_url
from modules.llm_platform.infrastructure.llm_kinds import LLMConnection


def mistake_in(config: LLMConnection) -> str | None:
    """What is missing, or else the first mistake, with the variables to set; None when it is well. Never a value."""
    names, key = config.settings, config.api_key
    if missing := dict(_missing(config)):
        return f"{config.name} needs {' and '.join(missing)}: set {' and '.join(missing.values())}"
    if not _fits_a_header(key):
        return f"{config.name}: {names.key} contains characters that no key has: check it"
    if not _fits_a_header(config.user_agent or ""):
        return f"{config.name}: {names.user_agent or 'its User-Agent'} must be plain ASCII"
    if not _is_address(config.address or ""):
        return f"{config.name} has no usable address: check {names.address}"
    return None


def _missing(config: LLMConnection) -> Iterator[tuple[str, str]]:
    """What there has to be, and its variable."""
    names = config.settings
    if config.traits.needs_key and not config.api_key:
        yield "a key", names.key
    if not config.address:
        yield "an address", names.address
    if not config.model:
        yield ("a deployment" if config.traits.deployments else "a model"), names.model


def _fits_a_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value) and value == value.strip()


def _is_address(text: str) -> bool:
    try:
        return is_web_url(text) and urlsplit(text).port != 0
    except ValueError:  # a port beyond 65535
        return False
