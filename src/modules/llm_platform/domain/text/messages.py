"""The few sentences that the application adds to what a model or the sources say, in the reader's language."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE, get_primary_subtag

_ISO_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages in one language: sentences, sentences with a colon before what they announce, and headings."""

    nothing_found: str
    ask_more: str  # reply to a message that is too short to search for
    not_answered: str
    not_certain: str  # the sources may answer: the closest passages are below
    closest: str  # ends with a colon
    go_deeper: str
    disagree: str
    can_mean: str  # holds {subject}
    model_failed: str
    quotes_only: str
    cited_nothing: str
    disagreements: str  # a heading
    voices: str  # holds {count}: independent sources that say the same
    not_found: str  # a heading
    unanswered: str
    quoted_above: str
    late: str
    still_open: str  # holds {questions} and {queries}
    stopped_answered: str  # why the search of a research run ended, as all `stopped_` messages
    stopped_nothing_new: str
    stopped_no_gain: str
    stopped_rounds: str
    stopped_time: str
    stopped_budget: str
    stopped_refused: str
    stopped_asked: str
    cut_off: str  # shown below a text that was cut off
    highest: str  # above the rows of a table, as the next three; hold {column} and {read}
    lowest: str
    latest: str
    earliest: str
    total: str  # holds {column}, {read} and {figure}, as the next one
    average: str
    rows_of: str  # holds {count} and {read}
    yes: str  # above the rows that show it, as the next two
    no: str
    equal: str  # holds {column}

    def format_meanings_intro(self, subject: str) -> str:
        """Return the line before the meanings of an ambiguous word."""
        return self.can_mean.replace("{subject}", subject)

    def format_row_count(self, extreme: str, column: str, count: int, read: int) -> str:
        """Return the line above rows with the highest or lowest value of a column, or, with an empty `extreme`, counted rows.

        `count` is the number of these rows, and `read` the number of rows that were compared or counted.
        """
        line: str = getattr(self, extreme) if extreme else self.rows_of
        return line.replace("{count}", str(count)).replace("{read}", str(read)).replace("{column}", column)

    def format_figure_line(self, kind: Literal["total", "average"], column: str, figure: str, read: int) -> str:
        """Return the line above rows whose values were added. `read` is their number."""
        line = self.total if kind == "total" else self.average
        return line.replace("{read}", str(read)).replace("{column}", column).replace("{figure}", figure)

    def format_equal_line(self, column: str) -> str:
        """Return the line above rows that have the same in a column."""
        return self.equal.replace("{column}", column)

    def get_stop_message(self, reason: str) -> str:
        """Return why the search of a research run ended. `reason` is a value of `StopReason`."""
        sentence: str = getattr(self, f"stopped_{reason}")
        return sentence

    def format_disputed_quote_note(self, published: str | None, count: int) -> str:
        """Return the note after a disputed quote: the date of its source, if it has one, and its number of voices."""
        dated = _ISO_DATE.match(published or "")
        counted = self.voices.replace("{count}", str(count))
        return f"({dated.group()}; {counted})" if dated else f"({counted})"

    def is_disputed_quote_note(self, text: str) -> bool:
        """Return whether a text is a note of `format_disputed_quote_note`."""
        counted = re.escape(self.voices).replace(re.escape("{count}"), r"\d+")
        return re.fullmatch(rf"\((?:{_ISO_DATE.pattern}; )?{counted}\)", text) is not None


def get_messages(language: str) -> Messages:
    """Return the messages in the language of a BCP 47 tag; in English where there is no translation."""
    return _catalogue().get(get_primary_subtag(language)) or _catalogue()[DEFAULT_LANGUAGE]


@cache
def _catalogue() -> dict[str, Messages]:
    return {language: Messages(**texts) for language, texts in load_data("messages").items()}
