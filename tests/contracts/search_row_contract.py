"""The contract of a search provider that has a row in `SEARCH_PROVIDERS` of wiring/search.py."""

from __future__ import annotations

from typing import get_args

import pytest

from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.testing.web_search import WebSearchProviderContract
from modules.llm_platform.wiring.search import spec_of


class SearchRowContract(WebSearchProviderContract):
    """The contract of the port, and the agreement of the adapter with its row. The fixtures are those of the port's."""

    @pytest.mark.parametrize("kind", get_args(SourceKind))
    async def test_adapter_supports_the_sources_of_its_row(
        self, provider: IWebSearchProvider, findable: WebSearchRequest, kind: SourceKind
    ) -> None:
        """An adapter reports an unsupported source in `degraded` exactly if its row does not have it."""
        spec = spec_of(provider.name)
        assert spec is not None, f"{provider.name} has no row in SEARCH_PROVIDERS of wiring/search.py"
        answer = await provider.search(findable.with_(sources=(kind,)))
        is_reported = any(kind in each.reason for each in answer.degraded)
        assert is_reported == (kind not in spec.source_kinds), (
            f"source_kinds of {provider.name} in wiring/search.py and `degraded` of its adapter disagree about {kind}"
        )
