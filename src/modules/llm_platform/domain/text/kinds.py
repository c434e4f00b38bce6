"""Words of one kind, such as gold, silver and bronze, or steep and flat: a thing is described by a single word of a kind.

`kinds.json` has the groups, each with the forms of its words in a few languages.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from modules.llm_platform.domain.text.data_files import load_data
from modules.llm_platform.domain.text.tokens import fold


@cache
def _load_kinds() -> Mapping[str, tuple[int, int]]:
    """Return for each folded word the number of its kind, and its number in the kind."""
    return {
        fold(word): (kind, number)
        for kind, names in enumerate(load_data("kinds")["kinds"])
        for number, forms in enumerate(names)
        for word in forms.split()
    }


def find_other_of_kind(word: str, words: Sequence[str]) -> str | None:
    """Return the only other word of the same kind among `words`; None if `words` have the word itself or two other words."""
    kinds = _load_kinds()
    if word not in kinds:
        return None
    kind, number = kinds[word]
    found = {known[1]: other for other in words if (known := kinds.get(other)) is not None and known[0] == kind}
    return next(iter(found.values())) if len(found) == 1 and number not in found else None
