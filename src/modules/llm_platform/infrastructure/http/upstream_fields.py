"""Unknown and missing fields in the answers of upstreams: the first sign that one changes its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from modules.llm_platform.domain.metrics import OTHER, UPSTREAM_FIELDS
from modules.llm_platform.domain.ports.metrics import NO_METRICS, IMetrics
from modules.llm_platform.infrastructure.http.untrusted_json import dict_of, list_of

MAX_ROWS: Final = 5  # of an answer; a new format is in all of them
UNKNOWN: Final = "unknown"
MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class FieldTable:
    """The fields of an answer and of its rows. `required` and `row_required` are those that the adapter cannot do without."""

    rows: Callable[[Mapping[str, Any]], Any]
    required: frozenset[str]
    known: frozenset[str]
    row_required: frozenset[str]
    row_known: frozenset[str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _bocha_data(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict_of(answer.get("data", answer))


def _choices(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The choices of a chat completion, each as one object with its message, or with the delta of a stream."""
    choices = map(dict_of, list_of(answer.get("choices")))
    return [{**each, **dict_of(each.get("message", each.get("delta")))} for each in choices]


# From recorded answers, the vendors' references and SearXNG's result types.
TABLES: Final[Mapping[str, FieldTable]] = {
    "searxng": FieldTable(
        rows=lambda answer: answer.get("results"),
        required=_names("results unresponsive_engines"),
        known=_names("query number_of_results results answers corrections infoboxes suggestions unresponsive_engines"),
        row_required=_names("url title content engine"),
        row_known=_names(
            "url title content engine engines parsed_url template positions score category publishedDate pubdate priority "
            "thumbnail thumbnail_src img_src img_format iframe_src audio_src resolution source filesize length views author "
            "metadata open_group close_group authors comments date_of_publication doi editor html_url isbn issn journal "
            "number pages pdf_url publisher tags type volume caption key_title kvmap value_title seed leech magnetlink "
            "torrentfile filename mimetype size embedded codelines hl_lines code_language repository address boundingbox "
            "geojson latitude longitude osm data links popularity license_name license_url maintainer package_name "
            "version source_code_url homepage price shipping source_country"
        ),
    ),
    "brave": FieldTable(
        rows=lambda answer: answer.get("results", dict_of(answer.get("web")).get("results")),
        required=_names("query type"),
        known=_names("query type mixed web results news videos discussions faq infobox locations summarizer rich"),
        row_required=_names("url title"),
        row_known=_names(
            "url title description type subtype age page_age page_fetched breaking extra_snippets family_friendly is_live "
            "is_source_both is_source_local language meta_url profile thumbnail deep_results schemas video article "
            "product book faq qa rating recipe movie creative_work music_recording organization software review location "
            "content_type cluster cluster_type source"
        ),
    ),
    "bocha": FieldTable(
        rows=lambda answer: dict_of(_bocha_data(answer).get("webPages")).get("value"),
        required=frozenset(),  # its adapter refuses an answer without webPages
        known=_names("code log_id msg data _type queryContext webPages images videos"),
        row_required=_names("url name"),
        row_known=_names(
            "id name url displayUrl snippet summary siteName siteIcon dateLastCrawled datePublished cachedPageUrl "
            "language isFamilyFriendly isNavigational"
        ),
    ),
    "chat": FieldTable(  # without usage the cost is an estimate
        rows=_choices,
        required=_names("choices usage"),
        known=_names(
            "id object created model choices usage system_fingerprint service_tier prompt_filter_results provider citations "
            "search_results timings prompt_logprobs prompt_token_ids kv_transfer_params x_groq obfuscation error"
        ),
        row_required=_names("finish_reason"),
        row_known=_names(
            "index finish_reason native_finish_reason stop_reason matched_stop logprobs token_ids content_filter_results "
            "content_filter_offsets message delta role content refusal annotations audio function_call tool_calls name text "
            "reasoning reasoning_content reasoning_details"
        ),
    ),
    "embeddings": FieldTable(
        rows=lambda answer: answer.get("data"),
        required=frozenset(),  # its adapter refuses an answer without data
        known=_names("object data model usage id created"),
        row_required=_names("index"),
        row_known=_names("object index embedding"),
    ),
    "jina": FieldTable(  # the lines above the text of a page
        rows=lambda answer: None,
        required=frozenset({"Title", "URL Source"}),
        known=frozenset({"Title", "URL Source", "Published Time", "Warning", "Description", "Number of Pages"}),
        row_required=frozenset(),
        row_known=frozenset(),
    ),
}


def count_fields(metrics: IMetrics, upstream: str, answer: Mapping[str, Any], table_name: str = "") -> None:
    """Count each missing field by its name, and all unknown ones as `other`, once an answer.

    `upstream` is the name of an adapter, `searxng-2` for a second instance. Without `table_name` it names the table too; one
    without a table counts nothing.
    """
    table = TABLES.get(table_name or upstream.partition("-")[0])
    if table is None or metrics is NO_METRICS:
        return
    missing = table.required - answer.keys()
    has_unknown = not table.known.issuperset(answer)
    rows = table.rows(answer)
    for row in islice(rows, MAX_ROWS) if isinstance(rows, list) else ():
        if isinstance(row, dict):
            missing |= table.row_required - row.keys()
            has_unknown = has_unknown or not table.row_known.issuperset(row)
    for name in missing:
        metrics.count(UPSTREAM_FIELDS, upstream, name, MISSING)
    if has_unknown:
        metrics.count(UPSTREAM_FIELDS, upstream, OTHER, UNKNOWN)
