"""What `make release` refuses; the rest of it is tried by running it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.release import ReleaseError, check_changelog, check_contents, check_metadata

METADATA = """\
Metadata-Version: 2.4
Name: llm-platform
Version: 1.2.0
Summary: Search.
License-Expression: MIT
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# Readme
"""


def test_the_changelog_begins_with_the_version() -> None:
    """Only the newest heading counts, and it has a date."""
    check_changelog("# Changelog\n\n## [1.2.0] - 2026-11-21\n\n## [1.1.0] - 2026-10-01\n", "1.2.0")
    for newest in ("[Unreleased]", "[1.3.0] - 2026-11-21", "[1.2.0]"):
        with pytest.raises(ReleaseError, match=r"make the heading `## \[1.2.0\] - YYYY-MM-DD`"):
            check_changelog(f"## {newest}\n\n## [1.2.0] - 2026-11-21\n", "1.2.0")


def test_metadata_is_that_of_this_version() -> None:
    """Another version, an invalid field and a missing one are errors."""
    check_metadata(METADATA.encode(), "1.2.0")
    for right, wrong in (("1.2.0", "1.2.1"), (">=3.11", "three"), ("Summary: Search.\n", ""), ("# Readme\n", "")):
        with pytest.raises(ReleaseError):
            check_metadata(METADATA.replace(right, wrong).encode(), "1.2.0")


def test_a_wheel_has_all_files_and_no_more(tmp_path: Path) -> None:
    """A catalogue that is left out would be missed by users first; bytecode belongs to nobody."""
    for name in ("modules/code.py", "modules/catalogue.json", "modules/__pycache__/code.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    names = ["modules/code.py", "modules/catalogue.json", "a-1.dist-info/METADATA"]
    check_contents(names, tmp_path)
    with pytest.raises(ReleaseError, match=r"lacks modules/catalogue.json"):
        check_contents(["modules/code.py"], tmp_path)
    with pytest.raises(ReleaseError, match=r"has tests/test_code.py"):
        check_contents([*names, "tests/test_code.py"], tmp_path)
