"""Watched questions: what a run of a watch found, and what changed since the run before it."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source

ChangeKind = Literal["changed", "new", "gone", "disputed"]


class LedgerFact(BaseModel, frozen=True):
    """A sentence of a source that a run quotes, as a row of the evidence or as the quote of a citation.

    - `verdict` is the verdict on the sentence of the answer that cites it; `supported` for a quote of the evidence.
    - `is_answer` is True if the quotes of its question answer it. Other quotes are the nearest ones.
    - `dispute` is the number of the evidence row whose sources contradict each other, of which this is one side; None for any
      other fact.
    """

    quote: str
    url: str
    published: str | None = None
    verdict: Verdict = "supported"
    is_answer: bool = True
    dispute: int | None = None


class WatchReading(BaseModel, frozen=True):
    """What one run of a watch found: the facts of its ledger, and the texts of the sources that it read.

    `language` is the language of the answer.
    """

    at: datetime
    language: str
    facts: tuple[LedgerFact, ...] = ()
    sources: tuple[Source, ...] = ()


class FactAt(BaseModel, frozen=True):
    """A fact at the time of a run.

    - `value` is the part of the quote that differs from the other run: a number, a date, a name or a few words. It is empty if
      no part is shorter than the quote.
    - `source` is the address of the page that has the quote, and `at` the time of the run that read it.
    """

    value: str
    quote: str
    source: str
    at: datetime


class WatchChange(BaseModel, frozen=True):
    """A difference between the ledgers of two runs.

    - `changed`: the page of the quote says otherwise than before.
    - `new`: no page of the run before has it. `was` is None.
    - `gone`: its page was read again, and says nothing in its place. `now` is None.
    - `disputed`: a source contradicts another one that still says `was`.

    `fact` says what the change is about: the later quote without its value.
    """

    kind: ChangeKind
    fact: str
    was: FactAt | None = None
    now: FactAt | None = None
