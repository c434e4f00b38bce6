"""The filters of Perplexity's searches."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from modules.llm_platform.domain.dtos import web_search_dtos
from modules.llm_platform.domain.dtos.freshness import format_days
from modules.llm_platform.presentation.rest.compat import dialect

MAX_LANGUAGES: Final = 10
DATES: Final[Mapping[str, str]] = {  # filters that are refused
    "last_updated_before_filter": (
        "the day of an update is not known, and a page may be older than its last update: use search_before_date_filter"
    ),
}


def _parse_day(value: object) -> date:
    try:
        return datetime.strptime(value if isinstance(value, str) else "", "%m/%d/%Y").date()  # noqa: DTZ007  # a day has no zone
    except ValueError:
        raise ValueError("must be a date as month/day/year, such as 3/31/2026") from None


Day = Annotated[date, BeforeValidator(_parse_day, json_schema_input_type=str)]

Recency = Literal["hour", "day", "week", "month", "year"]


class SearchFilters(dialect.StringValuesBody, frozen=True):
    """The filters of a search."""

    search_domain_filter: web_search_dtos.Domains | None = None
    search_recency_filter: Recency | None = None
    search_after_date_filter: Day | None = None
    search_before_date_filter: Annotated[Day | None, dialect.not_before("search_after_date_filter")] = None
    last_updated_after_filter: Day | None = None
    search_language_filter: Annotated[tuple[web_search_dtos.Language, ...], Field(max_length=MAX_LANGUAGES)] | None = (
        None
    )

    @field_validator("last_updated_after_filter")
    @classmethod
    def _refuse_later_updates(cls, first: date | None, info: ValidationInfo) -> date | None:
        last = info.data.get("search_before_date_filter")
        if first and last and last < first:
            raise ValueError("must not be after search_before_date_filter: updates after the publication are not known")
        return first

    @property
    def time_range(self) -> web_search_dtos.TimeRange | None:
        """The smallest range that contains the filter. No provider has a filter for hours."""
        return "day" if self.search_recency_filter == "hour" else self.search_recency_filter

    @property
    def freshness(self) -> str | None:
        """The days between the date filters. It overrides `time_range`.

        The web shows when a page was published and not when it was updated. A page published after a day was also updated
        after it, so `last_updated_after_filter` finds nothing wrong, but misses older pages that were updated since.
        """
        first = max(filter(None, (self.search_after_date_filter, self.last_updated_after_filter)), default=None)
        return format_days(first, self.search_before_date_filter)

    @property
    def language(self) -> str | None:
        """The language if the filter names one, or None if it names several."""
        languages = self.search_language_filter or ()
        return languages[0] if len(languages) == 1 else None

    @property
    def partly_served(self) -> tuple[str, ...]:
        """The names of the fields that do not change all that they ask for."""
        partly = {
            "search_recency_filter": self.search_recency_filter == "hour",
            "search_language_filter": len(self.search_language_filter or ()) > 1,
            "last_updated_after_filter": self.last_updated_after_filter is not None,
        }
        return tuple(name for name, is_named in partly.items() if is_named)
