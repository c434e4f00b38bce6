"""Types for offsets and indices that are easily confused. Each is an int, and mypy rejects one type in place of another.

Values are constructed where words or sentences are counted, or where a pattern matches in a text.
"""

from typing import NewType

# Code points from the beginning of the text that is compared: of the claim, of the sentence or passage, or of the source.
Offset = NewType("Offset", int)

# The index of a word in `TextFacts.folded`. `mismatches.find_word` counts the same words.
WordNumber = NewType("WordNumber", int)

# The index of a word in `Claim.words`. A joined word is several words there, so this number may differ from its WordNumber.
ClaimWordNumber = NewType("ClaimWordNumber", int)

# The index of a sentence of a source in `SourceText.spans`.
SentenceNumber = NewType("SentenceNumber", int)
