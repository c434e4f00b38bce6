"""mypy refuses a number of one kind in the place of another. An ignore that is not needed is an error, too."""

from modules.llm_platform.domain.citations.compare.alignment import SourceText
from modules.llm_platform.domain.citations.compare.mismatches import find_number, find_word
from modules.llm_platform.domain.citations.compare.name_mismatches import find_replacing_name
from modules.llm_platform.domain.citations.compare.table_rows import find_other_cell
from modules.llm_platform.domain.citations.read.claims import Claim


def swap(claim: Claim, source: SourceText) -> None:
    offset = claim.numbers[0].offset
    position = claim.find_position(offset)
    find_number(claim.text, offset)
    find_number(claim.text, position)  # type: ignore[arg-type]
    claim.find_position(position)  # type: ignore[arg-type]
    find_word(claim.text, position)  # type: ignore[arg-type]  # a word of the claim is not a word of its facts
    find_word(claim.text, offset)  # type: ignore[arg-type]
    find_replacing_name(claim, position, claim.facts)
    find_replacing_name(claim, offset, claim.facts)  # type: ignore[arg-type]
    find_other_cell(claim, frozenset(), source, [position])  # type: ignore[list-item]
