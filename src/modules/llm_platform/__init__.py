"""Search and research: a question in, an answer out whose citations are checked against their sources.

    from modules.llm_platform import ResearchRequest
    from modules.llm_platform.container import build_platform

    async with build_platform() as platform:
        answer = await platform.research.research(ResearchRequest(query="What is asyncio?"))

The public names are the lines of `__init__.pyi`, which type checkers read too. Each is imported on first access (PEP 562), so
importing this package takes almost no time. Importing raises an ImportError with both paths if a package `shared` of the
application hides the one that belongs to this package.
"""

from importlib import import_module

from llm_platform_names import check_shared

check_shared(__file__)

with open(f"{__file__}i", encoding="utf-8") as _lines:  # noqa: PTH123  importing pathlib takes longer than reading
    MODULE_OF = {words[3]: words[1] for line in _lines if (words := line.split())[:1] == ["from"]}

__all__ = sorted(MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
