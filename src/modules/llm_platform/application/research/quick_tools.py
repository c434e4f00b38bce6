"""The parts that every shallow and deep run uses (`QuickTools`), and their settings (`ResearchOptions`)."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from cachetools import TTLCache

from modules.llm_platform.application.research.find.plan import SearchPlanner
from modules.llm_platform.application.research.find.read_pages import DEFAULT_READING, ReadOptions
from modules.llm_platform.domain.dtos.citation_dtos import CitedClaim
from modules.llm_platform.domain.ports.citation_judge import ICitationJudge
from modules.llm_platform.domain.ports.page_reader import IPageReader
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import DEFAULT_MAX_TOKENS, ISynthesizer
from modules.llm_platform.domain.ports.web_search import IWebSearchProvider

LATE_CLAIM_TTL_S: Final = 600.0  # claims of a late call are not judged again for this long, because each call costs
MAX_LATE_CLAIMS: Final = 1000


@dataclass(frozen=True, slots=True)
class ResearchOptions:
    """Settings of shallow and deep runs.

    - `timeout_s` is the time limit of one run, in seconds.
    - `results_per_search` is the number of results of one search.
    - `max_tokens` limits the length of one answer.
    - `reading` says how many pages are read, and for how long.
    - `judges_supported` is True if the judge also verifies citations that the word comparison supports.
    - `model_ends_rounds` is True if the further rounds end when the model says that nothing is missing.
    """

    timeout_s: float = 120.0
    results_per_search: int = 10
    max_tokens: int = DEFAULT_MAX_TOKENS
    reading: ReadOptions = DEFAULT_READING
    judges_supported: bool = False
    model_ends_rounds: bool = False


def load_nothing() -> None:
    """The default of `load_models`, if nothing has to be loaded."""


def _make_late_claims() -> MutableMapping[tuple[str, CitedClaim], bool]:
    return TTLCache(MAX_LATE_CLAIMS, LATE_CLAIM_TTL_S)


@dataclass(frozen=True, slots=True)
class QuickTools:
    """The parts that every shallow and deep run uses.

    - `writer` writes the answer. If it fails, `fallback` writes it.
    - `planner` plans the searches of all rounds. It may have no language model although `writer` has one.
    - `pages` reads pages. Without it, answers cite the excerpts of the search engines.
    - `judge` verifies citations. Without it, only words are compared.
    - `has_llm` is True if a language model writes.
    - `support_model` decides what the word comparison leaves in doubt. It is loaded only if a language model writes.
    - `load_models` begins to load the libraries of the language models in the background.
    - `late_claims` has the questions and claims of judge calls that were too late.
    """

    search: IWebSearchProvider
    writer: ISynthesizer
    fallback: ISynthesizer
    planner: SearchPlanner = field(default_factory=SearchPlanner)
    pages: IPageReader | None = None
    judge: ICitationJudge | None = None
    support_model: ISupportModel | None = None
    has_llm: bool = False
    options: ResearchOptions = ResearchOptions()
    load_models: Callable[[], None] = load_nothing
    late_claims: MutableMapping[tuple[str, CitedClaim], bool] = field(default_factory=_make_late_claims)

    def begin_loading(self) -> None:
        """Begin to load, in the background, what the stages after the search use."""
        self.load_models()
        self.writer.begin_loading()
        if self.support_model is not None and self.has_llm:  # quotes need no check
            self.support_model.begin_loading()
