"""Imports are cheap, because heavy packages are loaded on first use. `make sizes` counts the loaded modules."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from modules.llm_platform.public_names import MODULE_OF

MODULES_BEFORE_THE_FIRST_NAME = 40
HEAVY = {
    "confluent_kafka",
    "ddgs",
    "dependency_injector",
    "fastapi",
    "h11",
    "httpx",
    "httpx2",
    "lxml",
    "markdown_it",
    "numpy",
    "openai",
    "opentelemetry",
    "primp",
    "psycopg",
    "psycopg_pool",
    "pypdf",
    "resiliparse",
    "rich",
    "starlette",
    "structlog",
    "tokenizers",
    "typer",
    "uvicorn",
    "wordllama",
}
# Every caller needs what the container wires. Packages of an extra or an entry point are loaded on first use.
HEAVY_FOR_THE_CONTAINER = HEAVY - {"dependency_injector", "h11", "httpx2"}


INNER_NAMES = {name for name, module in MODULE_OF.items() if module.startswith("modules.llm_platform.")} - {
    "build_platform"
}
IMPORTS = {  # one process runs them in this order; each result includes the modules of the earlier imports
    "the package": "import modules.llm_platform",
    "domain and application": f"from modules.llm_platform import {', '.join(sorted(INNER_NAMES))}",
    "all public names": "from modules.llm_platform import *",
    "modules.llm_platform.container": "import modules.llm_platform.container",
    "modules.llm_platform.testing": "import modules.llm_platform.testing",
}


def loaded_by(*statements: str) -> list[set[str]]:
    """Run the statements in a new process. Return the loaded modules after each statement."""
    told = "print(json.dumps(sorted(set(sys.modules) - before)))"
    lines = ["import json, sys; before = set(sys.modules)", *(f"{statement}\n{told}" for statement in statements)]
    child = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True, timeout=180
    )
    return [set(json.loads(line)) for line in child.stdout.splitlines()[-len(statements) :]]


@cache
def loaded_in_turn() -> dict[str, set[str]]:
    return dict(zip(IMPORTS, loaded_by(*IMPORTS.values()), strict=True))


def advice(module: str, heavy: set[str]) -> str:
    return (
        f"Importing {module} loads {', '.join(sorted(heavy))}. Import it in the function that uses it, or under "
        f"TYPE_CHECKING; `python -X importtime -c 'import {module}'` shows which module imports it."
    )


def test_public_names_load_no_heavy_package() -> None:
    """The names of domain and application load no framework, client library or model. The names that build a platform or an
    application load no web framework until they are called. The package alone does not load pydantic.
    """
    loaded = loaded_in_turn()
    heavy = HEAVY & loaded["domain and application"]
    assert not heavy, advice("modules.llm_platform", heavy)
    assert sorted(HEAVY_FOR_THE_CONTAINER & loaded["all public names"]) == []
    assert "pydantic" not in loaded["the package"]


def test_the_version_loads_no_command() -> None:
    """`llm-platform --version` prints a line of metadata, so it needs neither the commands nor the settings."""
    (loaded,) = loaded_by(
        "import sys; sys.argv[1:] = ['--version']; from modules.llm_platform.__main__ import main; main()"
    )
    assert sorted((HEAVY | {"asyncio", "pydantic", "shared.config"}) & loaded) == []


@pytest.mark.parametrize("module", ["modules.llm_platform.container", "modules.llm_platform.testing"])
def test_container_and_fakes_load_no_extra(module: str) -> None:
    """Packages of an extra are imported on first use."""
    heavy = HEAVY_FOR_THE_CONTAINER & loaded_in_turn()[module]
    assert not heavy, advice(module, heavy)


RESEARCH = """
import asyncio
from modules.llm_platform import ResearchRequest, build_platform
from shared.config import Settings

async def research(**settings):
    values = {"LLM_PLATFORM_OFFLINE": True, "DOCUMENTS_DIR": DOCUMENTS, "LLM_PLATFORM_DATA_DIR": DATA, **settings}
    async with build_platform(Settings(_env_file=None, **values)) as platform:
        await platform.research.research(ResearchRequest(query="What is an event loop?"))

asyncio.run(research())
"""


def test_only_a_run_with_a_model_loads_openai(tmp_path: Path) -> None:
    """The OpenAI adapters and a run without a model do not load openai. A run with a model loads it."""
    (tmp_path / "loop.md").write_text("# Event loops\n\nAn event loop runs asynchronous tasks and callbacks.\n")
    adapters = "import modules.llm_platform.infrastructure.models.openai."
    values = f"DOCUMENTS, DATA = {str(tmp_path)!r}, {str(tmp_path / 'data')!r}"
    *without, with_model = loaded_by(
        f"{adapters}chat; {adapters}embedder",
        f"{values}\nexec({RESEARCH!r})",
        "asyncio.run(research(LLM_KIND='vllm', LLM_MODEL='m', LLM_BASE_URL='http://127.0.0.1:9/v1'))",
    )
    assert [("openai" in loaded) for loaded in (*without, with_model)] == [False, False, True]


def test_limits_that_are_counted_in_the_process_load_no_redis() -> None:
    """A server without Redis does not load the Redis client, because it loads OpenTelemetry's SDK. Later imports still work."""
    (loaded,) = loaded_by(
        "from modules.llm_platform.infrastructure.limits.from_settings import check_rate_limits\n"
        "from shared.config import Settings\n"
        "check_rate_limits(Settings(_env_file=None))\n"
        "loaded = set(sys.modules); import redis.asyncio; sys.modules.clear(); sys.modules.update(dict.fromkeys(loaded))"
    )
    assert "throttled.store" in loaded
    assert not {name for name in loaded if name.startswith(("redis", "opentelemetry.sdk"))}


def test_imports_have_no_side_effects() -> None:
    """Importing all modules writes no file, opens no socket and starts no process."""
    watched = ("socket.connect", "socket.bind", "subprocess.Popen", "os.mkdir")
    statement = (
        "import importlib, pkgutil\n"
        "sys.dont_write_bytecode = True\n"  # in a fresh clone the imports would create bytecode folders
        "seen = []\n"
        f"sys.addaudithook(lambda event, args: seen.append(event) if event in {watched!r} else None)\n"
        "import modules.llm_platform as package\n"
        "for found in pkgutil.walk_packages(package.__path__, 'modules.llm_platform.'):\n"
        "    if not found.name.endswith(('__main__', '.asgi')):\n"
        "        importlib.import_module(found.name)\n"
        "assert not seen, seen"
    )
    (loaded,) = loaded_by(statement)
    assert "modules.llm_platform.container" in loaded
