"""Types for numbers that are easily mistaken for each other. Each is an int, and mypy refuses one in the place of another.

They are constructed where a number is born, by counting words or sentences or by a match in a text.
"""

from typing import NewType

# Code points from the beginning of the text that is compared: of the claim, of the sentence or passage, or of the source.
Offset = NewType("Offset", int)

# The index of a word in `TextFacts.folded`, which `changes.find_word` counts, too.
WordNumber = NewType("WordNumber", int)

# The index of a word in `Claim.words`. A joined word is several words there, so this number may differ from its WordNumber.
ClaimWordNumber = NewType("ClaimWordNumber", int)

# The index of a sentence of a source in `SourceText.spans`.
SentenceNumber = NewType("SentenceNumber", int)
