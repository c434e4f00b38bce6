"""The two variants of a blind comparison: what they change, and their answers."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.blind_sheet import Asked

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.text.messages import get_messages
from shared.config import Settings
from shared.exceptions import AppException

AT_ONCE: Final = 2  # questions of one variant
NO_ANSWER = "(No answer: {reason})"
NOT_TO_BE_SET: Final = frozenset({"query", "omit_raw"})


class VariantError(Exception):
    """A variant that cannot be; the message says what is wrong with it."""


@dataclass(frozen=True)
class Variant:
    """A way of answering: fields of the request and settings that differ from what is configured."""

    text: str
    request: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """An answer as the sheet shows it, and what it took. `failed`: there is none, the text says why."""

    text: str
    seconds: float
    tokens: int = 0
    writer: str = "nobody"
    failed: bool = False

    def took(self) -> dict[str, Any]:
        """Return all but the text, for the key."""
        return {name: value for name, value in asdict(self).items() if name != "text"}


def parse_variant(text: str) -> Variant:
    """`depth=report instructions='In short words' REPORT_PAGES=3`: fields of a request in small letters, variables of the
    settings in capitals, `model` and `documents` besides.
    """
    request: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for part in _parts(text):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise VariantError(f"{part}: write name=value, with quotes around words that belong together")
        if name == "model":
            settings.update(_with_model(value))
        elif name == "documents":
            settings.update(DOCUMENTS_DIR=value, SEARCH_PROVIDERS="documents")
            request.setdefault("sources", ("documents",))
        elif name in Settings.model_fields:
            settings[name] = value
        elif name in ResearchRequest.model_fields and name not in NOT_TO_BE_SET:
            request[name] = _field(name, value)
        else:
            raise VariantError(f"{name} is neither a field of a research run nor a setting")
    return Variant(text, request, settings)


def _parts(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise VariantError(f"{text}: a quotation mark is missing") from error


def _field(name: str, value: str) -> Any:
    if name in ("sources", "domains", "plan", "urls"):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if name == "max_llm_calls":
        return int(value) if value.isdecimal() else value
    return value == "true" if name == "fresh" else value


def _with_model(name: str) -> dict[str, Any]:
    """Return the settings with which this model answers alone, so that failover does not swap the two."""
    configured = Settings.load()
    if configured.LLM_PROVIDERS:
        chosen = tuple(provider for provider in configured.LLM_PROVIDERS if name in (provider.name, provider.model))
        if not chosen:
            raise VariantError(f"model={name}: LLM_PROVIDERS lists no provider and no model of this name")
        return {"LLM_PROVIDERS": chosen}
    keys = {"KIMI_MODEL": configured.KIMI_API_KEY, "AITUNNEL_MODEL": configured.AITUNNEL_API_KEY}
    others = next((field for field, key in keys.items() if key), None)
    if others and not configured.LLM_API_KEY and configured.LLM_MODEL is None:
        return {others: name}
    return {"LLM_MODEL": name}


async def answer_all(
    variant: Variant, questions: Sequence[Asked], folder: Path, usual: Mapping[str, Any], tell: Callable[[str], None]
) -> list[Answer]:
    """Return the variant's answer to each question. It has a store of its own below `folder`, so that variants cannot serve
    each other's answers; `usual` are settings that hold for both. SettingsError where the settings cannot be.
    """
    digest = hashlib.sha256(variant.text.encode()).hexdigest()[:12]
    settings = Settings.load(**{"LLM_PLATFORM_DATA_DIR": folder / digest, **usual, **variant.settings})
    at_once = asyncio.Semaphore(AT_ONCE)

    async with build_platform(settings) as platform:

        async def one(asked: Asked) -> Answer:
            async with at_once:
                began = time.perf_counter()
                try:
                    answer = _shown(await platform.research.research(_request(variant, settings, asked)), began)
                except AppException as error:
                    answer = Answer(NO_ANSWER.format(reason=error.message), _since(began), failed=True)
                tell(asked.text)
                return answer

        return list(await asyncio.gather(*map(one, questions)))


def _request(variant: Variant, settings: Settings, asked: Asked) -> ResearchRequest:
    documents_alone = settings.SEARCH_PROVIDERS == ("documents",)
    values = {"sources": ("documents",)} if documents_alone else {}
    return ResearchRequest.model_validate({"query": asked.text, **values, **variant.request})


def _shown(response: ResearchResponse, began: float) -> Answer:
    """Return the answer with its sources, less our own sentences that would give its depth away."""
    sources = [f"- [{source.index}] {' '.join(source.title.split())} {source.url}" for source in response.sources]
    own = get_messages(response.metadata.language)
    text = response.synthesis.replace(own.go_deeper, "").replace(own.quotes_only, "").strip()
    parts = [text, *(["Sources:", "\n".join(sources)] if sources else [])]
    meta = response.metadata
    return Answer("\n\n".join(parts), _since(began), meta.tokens_used, meta.synthesizer or "nobody")


def _since(began: float) -> float:
    return round(time.perf_counter() - began, 2)
