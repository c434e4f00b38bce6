"""The errors of the platform. The first line of each says what happened and what the caller can do about it.

docs/reference/errors.md has them as a table, which a test compares with the classes; all of them are public names.
"""

from __future__ import annotations

from modules.llm_platform.domain.dtos.llm_dtos import Spending
from shared.exceptions import AppException


class WebSearchRequestError(AppException):
    """The search request is not valid: change it and send it again."""

    code = "web_search_request"
    status_code = 422


class WebSearchConfigError(AppException):
    """The search provider is not set up: a setting is missing or wrong."""

    code = "web_search_config"
    status_code = 503


class WebSearchConnectionError(AppException):
    """The search provider cannot be reached: try again."""

    code = "web_search_connection"
    status_code = 503
    retryable = True


class WebSearchTimeoutError(WebSearchConnectionError):
    """The search provider did not answer in time: try again."""

    code = "web_search_timeout"


class WebSearchBlockedError(WebSearchConnectionError):
    """The search provider refuses requests for now: try again later."""

    code = "web_search_blocked"

    def __init__(
        self, message: str | None = None, *, retry_after_s: float | None = None, engines_only: bool = False
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.engines_only = engines_only  # those that were asked: the service itself may be asked for others


class WebSearchError(AppException):
    """The search provider answered with an error: use another one."""

    code = "web_search_error"
    status_code = 502


class WebSearchUnavailableError(WebSearchError):
    """The search provider's service is broken for now (5xx): use another one."""


class LLMException(AppException):
    """A language model failed."""

    def __init__(
        self, message: str | None = None, *, retry_after_s: float | None = None, spent: Spending | None = None
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.spent = spent or Spending()  # failed tries cost money too


class LLMRequestError(LLMException):
    """The request to the language model is not valid: change it and send it again."""

    code = "llm_request"
    status_code = 422

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


class LLMConfigError(LLMException):
    """The language model is not set up: a setting is missing or wrong."""

    code = "llm_config"
    status_code = 503


class LLMConnectionError(LLMException):
    """The language model cannot be reached: try again."""

    code = "llm_connection"
    status_code = 503
    retryable = True


class LLMTimeoutError(LLMConnectionError):
    """The language model did not answer in time: try again."""

    code = "llm_timeout"


class LLMBlockedError(LLMConnectionError):
    """The language model refuses requests for now (quota or rate limit): try again later."""

    code = "llm_blocked"


class LLMQuotaError(LLMBlockedError):
    """The quota or balance of the language model is used up: top it up, or wait for its next cycle."""

    code = "llm_quota"


class LLMProviderException(LLMException):
    """The language model answered with an error or without usable text: use another one."""

    code = "llm_provider"
    status_code = 502


class LLMUnavailableError(LLMProviderException):
    """The language model's service is overloaded or broken for now: try again."""

    code = "llm_unavailable"
    retryable = True


class PageRequestError(AppException):
    """This address may not be read: use the address of a public web page."""

    code = "page_request"
    status_code = 422


class PageConfigError(AppException):
    """Pages cannot be read: a setting or a package is missing."""

    code = "page_config"
    status_code = 503


class PageConnectionError(AppException):
    """The page's server cannot be reached: try again."""

    code = "page_connection"
    status_code = 503
    retryable = True


class PageTimeoutError(PageConnectionError):
    """The page was not read in time: try again."""

    code = "page_timeout"


class PageBlockedError(PageConnectionError):
    """The page does not show its text: it asks for a login, a consent or a captcha."""

    code = "page_blocked"


class PageError(AppException):
    """The page has no usable text: use another source."""

    code = "page_error"
    status_code = 502


class ResearchTimeoutError(AppException):
    """The deadline passed before anything was found: try again, or raise RESEARCH_TIMEOUT_S."""

    code = "timeout"
    status_code = 503
    retryable = True


class SourceNotHeldError(AppException):
    """The text of that source is not stored (any more): run the research again."""

    code = "source_not_held"
    status_code = 404


class LLMBudgetError(LLMException):
    """The budget of this research run allows no further call here."""

    code = "llm_budget"
    status_code = 503


class DailyBudgetError(LLMException):
    """The budget of this day is spent: raise BUDGET_USD_PER_DAY, or wait until 00:00 UTC."""

    code = "daily_budget"
    status_code = 429
    retryable = True
    component = "budget/day"


class PriceUnknownError(AppException):
    """max_cost_usd needs the price of every model: set price_in and price_out in LLM_PROVIDERS, or leave max_cost_usd out."""

    code = "price_unknown"
    status_code = 422


class StoreError(AppException):
    """The store of research runs cannot do that: the file or folder is not usable."""

    code = "store"
    status_code = 500


class StoreUnavailableError(StoreError):
    """The database or the disk of the store cannot be used for now: try again."""

    status_code = 503
    retryable = True


class ResearchNotFoundError(AppException):
    """There is no such research: it expired, was not run in the background, or belongs to another API key."""

    code = "research_not_found"
    status_code = 404


class PreviousResearchNotFoundError(AppException):
    """No finished research with this previous_id is stored for this caller: leave it out, or send `history` as well."""

    code = "previous_research_not_found"
    status_code = 404


class BackgroundError(AppException):
    """The research cannot run in the background: change the request or the setting that the message names."""

    code = "background"
    status_code = 422


class WebhookError(BackgroundError):
    """The webhook cannot be used: change its address, or the setting that the message names."""

    code = "webhook"


class ResearchQueueFullError(AppException):
    """Too many research runs of this client wait in the background: try again when some have finished."""

    code = "research_queue_full"
    status_code = 503
    retryable = True


class ResearchCancelledError(AppException):
    """The research was cancelled by its caller."""

    code = "research_cancelled"
    status_code = 409


class ResearchInterruptedError(AppException):
    """The server ended again and again while it ran this research run: search its log."""

    code = "research_interrupted"
    status_code = 500


class SpendingStoreError(AppException):
    """The spending of the day cannot be stored: this process counts alone."""

    code = "spending_store"
    status_code = 503
    retryable = True


class TopicNotFoundError(AppException):
    """There is no such topic in the store: `llm-platform topics list` shows all topics."""

    code = "topic_not_found"
    status_code = 404


class EmbeddingError(AppException):
    """The text could not be turned into vectors: try again."""

    code = "embedding"
    status_code = 502
    retryable = True


class EmbeddingConfigError(AppException):
    """The embedder is not set up: a setting or a package is missing or wrong."""

    code = "embedding_config"
    status_code = 503


class VectorStoreError(AppException):
    """The index of documents cannot be reached or is broken: try again."""

    code = "vector_store"
    status_code = 503
    retryable = True


class VectorStoreConfigError(AppException):
    """The index of documents is not set up: it is missing, was made by another embedder, or another process writes to it."""

    code = "vector_store_config"
    status_code = 503


class VectorStoreBusyError(VectorStoreConfigError):
    """Another process writes to the collection."""


class SchemaRegistryError(AppException):
    """The schema registry cannot be used, or refuses a schema: a worker consumes nothing until it has the ids."""

    code = "schema_registry"
    status_code = 503
    retryable = True


class OutcomeStoreError(AppException):
    """The outcome store cannot be used: no request is answered until it can."""

    code = "outcome_store"
    status_code = 503
    retryable = True
