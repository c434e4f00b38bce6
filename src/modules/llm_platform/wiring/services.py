"""Options of the services, and the checks of health and doctor."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType

from modules.llm_platform.application.platform import DocumentTitles, ListDocuments, list_no_documents, list_no_titles
from modules.llm_platform.application.rag.retrieval import RetrievalService
from modules.llm_platform.application.services.answer_check_service import (
    CHECK_TIMEOUT_S,
    COMPARING_SHARE,
    AnswerCheckService,
)
from modules.llm_platform.application.services.answer_service import AnswerOptions
from modules.llm_platform.application.services.doctor_service import DoctorService, IndexCheck, SearchProviderCheck
from modules.llm_platform.application.services.health_service import HealthService
from modules.llm_platform.application.services.seal_service import SealTools
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.verification.text_verification import ReadCitations, VerificationOptions
from modules.llm_platform.domain.dtos.sealed_dtos import CheckerStamp, SealedAnswer
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.health import ICircuit, IHealthProbe
from modules.llm_platform.domain.ports.metrics import IMetrics
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider
from modules.llm_platform.infrastructure.limits.upstream_states import UpstreamStates
from modules.llm_platform.infrastructure.models.from_settings.chat_models import LLMAdapters, compute_research_timeout_s
from modules.llm_platform.infrastructure.resources import Resources, has_documents, has_index
from modules.llm_platform.infrastructure.search.from_settings.chain import SearchAdapters, list_searxng_names
from modules.llm_platform.infrastructure.search.from_settings.providers import find_spec, uses_fallback
from modules.llm_platform.infrastructure.unconfigured import (
    Unconfigured,
    unconfigured_page_reader,
    unconfigured_web_search,
)
from shared.config import Settings
from shared.setting_types import LOCAL_EMBEDDERS

NOT_GIVEN = "The model was not given this address, and the gateway opens none"


def build_citation_reader(resources: Resources) -> ReadCitations:
    """Return the reader of citations in foreign texts, which runs in the processes that parse pages."""
    from modules.llm_platform.infrastructure.parsing.citation_reader import ChildCitationReader

    return resources.closing(ChildCitationReader(resources.parsers()))


def build_answer_options(settings: Settings) -> AnswerOptions:
    return AnswerOptions(
        timeout_s=compute_research_timeout_s(settings), top_k=settings.RAG_TOP_K, max_tokens=settings.LLM_MAX_TOKENS
    )


def build_verification_options(settings: Settings) -> VerificationOptions:
    return VerificationOptions(
        timeout_s=compute_research_timeout_s(settings),
        judges_supported=settings.CITATION_JUDGE == "all",
        searches_documents=has_documents(settings),
    )


def build_answer_checks(
    settings: Settings, read_text: ReadCitations, support_model: ISupportModel | None, metrics: IMetrics
) -> AnswerCheckService:
    """Return the check of the gateway, which reads no page, searches nothing and asks no language model."""
    verification = VerificationService(
        unconfigured_page_reader("gateway", NOT_GIVEN),
        unconfigured_web_search("gateway", NOT_GIVEN),
        options=VerificationOptions(timeout_s=CHECK_TIMEOUT_S * COMPARING_SHARE),
        read_text=read_text,
        support_model=support_model,
    )
    return AnswerCheckService(verification, settings.VERIFY, metrics, CHECK_TIMEOUT_S)


def build_seal_tools(settings: Settings) -> SealTools:
    """Return how sealed answers are packed and shown, and how they are signed if the operator has a key."""
    from modules.llm_platform.infrastructure import ed25519
    from modules.llm_platform.infrastructure.files import sealed_archive

    def render_page(answer: SealedAnswer, sources: tuple[Source, ...]) -> str:
        # Imported on first use, because the renderer belongs to the command line.
        from modules.llm_platform.presentation.cli.render.sealed_page import render_sealed_page

        return render_sealed_page(answer, sources)

    key = settings.SEAL_KEY
    signer = ed25519.Ed25519Signer(key.get_secret_value()) if key else None
    tools = SealTools(render_page, sealed_archive.pack, sealed_archive.unpack, signer, ed25519.is_signed)
    return replace(tools, check_signer=signer.check) if signer else tools


def build_checker_stamp(support_model: ISupportModel | None, settings: Settings) -> CheckerStamp:
    """Return the checker of this program, with the settings that decide who gives the verdicts of an answer."""
    from modules.llm_platform.infrastructure.files.checker_stamp import describe_checker

    deciding = {"CITATION_ENCODER": settings.CITATION_ENCODER, "CITATION_JUDGE": settings.CITATION_JUDGE}
    return describe_checker(support_model, deciding, list_page_modules())


def list_page_modules() -> tuple[ModuleType, ...]:
    """Return the modules that make the page of a sealed answer."""
    from modules.llm_platform.domain.untrusted import untrusted_text
    from modules.llm_platform.presentation import verification_text
    from modules.llm_platform.presentation.cli.render import document, sealed_page, terminal
    from shared import logging

    return document, sealed_page, terminal, verification_text, untrusted_text, logging


def build_circuits(
    search: UpstreamStates, llms: UpstreamStates, pages: Mapping[str, ICircuit]
) -> Mapping[str, Mapping[str, ICircuit]]:
    """Return the circuits by kind of upstream and name, for health and metrics."""
    return {
        "search": {name: upstream.circuit for name, upstream in search.items()},
        "llm": {name: upstream.circuit for name, upstream in llms.items()},
        "page_reader": dict(pages),
    }


def build_health(
    search: SearchAdapters,
    llms: LLMAdapters,
    probes: Sequence[IHealthProbe],
    circuits: Mapping[str, Mapping[str, ICircuit]],
) -> HealthService:
    kimi = [name for name, model in llms.items() if getattr(model, "kind", name) == "kimi"]
    stores = {probe.name: probe for probe in probes}
    searxng = list_searxng_names(search)
    return HealthService(search, llms, stores=stores, searxng=searxng, kimi=kimi, circuits=circuits)


def build_doctor(
    settings: Settings,
    search: SearchAdapters,
    llms: LLMAdapters,
    retrieval: RetrievalService,
    probes: Sequence[IHealthProbe],
    judge: ICitationJudge | None,
) -> DoctorService:
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    index = IndexCheck(retrieval, exists=has_index(settings), paid=settings.EMBEDDER not in LOCAL_EMBEDDERS)
    fallback = uses_fallback(settings)
    checks = [_build_search_check(name, adapter, settings, fallback=fallback) for name, adapter in search.items()]
    searches = [
        check
        for check in checks
        # The indexed collection is checked by IndexCheck.
        if not (index.exists and isinstance(check.provider, DocumentWebSearch) and check.provider.folder is None)
    ]
    return DoctorService(searches, tuple(llms.values()), index=index, stores=probes, judge=judge)


def _build_search_check(
    name: str, adapter: IWebSearchProvider, settings: Settings, *, fallback: bool
) -> SearchProviderCheck:
    spec = find_spec(name)
    if spec is None:  # an adapter of the caller: the cost of a search is unknown
        return SearchProviderCheck(adapter, paid=not isinstance(adapter, Unconfigured))
    missing = spec.find_missing_setting(settings)
    return SearchProviderCheck(
        adapter,
        paid=spec.paid,
        expects_results=name != DOCUMENTS,
        configured=not fallback or not spec.fallback,
        sources=spec.source_kinds,
        config_error=f"it is in SEARCH_PROVIDERS but not configured: set {missing}" if missing else "",
    )


def choose_page_reader(answers: IPageReader | None, direct: IPageReader) -> IPageReader:
    """Return the reader of answers, which has a cache, or the direct one if answers read no pages."""
    return answers or direct


def build_document_titles(settings: Settings, documents: IWebSearchProvider | None) -> DocumentTitles:
    """Return the function `titles(limit)`, which lists at most `limit` titles of the searchable documents."""
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    return documents.titles if isinstance(documents, DocumentWebSearch) and has_documents(settings) else list_no_titles


def build_document_list(settings: Settings, documents: IWebSearchProvider | None) -> ListDocuments:
    """Return the function that lists the documents and the files that cannot be read."""
    from modules.llm_platform.infrastructure.documents.web_search import DocumentWebSearch

    if isinstance(documents, DocumentWebSearch) and has_documents(settings):
        return documents.list_documents
    return list_no_documents
