"""What calls of language models cost."""

from tests.support.cases import for_each

from modules.llm_platform.application.research.response import add_spending, get_spending
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata
from modules.llm_platform.domain.dtos.llm_dtos import Spending

PAID = Spending(calls=1, prompt_tokens=10, cost_usd=0.5)
UNPRICED = Spending(calls=1, prompt_tokens=10, cost_usd=None)
CUT_OFF = Spending.of_unfinished_call(is_free=False)
FREE_CUT_OFF = Spending.of_unfinished_call(is_free=True)


@for_each(
    ("calls", "cost_usd", "is_cut_off"),
    [
        ((PAID, PAID), 1.0, False),
        ((PAID, UNPRICED), None, False),
        ((PAID, CUT_OFF), None, True),
        ((CUT_OFF, PAID, CUT_OFF), None, True),
        ((CUT_OFF, UNPRICED), None, False),
        ((UNPRICED, CUT_OFF, PAID), None, False),
        ((PAID, FREE_CUT_OFF), 0.5, False),
    ],
)
def test_an_unknown_cost_has_a_reason(calls: tuple[Spending, ...], cost_usd: float | None, is_cut_off: bool) -> None:
    """A call that was cut off is the reason only where all prices are known."""
    total = sum(calls, start=Spending())
    assert (total.calls, total.cost_usd, total.is_cost_cut_off) == (len(calls), cost_usd, is_cut_off)
    assert "is_cost_cut_off" not in total.model_dump()


@for_each("spent", [PAID, UNPRICED, CUT_OFF, FREE_CUT_OFF])
def test_the_metadata_of_an_answer_keep_the_reason(spent: Spending) -> None:
    """Another stage can add its costs without losing the reason."""
    metadata = ResearchMetadata(latency_ms=0, **spent.metadata())
    assert add_spending(metadata, Spending()) == metadata
    assert get_spending(metadata) == spent
