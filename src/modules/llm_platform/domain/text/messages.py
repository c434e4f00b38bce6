"""The few sentences that the application adds to what a model or the sources say, in the reader's language."""

from dataclasses import dataclass
from functools import cache

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages in one language: sentences, sentences with a colon before what they announce, and headings."""

    nothing_found: str
    ask_more: str  # reply to a message that is too short to search for
    not_answered: str
    closest: str  # ends with a colon
    go_deeper: str
    disagree: str
    can_mean: str  # holds {subject}
    model_failed: str
    quotes_only: str
    cited_nothing: str
    disagreements: str  # a heading
    not_found: str  # a heading
    unanswered: str
    quoted_above: str
    left_out: str  # holds {what}: calls by stage
    fallback_scores: str  # holds {count}
    late: str
    still_open: str  # holds {questions} and {queries}
    cut_off: str  # shown below a text that was cut off

    def readings_of(self, subject: str) -> str:
        """Return the line before the readings of an ambiguous word."""
        return self.can_mean.replace("{subject}", subject)


def messages_for(language: str) -> Messages:
    """Return the messages in the language of a BCP 47 tag; in English where there is no translation."""
    return _catalogue().get(language.partition("-")[0].lower()) or _catalogue()[DEFAULT_LANGUAGE]


@cache
def _catalogue() -> dict[str, Messages]:
    return {language: Messages(**texts) for language, texts in load_data("messages").items()}
