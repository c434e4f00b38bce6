"""The table of all spans of a trace and their attributes (docs/reference/traces.md is written from it).

Names and attributes are OpenTelemetry's semantic conventions where there are any. No attribute holds the text of a query, an
answer or a page, a URL, or a secret.
"""

from dataclasses import dataclass
from typing import Final, Literal

SpanKind = Literal["server", "client", "consumer", "internal"]

RESULT: Final = "llm_platform.result"
ERROR_TYPE: Final = "error.type"
OF_EVERY_SPAN: Final = (RESULT, ERROR_TYPE)

REQUEST_ID: Final = "llm_platform.request_id"
METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS: Final = "http.response.status_code"
DEPTH: Final = "llm_platform.depth"
CACHE: Final = "llm_platform.cache"
SOURCES: Final = "llm_platform.sources"
DEGRADED: Final = "llm_platform.degraded"
ATTEMPT: Final = "llm_platform.attempt"
COMMAND: Final = "llm_platform.command"
STAGE: Final = "llm_platform.stage"
UPSTREAM_KIND: Final = "llm_platform.upstream.kind"
UPSTREAM: Final = "llm_platform.upstream.name"
MODEL: Final = "gen_ai.request.model"
PROMPT_TOKENS: Final = "gen_ai.usage.input_tokens"
COMPLETION_TOKENS: Final = "gen_ai.usage.output_tokens"
COST: Final = "llm_platform.cost_usd"
DB_SYSTEM: Final = "db.system.name"
DB_OPERATION: Final = "db.operation.name"
SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.type"
TOPIC: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"


@dataclass(frozen=True, slots=True)
class SpanType:
    """One declared span. `name` is its name, with placeholders for the parts that vary."""

    name: str
    kind: SpanKind
    help: str
    attributes: tuple[str, ...]


REQUEST_SPAN: Final = SpanType(
    "{method} {route}",
    "server",
    "A request of a client, from its head to the end of the response; not of /health, /ready and /metrics.",
    (METHOD, ROUTE, STATUS, REQUEST_ID),
)
MESSAGE_SPAN: Final = SpanType(
    "process {topic}",
    "consumer",
    "A request from Kafka, from its turn to its outcome. Its parent, and its link, is the span in the headers of the message.",
    (SYSTEM, OPERATION, TOPIC, PARTITION, OFFSET, REQUEST_ID),
)
JOB_SPAN: Final = SpanType(
    "process research",
    "consumer",
    "A research run in the background, from its start in a server to its end there. Its parent, and its link, is the span of "
    "the request that submitted it.",
    (REQUEST_ID, ATTEMPT),
)
WATCH_SPAN: Final = SpanType(
    "compare watch",
    "internal",
    "The comparison of a run of a watched question with the run before, from the end of the run until its changes are stored.",
    (REQUEST_ID,),
)
CHECK_SPAN: Final = SpanType(
    "check answer",
    "internal",
    "The check of a language model's answer in the gateway, from the end of its text until its evidence is complete.",
    (SOURCES, DEGRADED),
)
COMMAND_SPAN: Final = SpanType(
    "command {name}",
    "internal",
    "A command of the terminal, from its options to its end; not of serve, worker and mcp.",
    (COMMAND,),
)
RESEARCH_SPAN: Final = SpanType(
    "research {depth}", "internal", "A research run of a question.", (DEPTH, REQUEST_ID, CACHE, SOURCES, DEGRADED, COST)
)
STAGE_SPAN: Final = SpanType(
    "{stage}",
    "internal",
    "A stage: plan, queries, search, rank, read, summarize, write, verify, output; of a request from Kafka also embed and "
    "retrieve. Each query, page and batch of a report has its own; they overlap, so all are children of the research.",
    (STAGE,),
)
UPSTREAM_SPAN: Final = SpanType(
    "{kind} {upstream}",
    "client",
    "A call of a search provider, a language model or a page reader; of a stream, until its end. Below a search of ddgs each "
    "request to a search engine.",
    (UPSTREAM_KIND, UPSTREAM, MODEL, PROMPT_TOKENS, COMPLETION_TOKENS, COST),
)
DATABASE_SPAN: Final = SpanType(
    "{system} {operation}",
    "client",
    "A call of Redis, PostgreSQL or Qdrant with the wait for a connection. Of a transaction the first statement names it.",
    (DB_SYSTEM, DB_OPERATION),
)

SPANS: Final = (
    REQUEST_SPAN,
    MESSAGE_SPAN,
    JOB_SPAN,
    WATCH_SPAN,
    CHECK_SPAN,
    COMMAND_SPAN,
    RESEARCH_SPAN,
    STAGE_SPAN,
    UPSTREAM_SPAN,
    DATABASE_SPAN,
)
