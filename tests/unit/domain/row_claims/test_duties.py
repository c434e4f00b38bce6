"""A rota decides who is named for a duty: by the date or the first cell of the row, and by the words of the column."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.unit.domain.row_claims.test_judgement import check

ROTA = """# Rota

| Week beginning | Kitchen | Locking up | Tea |
|---|---|---|---|
| 2026-04-20 | Callum | Sami | Ruth |
| 2026-04-27 | Ruth | Priya | Callum |
| 2026-05-04 | Sami | Callum | Ruth |
| 2026-05-11 | Callum | Ruth | Sami |
| 2026-06-01 | Callum | Priya | Sami |
"""
SHIFTS = """| Day | Early | Late |
|---|---|---|
| Monday | Ravi Menon | Nell Abbott |
| Tuesday | Nell Abbott | Amara Obi |
| Wednesday | Ravi Menon | Amara Obi |
"""
FILMS = """# Evenings

| Date | Film | Door | Projection |
|---|---|---|---|
| 2025-04-11 | Winter in Trieste | Tom Askey | Grace Pym |
| 2025-04-12 | Winter in Trieste | Lily Oak | Dev Ram |
| 2025-04-18 | Two Cellos | Tom Askey | Grace Pym |
| 2025-04-19 | Two Cellos | Lily Oak | Grace Pym |
"""


@for_each(
    ("text", "claim"),
    [
        (FILMS, "Grace Pym is the projectionist for both evenings of Two Cellos."),
        (ROTA, "Priya locks up in the week of 27 April."),
        (ROTA, "Priya locks up in the week beginning 1 June."),
        (ROTA, "In the week of 11 May, Callum has kitchen duty."),
        (ROTA, "Sami is on the rota in the week of 1 June."),
        (SHIFTS, "Nell Abbott has the early shift on Tuesday."),
    ],
)
def test_the_cell_has_the_name(text: str, claim: str) -> None:
    assert check(claim, text).verdict == "supported"


@for_each(
    ("text", "claim"),
    [
        (FILMS, "Grace Pym is the projectionist for both evenings of Winter in Trieste."),
        (FILMS, "Dev Ram is the projectionist on 11 April."),
        (ROTA, "Sami locks up in the week of 27 April."),
        (ROTA, "Ruth has kitchen duty in the week of 11 May."),
        (ROTA, "In the week of 4 May, Sami makes the tea."),
        (SHIFTS, "Ravi Menon has the early shift on Tuesday."),
    ],
)
def test_the_cell_has_another_name(text: str, claim: str) -> None:
    citation = check(claim, text)
    assert (citation.verdict, citation.finding) == ("unsupported", "contradicts")


@for_each(
    "claim",
    [
        "Ruth does not lock up in the week of 27 April.",
        "Sami locks up before 27 April.",
        "Sami and Ruth lock up in the week of 27 April.",
        "Sami is ill in the week of 27 April.",
    ],
)
def test_a_denial_a_limit_two_names_or_an_absence_are_left_to_the_words(claim: str) -> None:
    assert check(claim, ROTA).verdict != "supported"
