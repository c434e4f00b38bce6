"""What a program passes to the platform that is not what it takes."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.cases import for_each

from modules.llm_platform.container import build_platform
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing import FakeWebSearch
from shared.config import Settings


@for_each(
    ("overrides", "message"),
    [
        (
            {"IWebSearchProvider": FakeWebSearch()},
            "'IWebSearchProvider' cannot be overridden: use one of the classes I",
        ),
        ({FakeWebSearch: FakeWebSearch()}, "FakeWebSearch cannot be overridden: use one of the classes I"),
        ({IWebSearchProvider: FakeWebSearch}, r"not by the class FakeWebSearch: pass FakeWebSearch\(…\)"),
    ],
)
def test_what_overrides_no_port_is_refused_with_the_remedy(
    tmp_path: Path, overrides: dict[Any, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build_platform(Settings.without_environment(LLM_PLATFORM_DATA_DIR=tmp_path), overrides)
