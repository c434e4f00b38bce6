"""What a report had to do without, as its text and its `degraded` say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.own_words import own_words

LATE = "timeout:"  # how the reason begins where a stage did not come to its end
OF_THE_TIME = "max_seconds"  # what a model's reason names where its stage had no more time
LEFT_OUT = "budget: {calls} calls left out"
STOOD_IN = "stand_in: {count} of {all} results have a score that stands in for the model's"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Calls of a model that the limits refused, by stage; results that no model scored though there is one, of how many;
    whether something came to no end in its time.
    """

    left_out: Mapping[LLMStage, int]
    stood_in: int
    results: int
    late: bool

    @property
    def is_of_the_limits(self) -> bool:
        """Whether another run with more room would have more."""
        return bool(self.left_out) or self.late

    def degraded(self) -> tuple[Degraded, ...]:
        left_out = [Degraded(component=stage, reason=LEFT_OUT.format(calls=n)) for stage, n in self.left_out.items()]
        stood_in = Degraded(component="rank", reason=STOOD_IN.format(count=self.stood_in, all=self.results))
        return (*left_out, stood_in) if self.stood_in else tuple(left_out)

    def in_words(self, language: str) -> str:
        """A paragraph behind the text, empty where nothing is missing."""
        own = own_words(language)
        said = []
        # Without a judge nothing is missing in the text: `degraded` says that the words decided.
        if missing := {stage: calls for stage, calls in self.left_out.items() if stage != "judge"}:
            what = ", ".join(f"{calls} × {stage}" for stage, calls in missing.items())
            said.append(own.left_out.replace("{what}", what))
        if self.late:
            said.append(own.late)
        if self.stood_in:
            said.append(own.stood_in.replace("{count}", str(self.stood_in)))
        return f"\n\n{' '.join(said)}" if said else ""


def is_late(degraded: Iterable[Degraded]) -> bool:
    """Whether one of these, but for the judge of citations, came to no end in its time."""
    return any(
        entry.reason.startswith(LATE) or OF_THE_TIME in entry.reason
        for entry in degraded
        if not entry.component.startswith("judge")
    )
