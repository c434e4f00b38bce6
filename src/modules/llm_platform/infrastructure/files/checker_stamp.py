"""The version of the citation checker, by its own files: two programs with equal digests give equal verdicts of the words."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from modules.llm_platform.domain import citations, markdown, text
from modules.llm_platform.domain.dtos.sealed_dtos import CheckerStamp
from modules.llm_platform.domain.package import package_version
from modules.llm_platform.domain.ports.support_model import ISupportModel

RULES: Final = (citations, text, markdown)  # the packages that decide on a verdict
SUFFIXES: Final = (".py", ".json")


def describe_checker(support_model: ISupportModel | None, settings: Mapping[str, str]) -> CheckerStamp:
    return CheckerStamp(
        version=package_version(),
        rules=digest_rules(),
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
    return whole.hexdigest()
