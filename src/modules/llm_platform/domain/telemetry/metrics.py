"""The table of all metrics: names, types, labels, units and buckets (docs/reference/metrics.md is written from it).

Names follow Prometheus' advice: one prefix, base units, `_total` for counters. A series exists for each combination of label
values, so a label has few values; `infrastructure.telemetry.prometheus_metrics` bounds them.
"""

from dataclasses import dataclass
from typing import Final, Literal

from shared.exceptions import AppException

MetricKind = Literal["counter", "gauge", "histogram"]

PREFIX: Final = "llm_platform_"
OTHER: Final = "other"  # label value of everything outside of a known set
OK: Final = "ok"
CANCELLED: Final = "cancelled"  # the client, a deadline or an earlier answer cancelled the call
DEFECT: Final = "internal"  # an exception that no code of an error describes


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric. `buckets` are the upper bounds of a histogram, ascending, in the unit of the name."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def check_labels(self, values: tuple[str, ...]) -> None:
        """Raise ValueError unless there is one value for each label."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} needs {len(self.labels)} label values: {', '.join(self.labels)}")


def result_label(error: BaseException | None) -> str:
    """Return the label of a result: ok, the code of the error, or cancelled."""
    if error is None:
        return OK
    if isinstance(error, AppException):
        return error.code
    return DEFECT if isinstance(error, Exception) else CANCELLED


def _counter(name: str, description: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, "counter", description, labels)


def _gauge(name: str, description: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, "gauge", description, labels)


def _histogram(name: str, description: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(PREFIX + name, "histogram", description, labels, buckets)


_CALL_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_RESEARCH_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)

HTTP_REQUESTS: Final = _counter(
    "http_requests_total",
    "Requests by route template, method and class of the status; a client that left counts as 4xx.",
    "route",
    "method",
    "status",
)
HTTP_DURATION: Final = _histogram(
    "http_request_duration_seconds", "Time from the head of a request to the end of its response.", _CALL_S, "route"
)
HTTP_IN_PROGRESS: Final = _gauge("http_requests_in_progress", "Requests that are being answered.")

RESEARCHES: Final = _counter(
    "researches_total", "Research runs by depth and result: ok, cancelled, or the code of the error.", "depth", "result"
)
RESEARCH_DURATION: Final = _histogram(
    "research_duration_seconds", "Time of a research run that answered.", _RESEARCH_S, "depth"
)
STAGE_DURATION: Final = _histogram(
    "research_stage_duration_seconds",
    "Time of a stage of a research run: plan, search, read (of a report: ranking, pages, summaries), write, verify, "
    "output (of a schema).",
    _RESEARCH_S,
    "depth",
    "stage",
)
RESEARCH_PAGES: Final = _counter(
    "research_pages_total",
    "Pages of the web that answers were made from, by depth and use: read, and of these cited.",
    "depth",
    "use",
)
DEGRADED_ANSWERS: Final = _counter(
    "degraded_answers_total", "Entries in `degraded` of answers, by the component that failed or did less.", "component"
)

UPSTREAM_REQUESTS: Final = _counter(
    "upstream_requests_total",
    "Calls of upstreams by kind (search, llm, page_reader), name and result: ok, cancelled, or the code of the error.",
    "kind",
    "upstream",
    "result",
)
UPSTREAM_DURATION: Final = _histogram(
    "upstream_request_duration_seconds",
    "Time of a call of an upstream, whatever its result; of a stream, until its end.",
    _CALL_S,
    "kind",
    "upstream",
)
LLM_TOKENS: Final = _counter(
    "llm_tokens_total",
    "Tokens by provider, model and direction (prompt, completion).",
    "provider",
    "model",
    "direction",
)
LLM_COST: Final = _counter(
    "llm_cost_usd_total", "Cost in US dollars of the calls whose price is known.", "provider", "model"
)

CHECKED_SENTENCES: Final = _counter(
    "checked_sentences_total",
    "Sentences of language models that the gateway compared with what the model was given, by finding: supported, contradicts, "
    "absent, unchecked.",
    "finding",
)
ANSWER_CHECK_DURATION: Final = _histogram(
    "answer_check_duration_seconds", "Time of the comparison of one answer at the gateway.", _CALL_S
)

CACHE_REQUESTS: Final = _counter("cache_requests_total", "Look-ups by cache and result (hit, miss).", "cache", "result")

BREAKER_OPEN: Final = _gauge(
    "circuit_breaker_open",
    "1 while calls of the upstream fail at once because it failed before, else 0.",
    "upstream",
)
RATE_LIMIT_DECISIONS: Final = _counter(
    "rate_limit_decisions_total", "Decisions by limit and result (allowed, refused).", "limit", "result"
)
REDIS_UP: Final = _gauge("redis_up", "1 if the last call of Redis succeeded, 0 if it failed; absent without REDIS_URL.")
POSTGRES_UP: Final = _gauge(
    "postgres_up",
    "1 if the last call of PostgreSQL succeeded, 0 if it failed or the database is read-only; absent without DATABASE_URL.",
)

RESEARCH_JOBS: Final = _gauge(
    "research_jobs_open",
    "Research runs in the background by status (queued, running), of all servers that share the store.",
    "status",
)
RESEARCH_JOBS_ENDED: Final = _counter(
    "research_jobs_total",
    "Research runs in the background that this server ran, by result: done, failed, cancelled, released (the server stopped), "
    "lost (another server took it over).",
    "result",
)
WEBHOOK_DELIVERIES: Final = _counter(
    "webhook_deliveries_total",
    "Attempts to deliver a webhook by result: delivered, retried, failed (given up).",
    "result",
)
WATCHES: Final = _gauge(
    "watches",
    "Watched questions by state, of all servers that share the store: active, paused, stopped (this server does not know their "
    "API key).",
    "state",
)
WATCH_RUNS: Final = _counter(
    "watch_runs_total",
    "Runs of watched questions that this server finished, by result: first (nothing to compare with), same, changed, failed, "
    "lost (the watch was removed, or another server finished the run).",
    "result",
)
WATCH_NOTICES: Final = _counter(
    "watch_notices_total",
    "Attempts to report a change by channel (webhook, mail) and result: delivered, retried, failed (given up).",
    "channel",
    "result",
)
RETRIES: Final = _counter(
    "retries_total",
    "Second tries that were due, by upstream and result: allowed, or refused because the retry budget is spent.",
    "upstream",
    "result",
)

RESEARCHES_RUNNING: Final = _gauge("researches_in_progress", "Research runs of clients that occupy a slot.")
RESEARCHES_WAITING: Final = _gauge("researches_waiting", "Research runs of clients that wait for a slot.")
RESEARCHES_REFUSED: Final = _counter("researches_refused_total", "Research runs that got no slot in time (503).")
BUDGET_SPENT: Final = _gauge(
    "daily_budget_spent_ratio",
    "Spent part of a daily budget (UTC), by account: all, or key: and the label of an API key.",
    "account",
)
BUDGET_REFUSALS: Final = _counter(
    "daily_budget_refused_calls_total",
    "Calls of models that a daily budget did not allow, so that an answer was extractive or came from another model.",
    "account",
)
STORE_REQUESTS: Final = _counter(
    "store_requests_total",
    "Calls of the research store by operation (read, write) and result: ok, miss, or the code of the error.",
    "operation",
    "result",
)

SERVER_METRICS: Final = (
    HTTP_REQUESTS,
    HTTP_DURATION,
    HTTP_IN_PROGRESS,
    RESEARCHES,
    RESEARCH_DURATION,
    STAGE_DURATION,
    RESEARCH_PAGES,
    DEGRADED_ANSWERS,
    UPSTREAM_REQUESTS,
    UPSTREAM_DURATION,
    LLM_TOKENS,
    LLM_COST,
    CHECKED_SENTENCES,
    ANSWER_CHECK_DURATION,
    RETRIES,
    CACHE_REQUESTS,
    BREAKER_OPEN,
    RATE_LIMIT_DECISIONS,
    REDIS_UP,
    POSTGRES_UP,
    RESEARCHES_RUNNING,
    RESEARCHES_WAITING,
    RESEARCHES_REFUSED,
    BUDGET_SPENT,
    BUDGET_REFUSALS,
    STORE_REQUESTS,
    RESEARCH_JOBS,
    RESEARCH_JOBS_ENDED,
    WEBHOOK_DELIVERIES,
    WATCHES,
    WATCH_RUNS,
    WATCH_NOTICES,
)

WORKER_READY: Final = _gauge("worker_ready", "Whether requests are answered now.")
WORKER_BROKERS_UP: Final = _gauge("worker_brokers_up", "Brokers that the consumer is connected to.")
WORKER_IN_FLIGHT: Final = _gauge("worker_in_flight", "Requests that are being processed.")
WORKER_WAITING: Final = _gauge("worker_waiting", "Requests that were read and have not started.")
WORKER_LAG: Final = _gauge("worker_lag", "Uncommitted requests, by assigned partition.", "topic", "partition")
WORKER_LAG_AGE: Final = _gauge("worker_lag_age_seconds", "Time since the brokers reported the lag.")
WORKER_STALLED: Final = _gauge("worker_stalled_partitions", "Assigned partitions with requests that are not read.")
WORKER_COMMIT_AGE: Final = _gauge(
    "worker_commit_age_seconds", "Time for which a finished request is uncommitted; 0: none is."
)
WORKER_OUTCOMES: Final = _counter(
    "worker_outcomes_total", "New outcomes, by stage and error code (ok: a result).", "stage", "code"
)
WORKER_REPEATED: Final = _counter("worker_repeated_total", "Requests that got a stored outcome.", "stage")
WORKER_REUSED_IDS: Final = _counter("worker_request_id_reused_total", "Duplicates with another payload.", "stage")
WORKER_STORE_WAITS: Final = _counter("worker_store_waits_total", "Failed calls of the outcome store.")

WORKER_METRICS: Final = (
    WORKER_READY,
    WORKER_BROKERS_UP,
    WORKER_IN_FLIGHT,
    WORKER_WAITING,
    WORKER_LAG,
    WORKER_LAG_AGE,
    WORKER_STALLED,
    WORKER_COMMIT_AGE,
    WORKER_OUTCOMES,
    WORKER_REPEATED,
    WORKER_REUSED_IDS,
    WORKER_STORE_WAITS,
)

METRICS: Final = (*SERVER_METRICS, *WORKER_METRICS)
