"""What can go wrong, and what the caller can do about it.

AppException
├── WebSearchRequestError            422  the request is wrong                    change it
├── WebSearchConfigError             503  a setting is missing or wrong           set the variable that it names
├── WebSearchConnectionError         503  the provider is not reachable           try again
│   ├── WebSearchTimeoutError        503  it did not answer in time               try again, or raise the timeout
│   └── WebSearchBlockedError        503  it refuses us for now                   try again after `retry_after_s`
├── WebSearchError                   502  it answered with an error               ask another provider
├── LLMRequestError                  422  the request is wrong                    change it
├── LLMConfigError                   503  a setting is missing or wrong           set the variable that it names
├── LLMConnectionError               503  the model is not reachable              try again
│   ├── LLMTimeoutError              503  it did not answer in time               try again, or raise LLM_TIMEOUT_S
│   └── LLMBlockedError              503  rate limit                              try again after `retry_after_s`
│       └── LLMQuotaError            503  quota or balance is used up             top it up, or wait for its next cycle
├── LLMProviderException             502  it answered with an error or nonsense   ask another model
│   └── LLMUnavailableError          502  it is overloaded or broken for now      try again
├── LLMBudgetError                   503  the research's budget is used up        raise the limit that it names
├── PriceUnknownError                422  a limit in dollars needs prices         set LLM_PRICES
├── PageRequestError                 422  this address may not be read            give another one
├── PageConfigError                  503  a setting or a package is missing       do what it says
├── PageConnectionError              503  the page's server is not reachable      try again
│   ├── PageTimeoutError             503  it did not answer in time               try again, or raise READER_TIMEOUT_S
│   └── PageBlockedError             503  it does not show the text to us         log in yourself, or try again later
├── PageError                        502  there is no text to be had              use another source
├── ResearchTimeoutError             503  the deadline came before any source     try again, or raise RESEARCH_TIMEOUT_S
├── SourceNotHeldError               404  that source's text is not held (any more)  research again
├── EmbeddingError                   502  no vectors could be made                try again
├── EmbeddingConfigError             503  a setting or a package is missing       do what it says
├── VectorStoreError                 503  the index is not reachable              try again
├── VectorStoreConfigError           503  the index is missing or another's       do what it says
├── OutcomeStoreError                503  outcomes cannot be kept                 look at the data folder
├── StoreError                       500  the store's file or folder is unusable  do what it says
└── TopicNotFoundError               404  no such topic in the store              look at the list
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
    """The search provider refuses us for now: try again later."""

    code = "web_search_blocked"

    def __init__(
        self, message: str | None = None, *, retry_after_s: float | None = None, engines_only: bool = False
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.engines_only = engines_only  # those that were asked: the service itself may be asked for others


class WebSearchError(AppException):
    """The search provider answered with an error: ask another one."""

    code = "web_search_error"
    status_code = 502


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
    """The language model refuses us for now (quota or rate limit): try again later."""

    code = "llm_blocked"


class LLMQuotaError(LLMBlockedError):
    """The quota or balance of the language model is used up: top it up, or wait for its next cycle."""

    code = "llm_quota"


class LLMProviderException(LLMException):
    """The language model answered with an error or with nothing usable: ask another one."""

    code = "llm_provider"
    status_code = 502


class LLMUnavailableError(LLMProviderException):
    """The language model's service is overloaded or broken for now: try again."""

    code = "llm_unavailable"
    retryable = True


class PageRequestError(AppException):
    """This address may not be read: give the address of a public web page."""

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
    """The page did not come in time: try again, or raise READER_TIMEOUT_S."""

    code = "page_timeout"


class PageBlockedError(PageConnectionError):
    """The page does not show its text to us: a login, a consent or a riddle stands before it."""

    code = "page_blocked"


class PageError(AppException):
    """The page gives no text that could be used: take another source."""

    code = "page_error"
    status_code = 502


class ResearchTimeoutError(AppException):
    """The deadline came before anything was found: try again, or raise RESEARCH_TIMEOUT_S."""

    code = "timeout"
    status_code = 503
    retryable = True


class SourceNotHeldError(AppException):
    """The text of that source is not held (any more): run the research again."""

    code = "source_not_held"
    status_code = 404


class LLMBudgetError(LLMException):
    """The budget of this research allows no further call here."""

    code = "llm_budget"
    status_code = 503


class PriceUnknownError(AppException):
    """max_cost_usd cannot be kept, since a model's price is not known: set LLM_PRICES, or leave it out."""

    code = "price_unknown"
    status_code = 422


class StoreError(AppException):
    """The store of researches cannot do that: the file or folder is not usable."""

    code = "store"
    status_code = 500


class TopicNotFoundError(AppException):
    """There is no such topic in the store: `llm-platform topics list` shows what there is."""

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
    """The index of documents is not set up: it is missing, another embedder's, or somebody else writes to it."""

    code = "vector_store_config"
    status_code = 503


class OutcomeStoreError(AppException):
    """The store of outcomes cannot be used: nothing is answered until it can."""

    code = "outcome_store"
    status_code = 503
    retryable = True
