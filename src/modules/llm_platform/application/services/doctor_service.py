"""Check each configured upstream with a real request, and say what is wrong and what to do about it.

The health check answers every few seconds whether the platform can serve. These checks are run once, by a person, and may take
as long as a search. Causes and remedies come from the errors of the adapters.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.application.research.check.judge_trial import make_labelled_pairs, try_judge
from modules.llm_platform.domain.dtos.health_dtos import CheckResult, CheckVerdict
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage, LLMRequest
from modules.llm_platform.domain.dtos.retrieval_dtos import RagSearch
from modules.llm_platform.domain.dtos.web_search_dtos import SourceKind, WebSearchRequest
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.engine_lists import EngineListCheck, IEngineLists
from modules.llm_platform.domain.ports.health import IHealthProbe
from modules.llm_platform.domain.ports.llm import IContextWindow, ILLMProvider
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from shared.exceptions import AppException

CHECK_DEADLINE_S = 30.0
PROBE_QUERY = "python"  # every search engine has results for this word
FEW_RESULTS = 3
MAX_ENGINES_TRIED = 6  # the proposed list has the engines that answer
PROBE_PROMPT = "Answer with the detail ready."
PROBE_MAX_TOKENS = 1024  # leaves room for reasoning
JUDGE_DEADLINE_S = 1200.0  # a small model on a CPU reads the pairs for minutes
NO_JUDGE = "no language model is configured: citations are verified by their words"
JUDGE_ON = (
    "it judges better than the word comparison: set CITATION_JUDGE=report to use it for reports, or all for all answers"
)
JUDGE_OFF = "the word comparison alone judges as well or better: set CITATION_JUDGE=off"
NOT_TRIED = "not tried, because a call may cost money: run with --yes"

SMALL_CONTEXT_TOKENS = 8192  # 4,000 of sources, 2,048 of answer, and the rules
SMALL_CONTEXT = (
    "a context of {tokens:,} tokens is small: sources are cut to fit; start the model with 8192 or more "
    "(llama.cpp: --ctx-size, Ollama: OLLAMA_CONTEXT_LENGTH, vLLM: --max-model-len)"
)

INDEX = "index"
USABLE = "it can be used"  # of a store that says nothing else
NO_INDEX = "no index yet: `llm-platform index PATH` creates it"


@dataclass(frozen=True, slots=True)
class SearchProviderCheck:
    """A search provider to check.

    - `paid` is True if a search costs money.
    - `expects_results` is True if no result for the probe query is worth a warning.
    - `configured` is True if the operator chose it; a failure of any other provider is only a warning.
    - `sources` are the kinds to search, so that the engines of each are tried.
    - `config_error` is the reason why it cannot be searched.
    """

    provider: IWebSearchProvider
    paid: bool = False
    expects_results: bool = True
    configured: bool = True
    sources: tuple[SourceKind, ...] = ("web",)
    config_error: str = ""


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The index and its embedder.

    - `exists` is True if documents were indexed.
    - `paid` is True if embedding a question costs money.
    """

    retrieval: RetrievalService
    exists: bool = True
    paid: bool = False


class DoctorService:
    """Checks search providers, language models, the index and shared stores such as Redis concurrently."""

    def __init__(
        self,
        searches: Sequence[SearchProviderCheck],
        models: Sequence[ILLMProvider],
        *,
        index: IndexCheck | None = None,
        stores: Sequence[IHealthProbe] = (),
        judge: ICitationJudge | None = None,
        deadline_s: float = CHECK_DEADLINE_S,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._searches = tuple(searches)
        self._models = tuple(models)
        self._indexes = () if index is None else (index,)
        self._stores = tuple(stores)
        self._judge = judge
        self._deadline_s = deadline_s
        self._clock = clock

    async def examine(self, *, spend: bool = False) -> tuple[CheckResult, ...]:
        """Run all checks concurrently, and return their results: searches first, then models, the index and the stores.

        `spend` allows calls that cost money. An error of an upstream becomes a result and is not raised.
        """
        searches = [
            self._run_with_deadline(check.provider.name, self._search(check, spend=spend)) for check in self._searches
        ]
        models = [self._run_with_deadline(model.name, self._check_model(model, spend=spend)) for model in self._models]
        indexes = [self._run_with_deadline(INDEX, self._check_index(check, spend=spend)) for check in self._indexes]
        stores = [self._run_with_deadline(probe.name, _store(probe)) for probe in self._stores]
        return tuple(
            result for found in await asyncio.gather(*searches, *models, *indexes, *stores) for result in found
        )

    async def measure_judge(self) -> CheckResult:
        """Compare the judge with the word comparison on labelled pairs, and advise whether to use the judge.

        Takes up to JUDGE_DEADLINE_S seconds, and calls the model even if that costs money.
        """
        if self._judge is None:
            return CheckResult("judge", "ok", NO_JUDGE)
        pairs = make_labelled_pairs()
        try:
            async with asyncio.timeout(JUDGE_DEADLINE_S):
                trial = await try_judge(self._judge, pairs)
        except TimeoutError:
            return CheckResult(
                self._judge.name,
                "failed",
                f"gave no verdicts within {JUDGE_DEADLINE_S:g} s: set CITATION_JUDGE=off, or choose a faster model for "
                "judge in LLM_STAGES",
            )
        except AppException as error:
            return CheckResult(self._judge.name, "failed", error.explain())
        words, model = (
            sum(verdict == pair.label for pair, verdict in zip(pairs, verdicts, strict=True))
            for verdicts in (trial.by_words, trial.by_judge)
        )
        summary = f"{model} of {len(pairs)} verdicts are right, {words} by the word comparison alone"
        missing = f"no verdict on {trial.missing}" if trial.missing else ""
        is_better = model > words
        text = _join_parts(summary, missing, JUDGE_ON if is_better else JUDGE_OFF)
        return CheckResult(self._judge.name, "ok" if is_better else "warning", text)

    async def _run_with_deadline(self, name: str, check: Awaitable[list[CheckResult]]) -> list[CheckResult]:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await check
        except TimeoutError:
            return [CheckResult(name, "failed", f"did not answer within {self._deadline_s:g} s")]

    async def _search(self, check: SearchProviderCheck, *, spend: bool) -> list[CheckResult]:
        provider = check.provider
        if check.config_error:
            return [CheckResult(provider.name, "failed", check.config_error)]
        failed: CheckVerdict = "failed" if check.configured else "warning"
        try:
            detail = await _ping(provider)
        except AppException as error:
            return [CheckResult(provider.name, failed, error.explain())]
        if check.paid and not spend:
            return [CheckResult(provider.name, "ok", _join_parts(detail, NOT_TRIED))]
        if len(check.sources) == 1:
            return await self._try_search(check, check.sources[0], provider.name, detail, failed)
        subjects = {kind: f"{provider.name} {kind}" for kind in check.sources}
        kinds = [self._try_search(check, kind, subject, "", failed) for kind, subject in subjects.items()]
        results = [result for kind in await asyncio.gather(*kinds) for result in kind]
        lists = await self._check_engine_lists(provider)
        return list(dict.fromkeys([CheckResult(provider.name, "ok", detail or "reachable"), *results, *lists]))

    async def _try_search(
        self, check: SearchProviderCheck, kind: SourceKind, subject: str, detail: str, failed: CheckVerdict
    ) -> list[CheckResult]:
        """Search one kind of source alone, because engines of other kinds would hide that none of this kind answers."""
        began = self._clock()
        request = WebSearchRequest(query=PROBE_QUERY, count=FEW_RESULTS, sources=(kind,))
        try:
            answer = await check.provider.search(request)
        except AppException as error:
            return [CheckResult(subject, failed, error.explain())]
        took = f"a search took {(self._clock() - began) * 1000:.0f} ms"
        problems = [
            CheckResult(degradation.component, "warning", degradation.reason) for degradation in answer.degraded
        ]
        if check.expects_results and not answer.results:
            return [
                CheckResult(subject, "warning", _join_parts(detail, f"found nothing for {PROBE_QUERY!r}")),
                *problems,
            ]
        return [CheckResult(subject, "ok", _join_parts(detail, took)), *problems]

    async def _check_engine_lists(self, provider: IWebSearchProvider) -> list[CheckResult]:
        if not isinstance(provider, IEngineLists):
            return []
        try:
            checks = await provider.engine_lists()
        except AppException as error:
            return [CheckResult(provider.name, "warning", error.explain())]
        wrong = [check for check in checks if check.missing or check.off]
        return list(await asyncio.gather(*(self._check_engine_list(provider, check) for check in wrong)))

    async def _check_engine_list(self, provider: IWebSearchProvider, check: EngineListCheck) -> CheckResult:
        problems = [f"the instance does not have {_join_names(check.missing)}"] if check.missing else []
        problems += [f"the instance has disabled {_join_names(check.off)} (used only when named)"] if check.off else []
        working = await self._find_working_engines(provider, check)
        remedy = [f"engines that answer: {check.setting}={','.join(working)}"] if working else []
        verdict: CheckVerdict = "failed" if len(check.missing) == len(check.listed) else "warning"
        return CheckResult(
            f"{provider.name} {check.kind}", verdict, f"{check.setting}: {_join_parts(*problems, *remedy)}"
        )

    async def _find_working_engines(self, provider: IWebSearchProvider, check: EngineListCheck) -> list[str]:
        """Return the enabled engines of the instance that answer a search. Tries at most MAX_ENGINES_TRIED of them."""
        tried = check.on[:MAX_ENGINES_TRIED]
        if not tried:
            return []
        request = WebSearchRequest(query=PROBE_QUERY, count=FEW_RESULTS, sources=(check.kind,), engines=tried)
        try:
            answer = await provider.search(request)
        except AppException:
            return []
        failed = {degradation.component for degradation in answer.degraded}
        return [engine for engine in tried if f"{provider.name}/{engine}" not in failed] if answer.results else []

    async def _check_model(self, model: ILLMProvider, *, spend: bool) -> list[CheckResult]:
        try:
            detail = await _ping(model)
            if not spend and not model.is_free:
                return [CheckResult(model.name, "ok", _join_parts(detail, NOT_TRIED))]
            began = self._clock()
            question = ChatMessage(role="user", content=PROBE_PROMPT)
            answer = await model.generate(LLMRequest(messages=(question,), max_tokens=PROBE_MAX_TOKENS))
            answered = f"{answer.model} answered in {self._clock() - began:.1f} s"
            results = [CheckResult(model.name, "ok", answered)]
            tokens = await model.context_tokens() if isinstance(model, IContextWindow) else None
            if tokens is not None and tokens < SMALL_CONTEXT_TOKENS:
                results.append(CheckResult(model.name, "warning", SMALL_CONTEXT.format(tokens=tokens)))
            return results
        except AppException as error:
            return [CheckResult(model.name, "failed", error.explain())]

    async def _check_index(self, check: IndexCheck, *, spend: bool) -> list[CheckResult]:
        if not check.exists:
            return [CheckResult(INDEX, "ok", NO_INDEX)]
        try:
            collection = await check.retrieval.describe()
            detail = f"collection {collection.name}, by {collection.embedder}"
            if check.paid and not spend:
                return [CheckResult(INDEX, "ok", _join_parts(detail, NOT_TRIED))]
            began = self._clock()
            question = RagSearch(query=PROBE_QUERY, top_k=FEW_RESULTS, keyword_fallback=False)
            hits = await check.retrieval.search(question)
        except AppException as error:
            return [CheckResult(INDEX, "failed", error.explain())]
        problems = [degradation.reason for degradation in hits.degraded]
        return [
            CheckResult(
                INDEX, "ok", _join_parts(detail, f"a search took {(self._clock() - began) * 1000:.0f} ms", *problems)
            )
        ]


async def _store(store: IHealthProbe) -> list[CheckResult]:
    try:
        return [CheckResult(store.name, "ok", await store.ping() or USABLE)]
    except AppException as error:
        return [CheckResult(store.name, "failed", error.explain())]


async def _ping(provider: object) -> str:
    return await provider.ping() if isinstance(provider, IHealthProbe) else ""


def _join_names(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _join_parts(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
