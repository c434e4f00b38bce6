"""Passages of one document are joined to the text that is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.retrieval_dtos import FoundPassage, Passage
from modules.llm_platform.domain.retrieval.chunking import split_chunks
from modules.llm_platform.domain.retrieval.merge_passages import merge_document_text, merge_passages

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
    text = merge_document_text(passages, 1000).text
    assert text.replace("\n\n", "") == TEXT.replace("\n\n", "")


@given(st.lists(CUT, max_size=8), st.integers(1, 50))
def test_no_more_than_the_limit_and_no_passage_lost(cuts: list[tuple[int, int]], limit: int) -> None:
    """Each passage is contained in the merged text, which can be cut anywhere."""
    passages = [passage(start, TEXT[start:end]) for start, end in sorted(cuts)]
    whole = merge_document_text(passages, 10_000).text
    assert merge_document_text(passages, limit).text == whole[:limit]
    assert all(passage.text in whole for passage in passages)


def test_passages_that_were_cut_between_two_lines_are_joined_as_lines() -> None:
    """Rows of a table and lines of code stay together."""
    rows = "| a | b |\n|---|---|\n| 1 | 2 |"
    assert merge_document_text([passage(0, rows[:19]), passage(20, rows[20:])]).text == rows
    assert merge_document_text([passage(0, "One."), passage(6, "Two.")]).text == "One.\n\nTwo."


SECTIONS = "\n\n".join(f"## H{number}\n\n" + " ".join([f"Word {number} here."] * 30) for number in range(6))
SPANS = split_chunks(SECTIONS)
PASSAGES = [
    Passage(id=str(n), doc_id="a", title="A", text=SECTIONS[span.start : span.end], start=span.start)
    for n, span in enumerate(SPANS)
]


def found(scores: dict[int, float]) -> list[FoundPassage]:
    """Best first, as a search gives them."""
    best = sorted(scores, key=lambda number: -scores[number])
    return [FoundPassage(passage=PASSAGES[number], score=scores[number]) for number in best]


@for_each(
    ("scores", "shown"),
    [
        ({3: 0.8}, (3, 3)),
        ({3: 0.8, 2: 0.75, 4: 0.7, 1: 0.65}, (2, 3)),
        ({3: 0.8, 2: 0.3, 4: 0.59}, (3, 3)),
        ({3: 0.8, 5: 0.8, 1: 0.8}, (3, 3)),
        ({0: 0.8, 1: 0.65, 2: 0.7, 3: 0.75}, (0, 1)),
        ({5: 0.0, 4: 0.0}, (4, 5)),
    ],
)
def test_neighbours_with_good_scores_are_joined(scores: dict[int, float], shown: tuple[int, int]) -> None:
    """One stretch of the document: its best passage, and one that adjoins it and is nearly as good."""
    first, last = shown
    assert merge_passages(found(scores)).text == SECTIONS[SPANS[first].start : SPANS[last].end]
    assert merge_passages(found(scores)).text in merge_document_text(PASSAGES).text


OPTION_TEXTS = (
    "git rebase [--onto newbase]",
    "About branches.",
    "Abort with --abort.",
    "--onto: where to begin.",
    "See --onto above.",
)


@for_each(
    ("question", "shown"),
    [("What does --onto do?", (0, 3, 4)), ("What are branches?", (0,)), ("--onto or --abort?", (0,))],
)
def test_passages_with_the_option_of_the_question_are_shown_too(question: str, shown: tuple[int, ...]) -> None:
    """The best passage often has it in a synopsis; those that lack one of the options are not shown."""
    passages = [
        Passage(id=str(number), doc_id="a", title="A", text=text, start=100 * number)
        for number, text in enumerate(OPTION_TEXTS)
    ]
    best = [FoundPassage(passage=passage, score=0.9 - 0.1 * number) for number, passage in enumerate(passages)]
    assert merge_passages([best[0], *best[:0:-1]], question).text == "\n\n".join(
        OPTION_TEXTS[number] for number in shown
    )


def test_an_overlap_is_not_repeated() -> None:
    """Where a section was cut by its length, they overlap."""
    text = " ".join(f"Sentence number {number} says something of its own about the gateway." for number in range(60))
    spans = split_chunks(text, overlap=30)
    assert spans[1].start < spans[0].end
    passages = [
        Passage(id=str(n), doc_id="a", title="A", text=text[span.start : span.end], start=span.start)
        for n, span in enumerate(spans[:2])
    ]
    best = [FoundPassage(passage=passage, score=0.9) for passage in passages]
    assert merge_passages(best).text == text[: spans[1].end]
    assert merge_passages(best[::-1]).text == text[: spans[1].end]
