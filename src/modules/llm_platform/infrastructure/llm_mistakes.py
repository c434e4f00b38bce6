"""What is missing or wrong in the settings of a model. It stops no start: it is told when the model is asked."""

from __future__ import annotations

from urllib.parse import urlsplit

from modules.llm_platform.domain.canonical_url import is_web_url
from modules.llm_platform.infrastructure.llm_kinds import LLMConnection


def mistake_in(config: LLMConnection) -> str | None:
    """The first mistake and the variable to set, or None; never the value."""
    names, key = config.settings, config.api_key
    if config.traits.needs_key and not key:
        return f"{config.name} needs a key: set {names.key}"
    if not _fits_a_header(key):
        return f"{config.name}: {names.key} contains characters that no key has: check it"
    if not _fits_a_header(config.user_agent or ""):
        return f"{config.name}: {names.user_agent or 'its User-Agent'} must be plain ASCII"
    if not config.address:
        return f"{config.name} needs an address: set {names.address}"
    if not _is_address(config.address):
        return f"{config.name} has no usable address: check {names.address}"
    return None if config.model else f"{config.name} needs a model: set {names.model}"


def _fits_a_header(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value) and value == value.strip()


def _is_address(text: str) -> bool:
    try:
        return is_web_url(text) and urlsplit(text).port != 0
    except ValueError:  # a port beyond 65535
        return False
