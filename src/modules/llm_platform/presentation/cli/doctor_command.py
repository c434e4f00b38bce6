"""The command `doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

from modules.llm_platform.application.services.doctor_service import CheckResult, Verdict
from modules.llm_platform.domain.wheels import has_wordllama_wheel, no_wordllama
from modules.llm_platform.presentation.cli.config_command import warnings
from modules.llm_platform.presentation.cli.console import Console, Line, Style
from modules.llm_platform.presentation.cli.exit_codes import CommandError, run
from modules.llm_platform.presentation.cli.setup import Wiring, prepare
from shared.config import LOOPBACK_HOSTS, Settings

# What `doctor` and `worker --check` found, for people and for programs.


SUBJECT_WIDTH: Final = 20  # at least
MARKS: Final[Mapping[Verdict, tuple[str, Style]]] = {
    "ok": ("✔", "green"), "warning": ("!", "yellow"), "failed": ("✘", "red"),
}  # fmt: skip


def print_check_results(console: Console, findings: Sequence[CheckResult], *, as_json: bool) -> None:
    """A line for each, or one object with all; CommandError, which names those that failed."""
    if as_json:
        from modules.llm_platform.presentation.cli.render_json import dumped

        checks = [{"subject": each.subject, "verdict": each.verdict, "text": each.text} for each in findings]
        console.verbatim(dumped({"checks": checks}))
    else:
        console.lines(_lines(findings))
    failed = [each.subject for each in findings if each.verdict == "failed"]
    if failed:
        raise CommandError(f"failed: {', '.join(dict.fromkeys(failed))}")


def _lines(findings: Sequence[CheckResult]) -> Iterator[Line]:
    width = max([SUBJECT_WIDTH, *(len(each.subject) for each in findings)])
    for each in findings:
        mark, style = MARKS[each.verdict]
        yield Line(f"{mark} {each.verdict:<7}  {each.subject:<{width}} {' '.join(each.text.split())}", style)


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


def run_doctor(console: Console, wiring: Wiring, arguments: Mapping[str, Any], *, spend: bool, as_json: bool) -> None:
    """Print one line for each thing that was looked at; CommandError when one that is configured fails."""
    settings = prepare(console, arguments)
    console.step("asking what is configured …")
    findings = [*of_settings(settings), *run(_examine(wiring, settings, spend=spend))]
    if not wiring.has_model(settings):
        text = NO_MODEL_OFFLINE if wiring.has_model_online(settings) else NO_MODEL
        findings.append(CheckResult("language model", "ok", text))
    findings += of_extras()
    print_check_results(console, findings, as_json=as_json)


async def _examine(wiring: Wiring, settings: Settings, *, spend: bool) -> tuple[CheckResult, ...]:
    async with wiring.build_platform(settings) as platform:
        return await platform.doctor.examine(spend=spend)


def of_settings(settings: Settings) -> Iterator[CheckResult]:
    """What can be seen without asking anybody."""
    for warning in warnings(settings):
        yield CheckResult("settings", "warning", warning)
    for name in ENGINE_LISTS:
        for engine in getattr(settings, name):
            if "_" in engine:
                remedy = f"write {engine.replace('_', ' ')!r}, since an unknown engine is ignored without a word"
                yield CheckResult("settings", "warning", f"{name} names {engine!r}: {remedy}")
    for name, needed in BELONG_TOGETHER:
        if getattr(settings, name) and not getattr(settings, needed):
            yield CheckResult(
                "settings", "failed", f"{name} is set and {needed} is not, so neither is used: set {needed}"
            )
    if settings.LLM_PLATFORM_HOST not in LOOPBACK_HOSTS and not settings.LLM_PLATFORM_API_KEYS:
        remedy = f"LLM_PLATFORM_HOST={settings.LLM_PLATFORM_HOST} can be reached by others: set LLM_PLATFORM_API_KEYS"
        yield CheckResult("settings", "failed", remedy)


def of_extras() -> Iterator[CheckResult]:
    """Which optional parts are missing, and the line that installs them."""
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        if "wordllama" in missing and not has_wordllama_wheel():
            missing.remove("wordllama")
            yield CheckResult(f"extra {extra}", "warning", no_wordllama())
        if missing:
            remedy = f'pip install "llm-platform[{extra}]"'
            yield CheckResult(f"extra {extra}", "warning", f"{', '.join(missing)} not installed: {remedy}")
