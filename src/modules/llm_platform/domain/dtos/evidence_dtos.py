"""The ledger of a research run: what each question needs, the quotes that answer it, and what is still open."""

from typing import Literal

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.fail_fast import FailFastTuple

RowState = Literal["answered", "partly", "open", "disagree"]
StopReason = Literal["answered", "nothing_new", "no_gain", "rounds", "time", "budget", "refused", "asked"]
Need = Literal["number", "date", "person", "place", "cause"]


class EvidenceQuote(BaseModel, frozen=True):
    """A sentence of a source, verbatim, and the round that found the source; the first search is round 0.

    `start` and `end` delimit it in the text of the source, in code points; both are 0 where the sentence is shown without the
    markup that the text has, and where the answer does not have the source. `published` is the date that the source
    states. `voices` is set where two quotes disagree: how many independent sources say what this one says; those whose passages
    are nearly identical are one.
    """

    url: str
    title: str
    text: str
    published: str | None = None
    voices: int | None = None
    start: int = 0
    end: int = 0
    round: int = 0


class EvidenceRow(BaseModel, frozen=True):
    """One question: the words that an answer must have, its best quotes, and the share of the words that they cover (0 to 1).

    Several quotes are a chain: each but the first has a name that the one before it brings in. Two sources that disagree stand
    side by side.
    """

    question: str
    words: FailFastTuple[str] = ()
    needs: FailFastTuple[Need] = ()
    quotes: FailFastTuple[EvidenceQuote] = ()
    coverage: float = 0.0
    state: RowState = "open"

    @property
    def is_chain(self) -> bool:
        """True if the answer takes sentences of several sources."""
        return len({quote.url for quote in self.quotes}) > 1


class Ledger(BaseModel, frozen=True):
    """The rows of a research run, its further rounds, and why it stopped; None while it continues."""

    rows: tuple[EvidenceRow, ...] = ()
    rounds: int = 0
    stopped: StopReason | None = None

    @property
    def open_questions(self) -> tuple[str, ...]:
        """The questions that the quotes do not answer."""
        return tuple(row.question for row in self.rows if row.state != "answered")


EMPTY_LEDGER = Ledger()


class EvidenceSource(BaseModel, frozen=True):
    """The source of a quote.

    - `index` is its number in the answer; None if the answer does not list it.
    - `published` is its date, as the source states it.
    """

    index: int | None
    url: str
    title: str
    published: str | None = None


class EvidenceLine(BaseModel, frozen=True):
    """One quote of the ledger with its question. A question without a quote has one line, whose `quote` is None.

    `start` and `end` delimit the quote in the text of the source, in code points; `round` is the round that found the source.
    `voices` is set where two quotes disagree: how many independent sources say what this one says.
    """

    question: str
    state: RowState
    needs: tuple[Need, ...] = ()
    coverage: float = 0.0
    quote: str | None = None
    start: int = 0
    end: int = 0
    source: EvidenceSource | None = None
    round: int | None = None
    voices: int | None = None
