"""Build the parts that write and judge, with language models or without one."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from modules.llm_platform.application.research.write.passage_choice import PassageChooser
from modules.llm_platform.application.research.write.shared_synthesizer import SharedSynthesizer
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.citation_dtos import StoredVerdicts
from modules.llm_platform.domain.dtos.web_search_dtos import DOCUMENTS
from modules.llm_platform.domain.llm.context_budget import SOURCES_BUDGET_TOKENS
from modules.llm_platform.domain.ports.cache import ICache
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.ports.llm import ContextTokens, ILLMProvider
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import ISynthesizer
from modules.llm_platform.infrastructure.cache.from_settings import SharedState
from modules.llm_platform.infrastructure.models.from_settings.chat_models import (
    LanguageModels,
    LLMAdapters,
    compute_research_timeout_s,
    list_connections,
    resolve_stages,
)
from modules.llm_platform.infrastructure.resources import Resources, is_installed
from modules.llm_platform.infrastructure.search.from_settings.providers import search_order
from shared.config import Settings, SettingsError


class BuildWriter(Protocol):
    """`build_writer` without its first two arguments."""

    def __call__(
        self,
        llm: ILLMProvider | None,
        context_tokens: int | ContextTokens,
        sources_tokens: int = ...,
    ) -> ISynthesizer: ...


class BuildJudge(Protocol):
    """`build_citation_judge`, or a function that returns the judge of an override for every model."""

    def __call__(self, llm: ILLMProvider | None, context_tokens: ContextTokens) -> ICitationJudge | None: ...


BuildSynthesizer = Callable[[LanguageModels, float], ISynthesizer]  # the rest of the arguments of `build_synthesizer`


def build_passage_chooser(
    settings: Settings, encoder: ISentenceEncoder | None, model: ISupportModel | None
) -> PassageChooser | None:
    """Return what chooses the passages for a small model; None without an encoder."""
    return PassageChooser(encoder, model, settings.ANSWER_ENCODER_TIMEOUT_S) if encoder else None


def build_writer(
    extractive: ISynthesizer,
    passages: PassageChooser | None,
    llm: ILLMProvider | None,
    context_tokens: int | ContextTokens,
    sources_tokens: int = SOURCES_BUDGET_TOKENS,
) -> ISynthesizer:
    """Return the synthesizer of a model, or the extractive one without a model."""
    if llm is None:
        return extractive
    from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer

    return LLMSynthesizer(llm, context_tokens=context_tokens, sources_tokens=sources_tokens, passages=passages)


def build_answer_writer(write: BuildWriter, models: LanguageModels) -> ISynthesizer:
    """Return the writer of answers from documents and of shallow and deep research answers."""
    return write(models.llm, models.context_tokens, models.sources_tokens())


def build_synthesizer(
    write: BuildWriter, shared: SharedState, models: LanguageModels, cache_ttl_s: float
) -> ISynthesizer:
    """Return the writer of shallow and deep answers. Equal answers are written once and cached for `cache_ttl_s` seconds."""
    writer = build_answer_writer(write, models)
    if models.llm is None:
        return writer
    cache = shared.cache("synthesis", Synthesis)
    lock = shared.lock("synthesis", compute_research_timeout_s(models.settings))
    return SharedSynthesizer(writer, cache, cache_ttl_s, f"{models.version}/{models.sources_tokens()}", lock)


def build_citation_judge(llm: ILLMProvider | None, context_tokens: ContextTokens) -> ICitationJudge | None:
    from modules.llm_platform.application.research.check.judge import LLMCitationJudge

    return LLMCitationJudge(llm, context_tokens=context_tokens) if llm else None


def build_support_model(settings: Settings, resources: Resources) -> ISupportModel | None:
    """Return the model that decides what the word comparison leaves in doubt; None if it is off, or `auto` and not installed."""
    from modules.llm_platform.infrastructure.models.support.onnx_support_model import OnnxSupportModel

    return resources.closing(OnnxSupportModel()) if uses_support_model(settings) else None


def build_sentence_encoder(settings: Settings, resources: Resources, static: IEmbedder) -> ISentenceEncoder | None:
    """Return the encoder that finds the sentences near a question; None if it is off, or `auto` and not installed.

    `static` is the embedder of folders, which may have no vectors.
    """
    from modules.llm_platform.infrastructure.models.sentences.encoder import PackagedSentenceEncoder

    return resources.closing(PackagedSentenceEncoder(static)) if uses_sentence_encoder(settings) else None


def uses_support_model(settings: Settings) -> bool:
    """Return whether the support model is used. Raises SettingsError if it is on and not installed."""
    from modules.llm_platform.infrastructure.models.onnx_files import PACKAGES
    from modules.llm_platform.infrastructure.models.support.onnx_support_model import NOT_INSTALLED

    return _is_used(settings.CITATION_ENCODER, PACKAGES, f"CITATION_ENCODER=on: {NOT_INSTALLED}")


def uses_sentence_encoder(settings: Settings) -> bool:
    """Return whether the sentence encoder is used. Raises SettingsError if it is on and not installed."""
    from modules.llm_platform.infrastructure.models.sentences.vectors import NOT_INSTALLED, PACKAGES

    return _is_used(settings.ANSWER_ENCODER, PACKAGES, f"ANSWER_ENCODER=on: {NOT_INSTALLED}")


def needs_words_of_query(settings: Settings) -> bool:
    """Return whether a search of documents finds nothing if no document has a word of the query.

    Static vectors find documents for every query. Where only documents are searched and the sentence encoder is used, it
    rejects what does not answer and finds answers in other words. Beside the web, such documents would displace its results.
    """
    has_static_vectors = settings.DOCUMENTS_DIR is not None or settings.EMBEDDER == "wordllama"
    are_alone = search_order(settings) == (DOCUMENTS,)
    return has_static_vectors and not (are_alone and uses_sentence_encoder(settings))


def _is_used(setting: Literal["auto", "off", "on"], packages: Sequence[str], not_installed: str) -> bool:
    has_packages = is_installed(packages)
    if setting == "on" and not has_packages:
        raise SettingsError(not_installed)
    return setting != "off" and has_packages


def choose_judged_answers(
    settings: Settings, among: LLMAdapters | None = None
) -> Literal["off", "report", "auto", "all"]:
    """Return the kind of answers that a model judges.

    `auto` resolves to `off` if the judging model is local, because small models give worse verdicts than word comparison and
    take long on a CPU. `among` names the models of the run. None means all.
    """
    if settings.CITATION_JUDGE != "auto":
        return settings.CITATION_JUDGE
    connections = {
        connection.name: connection
        for connection in list_connections(settings)
        if among is None or connection.name in among
    }
    judge = connections.get(resolve_stages(settings).get("judge") or next(iter(connections), ""))
    return "off" if judge is not None and judge.is_local else "auto"


def build_judge(judge: BuildJudge, models: LanguageModels) -> ICitationJudge | None:
    """Return the judge, whether it is turned on or not. LLM_STAGES may name its model."""
    return judge(models.prefer("judge"), models.context_tokens)


def build_answer_judge(judge: BuildJudge, models: LanguageModels) -> ICitationJudge | None:
    """Return the judge of answers from documents and from given context."""
    return build_judge(judge, models) if models.settings.CITATION_JUDGE == "all" else None


def build_research_judge(
    judge: BuildJudge, verdicts: ICache[StoredVerdicts], models: LanguageModels, cache_ttl_s: float
) -> ICitationJudge | None:
    """Return the judge of shallow and deep answers, with a cache, because their texts are cached as well."""
    if choose_judged_answers(models.settings, models.adapters) not in ("auto", "all"):
        return None
    built = build_judge(judge, models)
    if built is None or cache_ttl_s <= 0:
        return built
    from modules.llm_platform.application.research.check.judge import CachedCitationJudge

    return CachedCitationJudge(built, verdicts, cache_ttl_s, models.version)
