"""The citations of an answer and their verdicts."""

from typing import Final, Literal

from pydantic import BaseModel, Field, computed_field

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.fail_fast import FailFastTuple
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, Spending
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.dtos.source_dtos import TextKind

Verdict = Literal["supported", "partial", "unsupported", "unchecked"]
SUPPORTING_VERDICTS: Final = ("supported", "partial")  # the quote supports the sentence, fully or partly
ModelVerdict = Literal["supported", "partial", "unsupported"]
CheckedBy = Literal["words", "encoder", "model"]
CitedBy = Literal["model", "platform"]
DifferenceKind = Literal["number", "name", "date", "negation", "other"]
Finding = Literal["contradicts", "absent"]


class CellVerdict(BaseModel, frozen=True):
    """The verdict on one cell of a table row. `start` and `end` delimit the cell in the answer, in code points."""

    start: int
    end: int
    verdict: Verdict


class TextSpan(BaseModel, frozen=True):
    """A part of a text: the code points from `start` up to `end`, exclusive."""

    start: int
    end: int


class Difference(BaseModel, frozen=True):
    """A difference between a sentence and its source.

    - `claimed` is a part of the answer.
    - `found` is the part of the source's stored text that says otherwise.
    """

    claimed: TextSpan
    found: TextSpan
    kind: DifferenceKind


class Citation(BaseModel, frozen=True):
    """One sentence of the answer and one source that it cites.

    - `start` and `end` delimit the sentence in the answer, without the markers at its end, in code points.
    - `quote` is the part of the source's stored text that fits best, and `quote_start` and `quote_end` delimit it there. If
      nothing fits, the quote is empty and both offsets are 0.
    - `checked_by` says who gave `verdict`: the word comparison (`words`), the support model of the package (`encoder`) or
      a language model (`model`) after it.
    - `is_verbatim` is True if the source has the sentence word for word, apart from markup.
    - `score` is the score of the word comparison, and `word_verdict` its verdict if another gave `verdict`.
    - `cited_by` is `platform` if the author of the answer named no source here, and the platform found this one and added
      its marker.
    - `checked_against` is the kind of text that the sentence was compared with.
    - `quote_url` is the address of the page with a text fragment, at which a browser shows the quote; None without a quote
      or a page on the web.
    - `page` is the number, from 1, of the page of a PDF at which the quote begins. `quote_url` then ends with `#page=` and
      this number.
    - `cells` are the cells of a table row that the source does not support as one sentence. The first cell, the head of the
      row, is left out; if several cells have markers, only those that cite this source are listed. `verdict` is the weakest
      verdict among them.
    - `difference` is the number, name, date or negation that the source has otherwise, if the word comparison found one.
    - `finding` says why a verdict is `unsupported`: the source `contradicts` the sentence in the `difference`, or the sentence
      is `absent` from it.
    """

    start: int
    end: int
    source_index: int
    quote: str = ""
    quote_start: int = 0
    quote_end: int = 0
    verdict: Verdict
    score: float
    # A citation that was stored without it has its score: 1 was given for a copy.
    is_verbatim: bool = Field(default_factory=lambda data: data.get("score") == 1)
    checked_by: CheckedBy = "words"
    word_verdict: Verdict | None = None
    cited_by: CitedBy = "model"
    checked_against: TextKind = "page"
    quote_url: str | None = None
    page: int | None = None
    cells: FailFastTuple[CellVerdict] = ()
    difference: Difference | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def finding(self) -> Finding | None:
        return classify_unsupported(self.verdict, self.difference)


def classify_unsupported(verdict: Verdict, difference: Difference | None) -> Finding | None:
    """Return why a sentence is unsupported; None for any other verdict. Another wording alone is not a contradiction."""
    if verdict != "unsupported":
        return None
    return "contradicts" if difference is not None and difference.kind != "other" else "absent"


class CitedClaim(BaseModel, frozen=True):
    """A sentence of an answer, without markers, and its quote. `title` is the title of the quote's source."""

    claim: str
    quote: str
    title: str = ""


class JudgedClaims(BaseModel, frozen=True):
    """The verdicts of a judge, in the order of the claims; None for a claim on which it gave none."""

    verdicts: tuple[ModelVerdict | None, ...]
    spent: Spending = NOTHING_SPENT
    degraded: tuple[Degraded, ...] = ()


class StoredVerdicts(BaseModel, frozen=True):
    """The stored verdicts of a judge on the claims of one question.

    - `verdicts` has them by the digest of claim and quote; None for a claim on which the judge gave none.
    - `sent_to` is what was sent for all of them.
    - `degraded` has the reasons of calls whose answers could not be used.
    """

    verdicts: dict[str, ModelVerdict | None]
    sent_to: tuple[Sent, ...] = ()
    degraded: tuple[Degraded, ...] = ()
