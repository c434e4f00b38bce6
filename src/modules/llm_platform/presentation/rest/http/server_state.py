"""The state of one server: its platform while it runs, and the slots of what is limited at once."""

from collections import Counter

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.ports.rate_limiter import IRateLimiter
from modules.llm_platform.presentation.rest.http.admission import ResearchAdmission
from modules.llm_platform.presentation.rest.http.kept_answers import KeptAnswers
from modules.llm_platform.presentation.rest.http.shutdown import RunningRequests

MAX_UPLOADS = 4  # bodies with files that are received at once; each takes up to 50 MB until its files are decoded
MAX_RUNS_OVER_FILES = 8  # concurrent runs; each holds its files and their index, up to 100 MB
TOO_MANY_FILES = (
    "The server is already reading the maximum number of files: try again in a few seconds, or leave the files out"
)
MAX_CRAWLS = 10  # concurrent crawls; each may hold 50 MB


class ServerState:
    """The state of one server, with its requests and its slots for research runs. `platform` is set while the server runs."""

    def __init__(self, platform: LLMPlatform | None = None, max_researches: int = 0) -> None:
        self.platform = platform
        self.requests = RunningRequests()
        self.researches = ResearchAdmission(max_researches)
        self.uploads = ResearchAdmission(MAX_UPLOADS, refusal=TOO_MANY_FILES)
        self.runs_over_files = ResearchAdmission(MAX_RUNS_OVER_FILES, refusal=TOO_MANY_FILES)
        self.kept_answers = KeptAnswers()
        self.crawls = ResearchAdmission(
            MAX_CRAWLS, refusal="The server is already crawling the maximum number of sites: try again in a few seconds"
        )
        self.streams: Counter[str] = Counter()  # open event streams of background runs, by caller
        # Calls of APIs whose clients ask for their use, keyed by caller and endpoint.
        self.calls: Counter[tuple[str, str]] = Counter()

    @property
    def rate_limiter(self) -> IRateLimiter | None:
        return self.platform.rate_limiter if self.platform is not None else None

    @property
    def is_ready(self) -> bool:
        return self.platform is not None and not self.requests.is_draining
