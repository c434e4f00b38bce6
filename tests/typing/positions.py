"""mypy refuses a number of one kind in the place of another. An ignore that is not needed is an error, too."""

from modules.llm_platform.domain.citations.alignment import SourceText
from modules.llm_platform.domain.citations.changes import figures_at, word_at
from modules.llm_platform.domain.citations.claims import Claim
from modules.llm_platform.domain.citations.facts import replacing_name
from modules.llm_platform.domain.citations.table_rows import find_other_cell


def swap(claim: Claim, source: SourceText) -> None:
    offset = claim.numbers[0].offset
    position = claim.position_at(offset)
    figures_at(claim.text, offset)
    figures_at(claim.text, position)  # type: ignore[arg-type]
    claim.position_at(position)  # type: ignore[arg-type]
    word_at(claim.text, position)  # type: ignore[arg-type]  # a word of the claim is not a word of its facts
    word_at(claim.text, offset)  # type: ignore[arg-type]
    replacing_name(claim, position, claim.facts)
    replacing_name(claim, offset, claim.facts)  # type: ignore[arg-type]
    find_other_cell(claim, frozenset(), source, [position])  # type: ignore[list-item]
