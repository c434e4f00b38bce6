"""Asks every configured upstream for a real answer and says what is wrong and what to do about it.

Health answers "can it serve?" every few seconds; a doctor is called once, by a person, and may take the time of a
search. The causes and remedies are the adapters' own: their errors carry them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from modules.llm_platform.application.services.retrieval_service import RetrievalService
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck, IEngineLists
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.llm import ILLMProvider
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

CHECK_DEADLINE_S = 30.0
COMMON_WORD = "python"  # every search engine finds something for it
FEW_RESULTS = 3
MAX_ENGINES_TRIED = 6  # for a list that is proposed
SHORT_ANSWER = "Answer with the word ready."
SHORT_ANSWER_TOKENS = 1024  # a model that thinks first spends most of them unseen
NOT_TRIED = "not tried for real, since that may cost money: run with --yes"

INDEX = "index"
NO_INDEX = "there is none yet: `llm-platform index PATH` makes it"

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of a diagnosis: what was looked at, how it is, and in words what to do."""

    subject: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class SearchProviderCheck:
    """A search provider to examine.

    `paid`: a search costs money. `finds`: it finds something for an everyday word (a folder of documents need not).
    `configured`: the operator chose it; what only stands in may fail without being a failure. `sources`: the kinds that it
    is asked for, so that engines of all of them are tried. `mistake`: what its settings lack, so that it cannot be asked.
    """

    provider: IWebSearchProvider
    paid: bool = False
    finds: bool = True
    configured: bool = True
    sources: tuple[SourceKind, ...] = ("web",)
    mistake: str = ""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The index and its embedder. `there`: somebody indexed already; `paid`: to embed a question costs money."""

    retrieval: RetrievalService
    there: bool = True
    paid: bool = False


class DoctorService:
    """Examines search providers, language models and the index, all at the same time."""

    def __init__(
        self,
        searches: Sequence[SearchProviderCheck],
        models: Sequence[ILLMProvider],
        *,
        index: IndexCheck | None = None,
        deadline_s: float = CHECK_DEADLINE_S,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._searches = tuple(searches)
        self._models = tuple(models)
        self._indexes = () if index is None else (index,)
        self._deadline_s = deadline_s
        self._clock = clock

    async def examine(self, *, spend: bool = False) -> tuple[CheckResult, ...]:
        """Findings in the order of the patients; with `spend` also what costs a little money is tried. Never raises
        an AppException: that is what it is here to tell.
        """
        searches = [self._bounded(each.provider.name, self._search(each, spend=spend)) for each in self._searches]
        models = [self._bounded(each.name, self._model(each, spend=spend)) for each in self._models]
        indexes = [self._bounded(INDEX, self._index(each, spend=spend)) for each in self._indexes]
        return tuple(each for found in await asyncio.gather(*searches, *models, *indexes) for each in found)

    async def _bounded(self, name: str, check: Awaitable[list[CheckResult]]) -> list[CheckResult]:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await check
        except TimeoutError:
            return [CheckResult(name, "failed", f"did not answer within {self._deadline_s:g} s")]

    async def _search(self, patient: SearchProviderCheck, *, spend: bool) -> list[CheckResult]:
        provider = patient.provider
        if patient.mistake:
            return [CheckResult(provider.name, "failed", patient.mistake)]
        failed: Verdict = "failed" if patient.configured else "warning"
        try:
            word = await _ping(provider)
        except AppException as error:
            return [CheckResult(provider.name, failed, error.message)]
        if patient.paid and not spend:
            return [CheckResult(provider.name, "ok", _joined(word, NOT_TRIED))]
        if len(patient.sources) == 1:
            return await self._search_for_real(patient, patient.sources[0], provider.name, word, failed)
        subjects = {kind: f"{provider.name} {kind}" for kind in patient.sources}
        kinds = [self._search_for_real(patient, kind, subject, "", failed) for kind, subject in subjects.items()]
        found = [finding for kind in await asyncio.gather(*kinds) for finding in kind]
        lists = await self._engine_lists(provider)
        return list(dict.fromkeys([CheckResult(provider.name, "ok", word or "is there"), *found, *lists]))

    async def _search_for_real(
        self, patient: SearchProviderCheck, kind: SourceKind, subject: str, word: str, failed: Verdict
    ) -> list[CheckResult]:
        """One kind of source by itself: engines of another kind would hide that none of this one answers."""
        began = self._clock()
        request = WebSearchRequest(query=COMMON_WORD, count=FEW_RESULTS, sources=(kind,))
        try:
            answer = await patient.provider.search(request)
        except AppException as error:
            return [CheckResult(subject, failed, error.message)]
        took = f"a search took {(self._clock() - began) * 1000:.0f} ms"
        troubles = [CheckResult(each.component, "warning", each.reason) for each in answer.degraded]
        if patient.finds and not answer.results:
            return [CheckResult(subject, "warning", _joined(word, f"found nothing for {COMMON_WORD!r}")), *troubles]
        return [CheckResult(subject, "ok", _joined(word, took)), *troubles]

    async def _engine_lists(self, provider: IWebSearchProvider) -> list[CheckResult]:
        if not isinstance(provider, IEngineLists):
            return []
        try:
            checks = await provider.engine_lists()
        except AppException as error:
            return [CheckResult(provider.name, "warning", error.message)]
        wrong = [check for check in checks if check.missing or check.off]
        return list(await asyncio.gather(*(self._engine_list(provider, check) for check in wrong)))

    async def _engine_list(self, provider: IWebSearchProvider, check: EngineListCheck) -> CheckResult:
        facts = [f"the instance does not have {_named(check.missing)}"] if check.missing else []
        facts += [f"the instance has {_named(check.off)} off (asked only when named)"] if check.off else []
        working = await self._working(provider, check)
        remedy = [f"what answers there: {check.setting}={','.join(working)}"] if working else []
        verdict: Verdict = "failed" if len(check.missing) == len(check.listed) else "warning"
        return CheckResult(f"{provider.name} {check.kind}", verdict, f"{check.setting}: {_joined(*facts, *remedy)}")

    async def _working(self, provider: IWebSearchProvider, check: EngineListCheck) -> list[str]:
        """Engines that the instance has on, less those that do not answer a search."""
        tried = check.on[:MAX_ENGINES_TRIED]
        if not tried:
            return []
        request = WebSearchRequest(query=COMMON_WORD, count=FEW_RESULTS, sources=(check.kind,), engines=tried)
        try:
            answer = await provider.search(request)
        except AppException:
            return []
        failed = {each.component for each in answer.degraded}
        return [engine for engine in tried if f"{provider.name}/{engine}" not in failed] if answer.results else []

    async def _model(self, model: ILLMProvider, *, spend: bool) -> list[CheckResult]:
        try:
            word = await _ping(model)
            if not spend:
                return [CheckResult(model.name, "ok", _joined(word, NOT_TRIED))]
            began = self._clock()
            question = ChatMessage(role="user", content=SHORT_ANSWER)
            answer = await model.generate(LLMRequest(messages=(question,), max_tokens=SHORT_ANSWER_TOKENS))
            return [CheckResult(model.name, "ok", f"{answer.model} answered in {self._clock() - began:.1f} s")]
        except AppException as error:
            return [CheckResult(model.name, "failed", error.message)]

    async def _index(self, patient: IndexCheck, *, spend: bool) -> list[CheckResult]:
        if not patient.there:
            return [CheckResult(INDEX, "ok", NO_INDEX)]
        try:
            facts = await patient.retrieval.describe()
            word = f"collection {facts.name}, by {facts.embedder}"
            if patient.paid and not spend:
                return [CheckResult(INDEX, "ok", _joined(word, NOT_TRIED))]
            began = self._clock()
            question = RagSearch(query=COMMON_WORD, top_k=FEW_RESULTS, by_words_alone=False)
            found = await patient.retrieval.search(question)
        except AppException as error:
            return [CheckResult(INDEX, "failed", error.message)]
        troubles = [each.reason for each in found.degraded]
        return [
            CheckResult(INDEX, "ok", _joined(word, f"a search took {(self._clock() - began) * 1000:.0f} ms", *troubles))
        ]


async def _ping(provider: object) -> str:
    return await provider.ping() if isinstance(provider, IHealthProbe) else ""


def _named(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _joined(*words: str) -> str:
    return "; ".join(word for word in words if word)
