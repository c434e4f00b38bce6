"""The errors of the platform. The first line of each says what happened and what the caller can do about it.

docs/reference/errors.md has them as a table, which a test compares with the classes; all of them are public names.
"""

from collections.abc import Iterable
from typing import Any, Final, Self

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from shared.exceptions import AppException


class WebSearchRequestError(AppException, code="web_search_request", status_code=422):
    """The search request is not valid: change it and send it again."""


class WebSearchConfigError(AppException, code="web_search_config", status_code=503):
    """The search provider is not set up: a setting is missing or wrong."""


class WebSearchConnectionError(AppException, code="web_search_connection", status_code=503, retryable=True):
    """The search provider cannot be reached: try again."""


class WebSearchTimeoutError(WebSearchConnectionError, code="web_search_timeout"):
    """The search provider did not answer in time: try again."""


class WebSearchBlockedError(WebSearchConnectionError, code="web_search_blocked"):
    """The search provider refuses requests for now: try again later."""

    def __init__(
        self, message: str | None = None, *, retry_after_s: float | None = None, engines_only: bool = False
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.engines_only = engines_only  # those that were asked: the service itself may be asked for others


class WebSearchError(AppException, code="web_search_error", status_code=502):
    """The search provider answered with an error: use another one."""


class WebSearchUnavailableError(WebSearchError):
    """The search provider's service is broken for now (5xx): use another one."""


class LLMException(AppException):
    """A language model failed."""

    def __init__(
        self, message: str | None = None, *, retry_after_s: float | None = None, spent: Spending | None = None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.spent = spent or Spending()  # failed tries cost money too


class LLMRequestError(LLMException, code="llm_request", status_code=422):
    """The request to the language model is not valid: change it and send it again."""

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_s: float | None = None,
        spent: Spending | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, spent=spent)
        self.field = field


class LLMConfigError(LLMException, code="llm_config", status_code=503):
    """The language model is not set up: a setting is missing or wrong."""


class LLMConnectionError(LLMException, code="llm_connection", status_code=503, retryable=True):
    """The language model cannot be reached: try again."""


class LLMTimeoutError(LLMConnectionError, code="llm_timeout"):
    """The language model did not answer in time: try again."""


class LLMBlockedError(LLMConnectionError, code="llm_blocked"):
    """The language model refuses requests for now (quota or rate limit): try again later."""


class LLMQuotaError(LLMBlockedError, code="llm_quota"):
    """The quota or balance of the language model is used up: top it up, or wait for its next cycle."""


class LLMProviderException(LLMException, code="llm_provider", status_code=502):
    """The language model answered with an error or without usable text: use another one."""


class LLMUnavailableError(LLMProviderException, code="llm_unavailable", retryable=True):
    """The language model's service is overloaded or broken for now: try again."""


class PageRequestError(AppException, code="page_request", status_code=422):
    """This address may not be read: use the address of a public web page."""


class PageLimitError(PageRequestError, code="page_limit", status_code=429, retryable=True):
    """The request needs more pages than the caller's limit allows: send fewer addresses, or try again in a minute."""


class PageConfigError(AppException, code="page_config", status_code=503):
    """Pages cannot be read: a setting or a package is missing."""


class PageConnectionError(AppException, code="page_connection", status_code=503, retryable=True):
    """The page's server cannot be reached: try again."""


class PageTimeoutError(PageConnectionError, code="page_timeout"):
    """The page was not read in time: try again."""


class PageBlockedError(PageConnectionError, code="page_blocked"):
    """The page does not show its text: it asks for a login, a consent or a captcha."""


class PageError(AppException, code="page_error", status_code=502):
    """The page has no usable text: use another source."""


class PageNotFoundError(PageError, code="page_not_found"):
    """There is no such page: correct its address."""


UNREADABLE_CITATIONS: Final = "The citations of the text cannot be read ({reason}). Split the text."


class VerificationError(AppException, code="verification", status_code=422):
    """The text cannot be verified: it has too many sentences, sources or citations. Split it."""

    field = "text"


class ResearchTimeoutError(AppException, code="timeout", status_code=503, retryable=True):
    """The deadline passed before anything was found: try again, or raise RESEARCH_TIMEOUT_S."""


class UploadedFileError(AppException, code="uploaded_file", status_code=422):
    """A file of the request cannot be read: the message names the file and the reason. Send another one, or leave it out."""

    field = "files"

    def __init__(self, message: str | None = None, *, file: str = "") -> None:
        """`file` is the clean name of the file, which the problem object has as a member of its own."""
        super().__init__(message)
        self.file = file

    def problem(self, *, instance: str, request_id: str) -> dict[str, Any]:
        problem = super().problem(instance=instance, request_id=request_id)
        return {**problem, "file": self.file} if self.file else problem


class OutputSchemaError(AppException, code="output_schema", status_code=422):
    """output_schema needs a language model: set LLM_API_KEY with LLM_MODEL, or leave output_schema out."""

    field = "output_schema"


class OutputError(AppException, code="output", status_code=502, retryable=True):
    """The answer was written, but could not be converted to the schema: try again, or ask for the text without a schema."""

    @classmethod
    def of(cls, degraded: Iterable[Degraded]) -> Self:
        """Return the error of an answer without its `output`, with the reason that `degraded` gives."""
        reason = next((degradation.reason for degradation in degraded if degradation.component == cls.code), "")
        return cls(f"{cls.__doc__} ({reason})" if reason else None)


class SourceNotHeldError(AppException, code="source_not_held", status_code=404):
    """The text of that source is not stored (any more): run the research again."""


class LLMBudgetError(LLMException, code="llm_budget", status_code=503):
    """The budget of this research run allows no further call here."""


class DailyBudgetError(LLMException, code="daily_budget", status_code=429, retryable=True):
    """Today's budget is used up: raise BUDGET_USD_PER_DAY, or wait until 00:00 UTC."""

    component = "budget/day"


class PriceUnknownError(AppException, code="price_unknown", status_code=422):
    """max_cost_usd needs the price of every model: set price_in and price_out in LLM_PROVIDERS, or leave max_cost_usd out."""


class StoreError(AppException, code="store", status_code=500):
    """The store of research runs cannot do that: the file or folder is not usable."""


class StoreUnavailableError(StoreError, status_code=503, retryable=True):
    """The database or the disk of the store cannot be used for now: try again."""


class ResearchNotFoundError(AppException, code="research_not_found", status_code=404):
    """There is no such research run: it expired, was not stored, or belongs to another API key."""


class PreviousResearchNotFoundError(AppException, code="previous_research_not_found", status_code=404):
    """No finished research run with this previous_id is stored for this caller: leave it out, or send `history` as well."""


class BackgroundError(AppException, code="background", status_code=422):
    """This cannot run in the background: change the request or the setting that the message names."""


class WebhookError(BackgroundError, code="webhook"):
    """The webhook cannot be used: change its address, or the setting that the message names."""


class ResearchQueueFullError(AppException, code="research_queue_full", status_code=503, retryable=True):
    """Too many research runs of this client wait in the background: try again when some have finished."""


class ResearchCancelledError(AppException, code="research_cancelled", status_code=409):
    """The research run was cancelled by its caller."""


class ResearchEndedError(AppException, code="research_ended", status_code=409):
    """The research run has ended, so there is nothing to finish early: GET /research/{id} returns its answer or its problem."""


class WatchNotFoundError(AppException, code="watch_not_found", status_code=404):
    """There is no such watch: it was removed, or belongs to another API key."""


class WatchLimitError(AppException, code="watch_limit", status_code=409):
    """The caller has reached the limit for watches, or for daily runs of one watch: the message says which."""


class SealError(AppException, code="seal", status_code=409):
    """The answer cannot be sealed, or the file is not an unchanged sealed answer."""


class SealConfigError(SealError, code="seal_config", status_code=503):
    """SEAL_KEY is set, and the package that signs is not installed."""


class ResearchInterruptedError(AppException, code="research_interrupted", status_code=500):
    """The server ended or froze twice during this run and does not start it again: see its log, and send a smaller request."""


class SpendingStoreError(AppException, code="spending_store", status_code=503, retryable=True):
    """Today's spending cannot be stored, so this process counts only its own."""


class TopicNotFoundError(AppException, code="topic_not_found", status_code=404):
    """There is no such topic in the store: `llm-platform topics list` shows all topics."""


class EmbeddingError(AppException, code="embedding", status_code=502, retryable=True):
    """The text could not be turned into vectors: try again."""


class EmbeddingConfigError(AppException, code="embedding_config", status_code=503):
    """The embedder is not set up: a setting or a package is missing or wrong."""


class SupportModelError(AppException, code="support_model", status_code=503):
    """The support model cannot be used: a package is missing, or its weights cannot be read."""


class VectorStoreError(AppException, code="vector_store", status_code=503, retryable=True):
    """The index of documents cannot be reached or is broken: try again."""


class VectorStoreUnavailableError(VectorStoreError):
    """The files of the index cannot be used for now: the disk is full, or they are locked or read-only. Nothing is damaged."""


class VectorStoreConfigError(AppException, code="vector_store_config", status_code=503):
    """The index of documents is not set up: it is missing, was made by another embedder, or another process writes to it."""


class VectorStoreBusyError(VectorStoreConfigError):
    """Another process writes to the collection."""


class SchemaRegistryError(AppException, code="schema_registry", status_code=503, retryable=True):
    """The schema registry cannot be used, or refuses a schema: a worker consumes nothing until it has the ids."""


class OutcomeStoreError(AppException, code="outcome_store", status_code=503, retryable=True):
    """The outcome store cannot be used: no request is answered until it can."""
