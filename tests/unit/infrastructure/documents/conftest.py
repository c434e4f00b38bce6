"""A folder of documents, and the ways in which it is searched."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.folder_ways import WAYS, Way


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param  # type: ignore[no-any-return]
