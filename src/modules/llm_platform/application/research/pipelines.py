"""The pipelines of research runs, which depend on the model and the files of a request."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, Self

from modules.llm_platform.application.research.find.files import OpenedFiles
from modules.llm_platform.application.research.follow_up import FollowUps
from modules.llm_platform.application.research.quick import QuickResearch
from modules.llm_platform.application.research.report.reporter import Reporter
from modules.llm_platform.application.research.structured_output import StructuredOutput


class ResearchPipelines(NamedTuple):
    """The pipelines of runs with one set of language models. `output` fills the schema of a request; None without a model."""

    quick: QuickResearch
    reporter: Reporter
    follow_ups: FollowUps
    output: StructuredOutput | None = None

    @asynccontextmanager
    async def with_files(self, files: OpenedFiles, *, beside_sources: bool) -> AsyncIterator[Self]:
        """Yield the pipelines of one run that also searches the files of its request, or only these files."""
        quick = self.quick.with_files(files, beside_sources=beside_sources)
        reporter = self.reporter.with_files(files, beside_sources=beside_sources)
        try:
            yield self._replace(quick=quick, reporter=reporter)
        finally:
            await reporter.aclose()


class ResearchVariants(NamedTuple):
    """The pipelines for requests that choose a model or send files.

    - `models` are the models that a request can choose.
    - `make` returns the pipelines for one model, or for all models together if the first argument is None. If the second argument
      is True, the pipelines put nothing into caches and stores.
    """

    models: tuple[str, ...]
    make: Callable[[str | None, bool], ResearchPipelines]
