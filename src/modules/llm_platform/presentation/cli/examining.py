"""The command `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from modules.llm_platform.application.services.doctor_service import Finding
from modules.llm_platform.domain.wheels import has_wordllama_wheel, no_wordllama
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import run
from modules.llm_platform.presentation.cli.findings import tell
from modules.llm_platform.presentation.cli.preparing import prepare
from modules.llm_platform.presentation.cli.settings_view import warnings
from modules.llm_platform.presentation.cli.wiring import Wiring
from shared.config import LOOPBACK_HOSTS, Settings

EXTRAS: Mapping[str, tuple[str, ...]] = {  # what `pip install "llm-platform[NAME]"` brings
    "llm": ("openai",),
    "server": ("fastapi", "uvicorn"),
    "web": ("ddgs",),
    "documents": ("pypdf", "resiliparse"),
    "retrieval": ("qdrant_edge", "wordllama", "numpy", "safetensors", "tokenizers"),
    "qdrant": ("qdrant_client",),
    "kafka": ("confluent_kafka", "prometheus_client"),
}
ENGINE_LISTS = ("SEARXNG_ENGINES_WEB", "SEARXNG_ENGINES_NEWS", "SEARXNG_ENGINES_ACADEMIC")
BELONG_TOGETHER = (  # what is set, what it needs beside it; a half configured model says so itself
    ("SEARXNG_USERNAME", "SEARXNG_PASSWORD"),
    ("SEARXNG_PASSWORD", "SEARXNG_USERNAME"),
)
NO_MODEL = "none is configured: answers are quotes from the sources"
NO_MODEL_OFFLINE = "offline those that are configured are not asked: answers are quotes from the sources"


def carry_out(console: Console, wiring: Wiring, arguments: Mapping[str, Any], *, spend: bool, as_json: bool) -> None:
    """Print one line for each thing that was looked at; CommandError when one that is configured fails."""
    settings = prepare(console, arguments)
    console.step("asking what is configured …")
    findings = [*of_settings(settings), *run(_examine(wiring, settings, spend=spend))]
    if not wiring.has_model(settings):
        text = NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL
        findings.append(Finding("language model", "ok", text))
    findings += of_extras()
    tell(console, findings, as_json=as_json)


async def _examine(wiring: Wiring, settings: Settings, *, spend: bool) -> tuple[Finding, ...]:
    async with wiring.build_platform(settings) as platform:
        return await platform.doctor.examine(spend=spend)


def of_settings(settings: Settings) -> Iterator[Finding]:
    """What can be seen without asking anybody."""
    for warning in warnings(settings):
        yield Finding("settings", "warning", warning)
    for name in ENGINE_LISTS:
        for engine in getattr(settings, name):
            if "_" in engine:
                remedy = f"write {engine.replace('_', ' ')!r}, since an unknown engine is ignored without a word"
                yield Finding("settings", "warning", f"{name} names {engine!r}: {remedy}")
    for name, needed in BELONG_TOGETHER:
        if getattr(settings, name) and not getattr(settings, needed):
            yield Finding("settings", "failed", f"{name} is set and {needed} is not, so neither is used: set {needed}")
    if settings.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS and not settings.LLM_PLATFORM_API_KEYS:
        remedy = f"LLM_PLATFORM_HOST={settings.LLM_PLATFORM_HOST} can be reached by others: set LLM_PLATFORM_API_KEYS"
        yield Finding("settings", "failed", remedy)


def of_extras() -> Iterator[Finding]:
    """Which optional parts are missing, and the line that installs them."""
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        if "wordllama" in missing and not has_wordllama_wheel():
            missing.remove("wordllama")
            yield Finding(f"extra {extra}", "warning", no_wordllama())
        if missing:
            remedy = f'pip install "llm-platform[{extra}]"'
            yield Finding(f"extra {extra}", "warning", f"{', '.join(missing)} not installed: {remedy}")
