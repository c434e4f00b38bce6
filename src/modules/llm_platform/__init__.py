"""Search and research: a question in, an answer out whose citations are checked against their sources.

    from modules.llm_platform import ResearchRequest, build_platform

    async with build_platform() as platform:
        answer = await platform.research.research(ResearchRequest(query="What is asyncio?"))

The public names are in `public_names`. Each is imported on first access (PEP 562), so importing this package takes almost no
time. Importing raises an ImportError with both paths if a package `shared` of the application hides the one that belongs to
this package.
"""

from importlib import import_module

from modules.llm_platform.hidden_package import check_shared
from modules.llm_platform.public_names import MODULE_OF

check_shared()

__all__ = sorted(MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
