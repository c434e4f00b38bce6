"""A marker in the middle of a sentence cites the clause before it."""

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.read.sentences import read_answer
from modules.llm_platform.domain.dtos.source_dtos import Source

PUMP = (
    "The Meridian pump moves 48 litres each minute. It was built in Oslo in 1987. "
    "Its price fell to between 1.5 and 2 million euros. The pump is not allowed in drinking water."
)
MILL = (
    "The Corva mill grinds 3 tonnes of grain a day. The mill needs 5 kilowatts of power. "
    "Anna Holm repaired the mill in the spring of 2004. It stands on the river Aller."
)
SOURCES = [
    Source(index=1, title="Meridian pump", url="https://pump.example/", text=PUMP),
    Source(index=2, title="Corva mill", url="https://mill.example/", text=MILL),
]
S, P, U = "supported", "partial", "unsupported"


def verdicts(answer: str, language: str = "en") -> list[str]:
    return [citation.verdict for citation in CitationChecker(SOURCES, language).check(answer).citations]


@for_each(
    ("answer", "expected"),
    [
        (
            "The Meridian pump moves 48 litres each minute [1], and the Corva mill grinds 3 tonnes of grain a day [2].",
            [S, S],
        ),
        ("The Meridian pump moves 48 litres a minute [1]; the Corva mill needs 5 kilowatts of power [2].", [S, S]),
        ("The Meridian pump was built in 1987 [1], while the Corva mill needs 5 kilowatts of power [2].", [S, S]),
        ("The Meridian pump was built in Oslo [1], whereas Anna Holm repaired the mill in 2004 [2].", [S, S]),
        ("Anna Holm repaired the Corva mill in 2004 [2], but the Meridian pump was built in 1987 [1].", [S, S]),
        ("The Corva mill stands on the river Aller [2] and the Meridian pump was built in Oslo [1].", [S, S]),
        (
            "- **Output:** the Meridian pump moves 48 litres each minute [1], the Corva mill grinds 3 tonnes a day [2]",
            [S, S],
        ),
        ("Its price fell to 1.5 to 2 million euros [1], and the mill needs 5 kilowatts of power [2].", [S, S]),
    ],
)
def test_each_clause_is_compared_with_its_own_source(answer: str, expected: list[str]) -> None:
    """The facts of the other clause, which its source does not have, do not count against it."""
    assert sorted(verdicts(answer)) == sorted(expected)


@for_each(
    ("answer", "expected"),
    [
        (
            "The Meridian pump moves 49 litres each minute [1], and the Corva mill grinds 3 tonnes of grain a day [2].",
            [U, S],
        ),
        (
            "The Meridian pump moves 48 litres each minute [1], and the Corva mill grinds 4 tonnes of grain a day [2].",
            [S, U],
        ),
        (
            "The Meridian pump was built in Oslo in 1989 [1], while the Corva mill needs 7 kilowatts of power [2].",
            [U, U],
        ),
        ("The Meridian pump is allowed in drinking water [1], and the mill needs 5 kilowatts of power [2].", [U, S]),
        (
            "The Meridian pump moves 48 litres each minute [2], and the Corva mill grinds 3 tonnes of grain a day [1].",
            [U, U],
        ),
    ],
)
def test_a_wrong_fact_counts_in_its_clause(answer: str, expected: list[str]) -> None:
    """A correct clause does not hide a changed fact or a wrong source in another clause."""
    assert verdicts(answer) == expected


@for_each(
    ("answer", "expected"),
    [
        ("The Meridian pump moves 48 litres each minute [1], and it costs 900 dollars in every shop of Norway.", [P]),
        ("The Meridian pump moves 48 litres each minute [1].", [S]),
        ("The Meridian pump moves 48 litres each minute [1] [2].", [S, U]),
        ("The pump [1] and the mill [2] need 5 kilowatts of power.", [P, S]),
    ],
)
def test_an_uncited_clause_leaves_a_sentence_partial(answer: str, expected: list[str]) -> None:
    """A clause without a marker is part of the claim. A few words between two markers are not a clause."""
    assert verdicts(answer) == expected


def test_a_verdict_does_not_depend_on_the_sentences_before() -> None:
    """The same clause is partial in a sentence with an uncited one, and supported in a sentence without."""
    cited = "The Meridian pump moves 48 litres each minute [1], and it was built for Karel Novak"
    uncited, whole = f"{cited}.", f"{cited} [2]."
    alone = [verdicts(uncited)[0], verdicts(whole)[0]]
    assert alone == [P, S]
    assert [verdicts(f"{uncited}\n\n{whole}")[at] for at in (0, 1)] == alone
    assert [verdicts(f"{whole}\n\n{uncited}")[at] for at in (0, 2)] == alone[::-1]


def test_a_clause_is_the_text_between_two_markers() -> None:
    """Neighbouring markers cite the same clause, and one at the end the last."""
    sentence = read_answer("Big pumps move the water [1][3], and old mills grind grain [2].", "en").sentences[0]
    assert [(clause.text, clause.cited) for clause in sentence.clauses] == [
        ("Big pumps move the water", (1, 3)),
        ("and old mills grind grain", (2,)),
    ]
    assert not read_answer("Pumps [1][3] and mills [2] are old machines.", "en").sentences[0].clauses
    assert not read_answer("Big pumps move the water [1][3].", "en").sentences[0].clauses
