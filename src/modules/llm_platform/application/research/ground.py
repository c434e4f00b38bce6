"""What an exploration knows so far: the results by canonical address, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from modules.llm_platform.domain.canonical_url import canonical_url
from modules.llm_platform.domain.dtos.report_dtos import Candidate, RankedCandidate, Score
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResponse, WebSearchResultItem
from modules.llm_platform.domain.ranking import keyword_score
from shared.exceptions import AppException


@dataclass(slots=True)
class Ground:
    """Grows while searches come back; every address is there once, whichever search was the first to find it.

    Of the requests to providers, `searches`, so many were `late`; so many results have a score that `stood_in` for a model's.
    """

    questions: list[str] = field(default_factory=list)
    queries: set[tuple[str, ...]] = field(default_factory=set)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
    answers: list[WebSearchResponse] = field(default_factory=list)
    searches: int = 0
    late: int = 0
    stood_in: int = 0
    failures: list[AppException] = field(default_factory=list)
    places: dict[str, dict[str, int]] = field(default_factory=dict)  # in each sub-question's results

    def not_seen(self, items: Sequence[WebSearchResultItem], question: str, query: str) -> list[str]:
        """The addresses that no search found before; what is known already learns which query found it again."""
        new: list[str] = []
        for place, item in enumerate(items):
            address = canonical_url(item.url)
            places = self.places.setdefault(address, {})
            places[question] = min(place, places.get(question, place))
            held = self.candidates.get(address)
            if held is None:
                self.candidates[address] = Candidate(item=item, question=question, queries=(query,))
                new.append(address)
            elif query not in held.queries:
                self.candidates[address] = held.model_copy(update={"queries": (*held.queries, query)})
        return new

    def ranked(self, question: str, language: str) -> list[RankedCandidate]:
        """What has a score, each for the sub-question that it fits best, not for the one whose search was the quickest."""
        return [self._placed(address, question, language) for address in self.scores]

    def _placed(self, address: str, question: str, language: str) -> RankedCandidate:
        candidate, score, places = self.candidates[address], self.scores[address], self.places[address]
        aimed = min(places, key=places.__getitem__)
        if score.by == "keywords" and len(places) > 1:
            item = candidate.item
            value, _, aimed = max(
                (keyword_score(question, aim, item.title, item.text, language), -place, aim)
                for aim, place in places.items()
            )
            score = score.model_copy(update={"value": value})
        if aimed != candidate.question:
            candidate = candidate.model_copy(update={"question": aimed})
        return RankedCandidate(candidate=candidate, score=score)

    def score_the_rest(self, question: str, language: str) -> None:
        """Give what has no score yet one by keywords."""
        rest = [address for address in self.candidates if address not in self.scores]
        for address in rest:
            candidate = self.candidates[address]
            item = candidate.item
            value = keyword_score(question, candidate.question, item.title, item.text, language)
            self.scores[address] = Score(value=value, by="keywords")
        self.stood_in += len(rest)
