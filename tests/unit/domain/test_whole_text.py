"""A document's text, put together from its passages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modules.llm_platform.domain.dtos.retrieval_dtos import Passage
from modules.llm_platform.domain.merge_passages import merge_document_text

TEXT = "Apples are red. Pears are green.\n\nPlums are blue, äöü 😀 and ripe in autumn."
CUT = st.tuples(st.integers(0, len(TEXT) - 1), st.integers(1, 30)).map(lambda cut: (cut[0], min(sum(cut), len(TEXT))))


def passage(start: int, text: str) -> Passage:
    return Passage(id="00000000-0000-0000-0000-000000000000", doc_id="d", title="D", text=text, start=start)


@given(st.lists(CUT, max_size=8))
def test_passages_that_cover_a_text_give_it_back(cuts: list[tuple[int, int]]) -> None:
    """However they overlap; gaps are closed here by passages that reach to the next one."""
    cuts.sort()
    starts = [0, *(start for start, _ in cuts)]
    reaching = [max(end, after) for (_, end), after in zip([(0, 1), *cuts], [*starts[1:], len(TEXT)], strict=True)]
    passages = [passage(start, TEXT[start:end]) for start, end in zip(starts, reaching, strict=True)]
    text = merge_document_text(passages, 1000)
    assert text.replace("\n\n", "") == TEXT.replace("\n\n", "")


@given(st.lists(CUT, max_size=8), st.integers(1, 50))
def test_no_more_than_the_limit_and_no_passage_lost(cuts: list[tuple[int, int]], limit: int) -> None:
    """Each passage stands in the whole, which can be cut anywhere."""
    passages = [passage(start, TEXT[start:end]) for start, end in sorted(cuts)]
    whole = merge_document_text(passages, 10_000)
    assert merge_document_text(passages, limit) == whole[:limit]
    assert all(each.text in whole for each in passages)
