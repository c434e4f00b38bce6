"""Read the header of a message that is kept in a text file: `From: …`, `To: …`, `Subject: …`."""

import re
from collections.abc import Sequence
from typing import Final

from modules.llm_platform.domain.text.sentences import ends_sentence

_FIELD: Final = re.compile(r"([^\W\d_]{1,9})[ \u00a0]?:\s+(\S.*)")
_REPLY: Final = re.compile(r"(?:(?:re|fwd?|aw|wg|tr|rv)\s?:\s*)+", re.IGNORECASE)
_KINDS: Final = {
    "subject": "subject betreff betrifft objet asunto oggetto assunto onderwerp temat тема",
    "sender": "from von de da van od от",
    "date": "date sent datum gesendet envoyé fecha enviado data inviato verzonden дата",
    "reader": "to cc bcc an kopie à a para cco aan do кому",
}
_KIND_OF: Final = {word: kind for kind, words in _KINDS.items() for word in words.split()}


def find_message_heading(lines: Sequence[str]) -> str:
    """Return the subject, the sender and the date of a message, if these lines are its header; empty for other lines.

    A header has the subject, or both the sender and the date. No line of it ends a sentence.
    """
    found: dict[str, str] = {}
    for line in lines:
        field = _FIELD.match(line.strip())
        kind = _KIND_OF.get(field[1].casefold()) if field else None
        if field is None or kind is None or ends_sentence(line.strip()):
            return ""
        found.setdefault(kind, field[2].strip())
    if not ("subject" in found or found.keys() >= {"sender", "date"}):
        return ""
    subject = _REPLY.sub("", found.get("subject", ""), count=1)
    return " · ".join(filter(None, (subject, found.get("sender"), found.get("date"))))
