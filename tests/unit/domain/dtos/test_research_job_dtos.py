"""domain/dtos/research_job_dtos.py: the behaviour of a stored run."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.research_job_dtos import kind_of_job


@for_each(
    ("api", "client_request", "kind"),
    [
        ("", {}, "research"),
        ("openai", {"messages": []}, "research"),
        ("verify", {}, "verification"),
        ("", {"verify": {"text": "It is so."}}, "verification"),
        ("firecrawl", {"crawl": {"url": "https://a.example"}, "limit": 3}, "crawl"),
    ],
)
def test_a_stored_run_says_what_it_does(api: str, client_request: dict[str, object], kind: str) -> None:
    """Runs that were stored before there was a word for it are read in the same way."""
    assert kind_of_job(api, client_request) == kind
