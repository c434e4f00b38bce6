"""Read the header of a message that is kept in a text file: `From: …`, `To: …`, `Subject: …`."""

import re
from collections.abc import Sequence
from typing import Final

_FIELD: Final = re.compile(r"([^\W\d_]{1,9})[ \u00a0]?:\s+(\S.*)")
_REPLY: Final = re.compile(r"(?:(?:re|fwd?|aw|wg|tr|rv)\s?:\s*)+", re.IGNORECASE)
_SUBJECTS: Final = frozenset(
    ("subject", "betreff", "betrifft", "objet", "asunto", "oggetto", "assunto", "onderwerp", "temat", "тема")
)
_FIELDS: Final = _SUBJECTS | frozenset(
    word
    for words in (
        "from to cc date sent",
        "von an datum gesendet",
        "de à a envoyé",
        "para fecha enviado",
        "da data inviato",
        "aan verzonden od do",
    )
    for word in words.split()
)


def find_subject(lines: Sequence[str]) -> str:
    """Return the subject of a message if the lines are its header, without `Re:`; empty for other lines."""
    fields = [_FIELD.match(line.strip()) for line in lines]
    names = [found[1].casefold() for found in fields if found is not None]
    if not names or len(names) < len(lines) or not _FIELDS.issuperset(names):
        return ""
    subjects = [found[2] for found in fields if found is not None and found[1].casefold() in _SUBJECTS]
    return _REPLY.sub("", subjects[0], count=1).strip() if subjects else ""
