"""A sealed answer: what its file holds, and what a check of the file says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, FailFast, Field, computed_field

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import CheckedBy, Verdict
from modules.llm_platform.domain.dtos.fail_fast import FailFastTuple
from modules.llm_platform.domain.dtos.source_dtos import Source, TextKind
from modules.llm_platform.domain.text.page_starts import PageStarts

SEAL_PREFIX: Final = "llm-platform sealed answer 1 sha256:"  # of the comment, and of what is signed
SEALED_SUFFIX: Final = ".sealed.zip"
MAX_SEALED_BYTES: Final = 32_000_000  # longest file
MAX_UNPACKED_BYTES: Final = 128_000_000  # all members together
MAX_SEALED_SOURCES: Final = 1000
MAX_SEALED_CHARS: Final = 200_000  # longest text of an answer: each sentence is compared again
MAX_SEALED_CITATIONS: Final = 5000
MAX_SEALED_UNCITED: Final = 20_000  # statements without a source
MAX_SEALED_QUOTES: Final = 5000  # of the ledger
MAX_CITED_CHARS: Final = 20 * MAX_SEALED_CHARS  # all cited and uncited sentences together: each of them is shown
MAX_VERSION_CHARS: Final = 40  # of the version of the package
MAX_ANSWER_BYTES: Final = 8_000_000  # the member answer.json
MAX_SEALED_VALUES: Final = 250_000  # values of its JSON: each takes the reader time and memory

Outcome = Literal["same", "different", "not_derivable"]
SignatureState = Literal["valid", "invalid", "none"]


class CheckerStamp(BaseModel, frozen=True):
    """The checker of the program that wrote the file.

    - `version` is the version of the package, and `rules` the digest of its rules and their data.
    - `page` is the digest of what makes the page of HTML; empty in a file of an older version.
    - `support_model` is the digest of the weights and of what decides which of them read a claim; empty without the model.
    - `settings` are the settings that decide who gives the verdicts.
    """

    version: str = Field(pattern=rf"^[0-9A-Za-z.+!_-]{{0,{MAX_VERSION_CHARS}}}$")
    rules: str
    page: str = ""
    support_model: str = ""
    settings: dict[str, str] = {}


class SealedSource(BaseModel, frozen=True):
    """A source as it was read, without its text, which is the member `sources/<index>.txt`.

    - `sha256` is the hex digest of the text in UTF-8, and `chars` its length in code points, in which offsets count.
    - The other fields are described in `Source`.
    """

    index: int
    title: str
    url: str
    text_kind: TextKind
    sha256: str
    chars: int
    media_type: str | None = None
    read_at: datetime | None = None
    published: str | None = None
    extraction: float | None = None
    pages: Annotated[PageStarts, FailFast()] = ()
    is_whole: bool = False

    @classmethod
    def of(cls, source: Source) -> "SealedSource":
        shared = {name: getattr(source, name) for name in cls.model_fields if name != "chars"}
        return cls(**shared, chars=len(source.text))

    def with_text(self, text: str) -> Source:
        """Return the source as the citation checker takes it."""
        stored = Source.model_fields.keys() & type(self).model_fields.keys()
        fields: dict[str, Any] = {name: getattr(self, name) for name in stored}
        return Source(**fields, text=text)


class SealedAnswer(BaseModel, frozen=True):
    """The member `answer.json`.

    - `answered_at` is the time of the answer; None if it is not known.
    - `response` has the question, the text, the citations with their offsets and verdicts, the ledger (`evidence`) and the
      egress log (`metadata.sent_to`). It has no `raw_results`, because these list pages that the answer does not cite.
    - `sources` are the cited sources.
    """

    format: Literal[1] = 1
    answered_at: datetime | None = None
    checker: CheckerStamp
    response: ResearchResponse
    sources: FailFastTuple[SealedSource]


@dataclass(frozen=True, slots=True)
class Signature:
    """An Ed25519 signature of the digest, and the public key that it was made with, both in hex digits."""

    public_key: str
    value: str


Sign = Callable[[str], Signature]  # of a digest


@dataclass(frozen=True, slots=True)
class UnpackedSeal:
    """The members of an unchanged file, its digest in hex digits, and its signature, which was not checked."""

    members: Mapping[str, bytes]
    digest: str
    signature: Signature | None = None


@dataclass(frozen=True, slots=True)
class OpenedSeal:
    """An unchanged file. `page` is its page of HTML, which its author wrote: nothing else is read from it."""

    answer: SealedAnswer
    sources: tuple[Source, ...]
    page: str
    digest: str
    signature: Signature | None = None


class RederivedCitation(BaseModel, frozen=True):
    """One citation of a sealed answer. `was` is its verdict in the file, and `now` the verdict of this program.

    `was` is None if the file lacks the citation, and `now` if this program gives no verdict. `reason` says why the verdict is not
    the `same`.
    """

    source_index: int
    checked_by: CheckedBy
    derived: Outcome
    was: Verdict | None = None
    now: Verdict | None = None
    reason: str = ""


class RederivedSentence(BaseModel, frozen=True):
    """One sentence of a sealed answer: the code points from `start` to `end`. The worst outcome of its citations counts.

    A sentence that cites no source has no citations. It is the `same` if this program finds none either; `reason` says why it
    is not.
    """

    start: int
    end: int
    derived: Outcome
    citations: tuple[RederivedCitation, ...] = ()
    reason: str = ""


class SealDescription(BaseModel, frozen=True):
    """What the file is.

    - `created` is the time of the answer, and `checker` the checker that gave its verdicts: both are what the file says.
    - `signature` is `none` if the file is not signed, or if `note` says that the signature was not checked.
    - `public_key` is the key that the file names as its signer.
    - `is_same_checker` is False if the file names other rules or weights. They may be the reason of a different verdict: check
      with the version that the file names.
    - `is_same_page` is False if the page of HTML is not the one that this program writes for the answer.
    - `is_same_renderer` is False if the file names another program for its page. Then an honest page may be another one.
    """

    digest: str
    created: datetime | None = None
    checker: CheckerStamp
    signature: SignatureState = "none"
    public_key: str | None = None
    note: str = ""
    query: str
    is_same_checker: bool = True
    is_same_page: bool = True
    is_same_renderer: bool = True


class CheckedSeal(BaseModel, frozen=True):
    """What a check of a sealed answer says. A file that was changed raises an error instead."""

    sealed: SealDescription
    sentences: tuple[RederivedSentence, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def counts(self) -> dict[Outcome, int]:
        """The number of sentences by outcome."""
        outcomes = [sentence.derived for sentence in self.sentences]
        return {outcome: outcomes.count(outcome) for outcome in ("same", "different", "not_derivable")}

    @property
    def is_different(self) -> bool:
        """True if the file says something that does not follow from its sources, or its signature belongs to another file.

        The same program writes the same page, so another one was replaced.
        """
        has_other_page = self.sealed.is_same_renderer and not self.sealed.is_same_page
        return bool(self.counts["different"]) or self.sealed.signature == "invalid" or has_other_page
