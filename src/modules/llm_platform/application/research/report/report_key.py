"""Make the key of a stored report from the request and everything else that shapes the report."""

from collections.abc import Sequence
from dataclasses import fields

from modules.llm_platform.application.research.find.plan_prompt import SUB_QUESTIONS_VERSION
from modules.llm_platform.application.research.find.round_queries import ROUND_QUERIES_VERSION
from modules.llm_platform.application.research.find.rounds import ROUNDS_VERSION
from modules.llm_platform.application.research.report.checkpoint_store import CheckpointStore
from modules.llm_platform.application.research.report.queries import QUERIES_VERSION
from modules.llm_platform.application.research.report.rank import RANK_VERSION
from modules.llm_platform.application.research.report.run import ReportOptions, ReportTools
from modules.llm_platform.application.research.report.section_writer import SECTIONS_VERSION
from modules.llm_platform.application.research.report.summarize import SUMMARY_VERSION
from modules.llm_platform.domain.dtos.report_dtos import LLMStage
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.research.store_key import store_key

STAGES: tuple[LLMStage, ...] = ("plan", "queries", "rank", "summarize", "write")
PROMPT_VERSIONS = ".".join(
    (SUB_QUESTIONS_VERSION, QUERIES_VERSION, RANK_VERSION, SUMMARY_VERSION, ROUNDS_VERSION, ROUND_QUERIES_VERSION)
)
# Fields of the request that do not change the report:
# - the limits, because a report that a limit cut short is not stored;
# - the output schema, because the structured output is made from the finished report;
# - the turns of a follow-up question, because the key has the question as it was understood.
EXCLUDED_FIELDS = {
    "omit_raw",
    "fresh",
    "depth",
    "max_llm_calls",
    "max_cost_usd",
    "max_seconds",
    "previous_id",
    "history",
    "output_schema",
    "files",
}
# Options that the key leaves out. A new option is part of the key unless it is added here.
EXCLUDED_OPTIONS = {"timeout_s", "context_tokens", "offline", "model_ends_rounds"}


def make_request_key(request: ResearchRequest, language: str) -> str:
    """Return the key of the request alone, without its plan and without models, engines and prompts."""
    asked = {name: value for name, value in _describe_request(request).items() if name != "plan"}
    return store_key(version="", model="", language=language, request=asked)


def make_report_key(
    checkpoints: CheckpointStore, tools: ReportTools, request: ResearchRequest, earlier: Sequence[Source] = ()
) -> str:
    """Return the key of the request and of everything that shapes the report.

    That is models, engines, prompts, options, and the `earlier` sources that a follow-up question reuses.
    """
    options = tools.options
    writer = tools.writer(tools.llms.get("write"), options.context_tokens)
    judge = tools.judge(tools.llms.get("judge")) if tools.judge else None
    by = [tools.get_label(part) for part in ("search", "read", *STAGES, *(("judge",) if judge else ()))]
    version = writer.report_version
    if options.section_tokens:
        version = f"{writer.version}/{SECTIONS_VERSION}/{tools.fallback.version}"
    versions = [PROMPT_VERSIONS, version, *([judge.version] if judge else ())]
    reused = [(source.url, source.title, source.published, source.text) for source in earlier]
    return checkpoints.make_key(
        "|".join(versions),
        "|".join(by),
        request=_describe_request(request),
        made=[getattr(options, field.name) for field in fields(ReportOptions) if field.name not in EXCLUDED_OPTIONS],
        **({"earlier": reused} if reused else {}),
    )


def _describe_request(request: ResearchRequest) -> dict[str, object]:
    # This also leaves out the fields that an endpoint adds to the request, such as `stream`.
    parts = set(ResearchRequest.model_fields) - EXCLUDED_FIELDS
    is_requested = request.model_dump(mode="json", include=parts, exclude_none=True)
    # A request with `urls` only searches if it sets `sources`. In other requests the field changes nothing, so a command that
    # sets it and an HTTP client that does not set it find each other's report.
    return is_requested | ({"searched": "sources" in request.model_fields_set} if request.urls else {})
