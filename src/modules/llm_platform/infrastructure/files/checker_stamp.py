"""The version of the citation checker and of the page, by their own files.

Two programs with equal digests give equal lexical verdicts, and equal pages.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Final

from modules.llm_platform.domain import citations, markdown, text, urls
from modules.llm_platform.domain.dtos.sealed_dtos import MAX_VERSION_CHARS, CheckerStamp
from modules.llm_platform.domain.package import package_version
from modules.llm_platform.domain.ports.support_model import ISupportModel

RULES: Final = (citations, text, markdown, urls)  # the packages that decide on a verdict
RULE_LIBRARIES: Final = ("sentencex",)  # it splits an answer into sentences
PAGE_LIBRARIES: Final = ("markdown-it-py", "mdurl")
SUFFIXES: Final = (".py", ".json")


def describe_checker(
    support_model: ISupportModel | None, settings: Mapping[str, str], page: tuple[ModuleType, ...]
) -> CheckerStamp:
    """Return the checker of this program. `page` are the modules that make the page of a sealed answer."""
    return CheckerStamp(
        version=package_version()[:MAX_VERSION_CHARS],
        rules=digest_rules(),
        page=digest_page(page),
        support_model=support_model.digest if support_model else "",
        settings=dict(settings),
    )


@cache
def digest_rules() -> str:
    """Return the digest of the rules and their data, in hex digits."""
    whole = sha256()
    for package in RULES:
        folder = Path(package.__path__[0])
        for file in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
            if file.suffix in SUFFIXES:
                content = sha256(file.read_bytes()).hexdigest()
                whole.update(f"{file.relative_to(folder).as_posix()} {content}\n".encode())
    whole.update("".join(_describe_libraries(RULE_LIBRARIES)).encode())
    return whole.hexdigest()


@cache
def digest_page(modules: tuple[ModuleType, ...]) -> str:
    """Return the digest of these modules and of the rules, which the page shows, in hex digits."""
    whole = sha256(digest_rules().encode())
    for module in modules:
        content = sha256(Path(str(module.__file__)).read_bytes()).hexdigest()
        whole.update(f"{module.__name__} {content}\n".encode())
    whole.update("".join(_describe_libraries(PAGE_LIBRARIES)).encode())
    return whole.hexdigest()


def _describe_libraries(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}\n"
        except PackageNotFoundError:  # installed without metadata
            yield f"{name}\n"
