"""What the platform adds to the upstream calls that it must make anyway, as one table (benchmarks/README.md).

    python benchmarks/run.py            all parts; or name some: in_process report_alone
    python benchmarks/run.py kafka_mock --long      a million messages through one worker (some minutes)

Every part runs in a process of its own with a deadline, so the whole ends by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import ROOT, environment, fake_upstreams

PART_S = 400.0  # deadline of one part
INDEX_S = 300.0  # limit of a benchmark that makes a large index first
KAFKA_S, LONG_S = 300.0, 3600.0  # limits of those with a broker; with --long a million messages pass
Row = tuple[str, str, str, str, bool]  # what, floor, ours, bar, held
Rows = Callable[[dict[str, Any]], Iterator[Row]]

SEARCH_OVER_US = 60
OWN_MS = {"shallow": 8, "deep": 12}
OWN_RATIO, CPU_RATIO, WALL_RATIO, P99_RATIO, START_RATIO = 2.0, 1.5, 1.01, 1.1, 1.3
HTTP_CPU_RATIO = {"search": 1.5, "shallow": 1.8, "deep": 1.4}
WATCHED_RATIO = 1.15  # limits, metrics, log lines and breakers against the same server without them
TOKEN_RATIO, STEP_MS = 1.2, 50  # a streamed research; a token waits for the end of its sentence
STEPS_HAVE_SOURCES = ("/v1/chat/completions", "/perplexity")  # their first chunk, so it comes after the search
DIALECT_RATIO = 1.15  # a compatible API against the same research through our own
CROWD_SHARE, CROWD_P99_RATIO, TWO_PROCESSES = 0.7, 1.3, 1.8
# Shares of a bare route; a research run reads and verifies again.
CACHED_SHARE = {"search": 0.2, "shallow": 0.05, "deep": 0.035}
RESEARCH_MB = {"shallow": 0.15, "deep": 0.3}
PAGES_OWN_MS, PAGES_WALL_RATIO, PAGES_SHARE, PAGES_MB = 15, 1.02, 0.9, 0.8
STREAM_KB, LIMITER_MB = 150, 32
IMPORT_S = 0.15
REPORT_OWN_MS, REPORT_MB, REPLAY_S = 30, 1.1, 0.3
REPORT_WALL_RATIO, REPORT_TOKENS_RATIO = 0.70, 0.4  # ratios to the staged floor
INDEXING_SHARE, INDEX_SEARCH_RATIO = 0.5, 2.0  # ratios to embedding alone, and to the engine's own query
KAFKA_SHARE, WAITING_SHARE, TRIP_RATIO, THREE_WORKERS = 0.4, 0.95, 2.0, 2.5
# Ratios to the same text as one file; a stored answer is read, drawn and checked.
PAINT_RATIO = {"first": 1.3, "stored": 2.0}
PAINT_CPU_RATIO = {"first": 1.4, "stored": 1.6}
PAINT_MS, TASK_MS = 600, 200  # limits on a machine that is free
TASK_RATIO = 4.0  # ratio to the task that lays out the same answer at once
GROWTH_MB = 8.0  # growth of a worker, from a fifth of the messages to the last


def part(name: str, more: Sequence[str] = ()) -> Any:
    """Return what one part printed; a failed part is said so and leaves the others alone."""
    with fake_upstreams() as upstream, TemporaryDirectory() as store:
        words = [sys.executable, "-m", f"benchmarks.{name}", *more]
        limit_s = INDEX_S if name.startswith("index") else PART_S
        limit_s = (LONG_S if more else KAFKA_S) if name.startswith("kafka") else limit_s
        try:
            env = {**environment(upstream), "LLM_PLATFORM_DATA_DIR": store}
            here = ROOT / "benchmarks"  # no `.env` lies there
            done = subprocess.run(words, env=env, cwd=here, capture_output=True, text=True, check=True, timeout=limit_s)
        except subprocess.TimeoutExpired:
            print(f"{name}: not done within {limit_s:.0f} s", file=sys.stderr)
        except subprocess.CalledProcessError as error:
            print(f"{name}: failed\n{error.stderr[-2000:]}", file=sys.stderr)
        else:
            return json.loads(done.stdout.splitlines()[-1])
    return None


def ratio(what: str, floor: float, ours: float, bar: float, unit: float = 1e3, word: str = "ms") -> Row:
    found = ours / floor
    texts = (f"{floor * unit:.2f} {word}", f"{ours * unit:.2f} {word} ({found:.2f}x)", f"<= {bar}x")
    return (what, *texts, found <= bar)


def at_least(what: str, floor: float, ours: float, bar: float, word: str = "") -> Row:
    """Return a row for what should be large: ours must be at least `bar` of the floor."""
    found = ours / floor
    return (what, f"{floor:.0f} {word}", f"{ours:.0f} {word} ({found:.2f}x)", f">= {bar}x", found >= bar)


def in_process(got: dict[str, Any]) -> Iterator[Row]:
    bare, search = got["search_us"]["floor"], got["search_us"]["ours"]
    over, text = search - bare, f"{search:.0f} us (+{search - bare:.0f})"
    yield "search, one after another", f"{bare:.0f} us", text, f"<= +{SEARCH_OVER_US} us", over <= SEARCH_OVER_US
    for depth, bar_ms in OWN_MS.items():
        usual = {name: figures["own_s"] for name, figures in got[f"{depth}_usual"].items()}
        what, base, text, bar, held = ratio(
            f"{depth}, own time, usual delays", usual["floor"], usual["ours"], OWN_RATIO
        )
        yield what, base, text, f"{bar} and {bar_ms} ms", held and usual["ours"] * 1e3 <= bar_ms
        floor, ours = got[depth]["floor"], got[depth]["ours"]
        yield ratio(f"{depth}, CPU, upstreams at 0 ms", floor["cpu_s"], ours["cpu_s"], CPU_RATIO)
    usual = got["deep_usual"]
    yield ratio("deep, wall, usual delays", usual["floor"]["wall_s"], usual["ours"]["wall_s"], WALL_RATIO)


def pages(got: dict[str, Any]) -> Iterator[Row]:
    usual, none = got["usual"], got["none"]
    yield ratio("deep with pages, wall", usual["floor"]["wall_s"], usual["ours"]["wall_s"], PAGES_WALL_RATIO)
    own = {name: figures["own_s"] * 1e3 for name, figures in usual.items()}
    held = own["ours"] <= PAGES_OWN_MS
    yield "the same, own time", f"{own['floor']:.2f} ms", f"{own['ours']:.2f} ms", f"<= {PAGES_OWN_MS} ms", held
    cpu = {name: f"{figures['cpu_s'] * 1e3:.0f} ms" for name, figures in none.items()}
    yield "the same, CPU, upstreams at 0 ms", cpu["floor"], cpu["ours"], "-", True
    yield "the same, CPU of the parsers", "-", f"{got['children_cpu_s'] * 1e3:.0f} ms", "-", True
    mb = got["mb"]
    yield "the same, memory, 100 at once", "-", f"{mb:.2f} MB", f"<= {PAGES_MB} MB", mb <= PAGES_MB
    readable = got["shares"]["readable"]
    share = readable.get("page", 0) / sum(readable.values())
    yield "citations checked against a readable page", "-", f"{share:.2f}", f">= {PAGES_SHARE}", share >= PAGES_SHARE


def over_http(got: dict[str, Any]) -> Iterator[Row]:
    for route, servers in got["50"].items():
        floor, ours = servers["floor"], servers["ours"]
        what, bar = f"HTTP {route}, CPU a request, 50 clients", HTTP_CPU_RATIO[route]
        yield ratio(what, floor["cpu_ms"] / 1e3, ours["cpu_ms"] / 1e3, bar)
        yield ratio(f"HTTP {route}, p99, 50 clients", floor["p99_s"], ours["p99_s"], P99_RATIO)
        yield f"HTTP {route}, errors", str(floor["errors"]), str(ours["errors"]), "0", not ours["errors"]
    for route, servers in got["500"].items():
        floor, ours = servers["floor"], servers["ours"]
        yield at_least(f"HTTP {route}, throughput, 500 clients", floor["a_second"], ours["a_second"], CROWD_SHARE, "/s")
        yield ratio(f"HTTP {route}, p99, 500 clients", floor["p99_s"], ours["p99_s"], CROWD_P99_RATIO)
        yield f"HTTP {route}, errors, 500 clients", str(floor["errors"]), str(ours["errors"]), "0", not ours["errors"]


def over_http_cached(got: dict[str, Any]) -> Iterator[Row]:
    for route, servers in got["cached"].items():
        floor, ours = (1e6 / servers[name]["cpu_us"] for name in ("floor", "ours"))
        yield at_least(f"HTTP cached {route}, answers a CPU second", floor, ours, CACHED_SHARE[route])
        errors = servers["ours"]["errors"]
        yield f"HTTP cached {route}, errors", "0", str(errors), "0", not errors
    one, two = got["processes"]["one"], got["processes"]["two"]
    yield at_least("two processes, cached shallow, throughput", one["a_second"], two["a_second"], TWO_PROCESSES, "/s")
    yield at_least("two processes, answers a CPU second", 1e6 / one["cpu_us"], 1e6 / two["cpu_us"], TWO_PROCESSES / 2)


def memory(got: dict[str, Any]) -> Iterator[Row]:
    for depth, bar in RESEARCH_MB.items():
        mb = got[depth]
        yield f"memory of a {depth} research under way", "-", f"{mb:.3f} MB", f"<= {bar} MB", mb <= bar
    kb = got["stream_kb"]
    yield "memory of an open event stream, 1,000 open", "-", f"{kb:.0f} KB", f"<= {STREAM_KB} KB", kb <= STREAM_KB
    limiter = got["limiter_mb"]
    yield "limiter, a million addresses", "-", f"{limiter:.1f} MB", f"<= {LIMITER_MB} MB", limiter <= LIMITER_MB


def watched_http(got: dict[str, Any]) -> Iterator[Row]:
    text, held = f"{got['with_ms']:.2f} ms ({got['ratio']:.2f}x)", got["ratio"] <= WATCHED_RATIO
    yield "HTTP search, CPU with limits to breakers", f"{got['without_ms']:.2f} ms", text, f"<= {WATCHED_RATIO}x", held
    yield "HTTP search, errors with and without", "-", str(got["errors"]), "0", not got["errors"]


def over_dialects(got: dict[str, Any]) -> Iterator[Row]:
    text, held = f"{got['chat_ms']:.2f} ms ({got['ratio']:.2f}x)", got["ratio"] <= DIALECT_RATIO
    yield "CPU, /v1/chat/completions over /research", f"{got['research_ms']:.2f} ms", text, f"<= {DIALECT_RATIO}x", held
    yield "the same, errors", "-", str(got["errors"]), "0", not got["errors"]


def first_token(got: dict[str, Any]) -> Iterator[Row]:
    floor, searched = got.pop("floor"), got.pop("floor, searched")
    for door, ours in got.items():
        yield ratio(f"{door}, first token", floor["token_s"], ours["token_s"], TOKEN_RATIO)
        if door in STEPS_HAVE_SOURCES:
            yield ratio(f"{door}, first chunk", searched["step_s"], ours["step_s"], TOKEN_RATIO)
            continue
        step = ours["step_s"] * 1e3
        yield (
            f"{door}, first step",
            f"{floor['step_s'] * 1e3:.1f} ms",
            f"{step:.1f} ms",
            f"<= {STEP_MS} ms",
            step <= STEP_MS,
        )


def start(got: dict[str, Any]) -> Iterator[Row]:
    took = got["import_s"]
    yield "import modules.llm_platform", "-", f"{took:.3f} s", f"<= {IMPORT_S} s", took <= IMPORT_S
    first = got["first_request_s"]
    yield ratio("command line to its first request", first["floor"], first["ours"], START_RATIO)


def report_alone(got: dict[str, Any]) -> Iterator[Row]:
    usual = {name: figures["own_s"] * 1e3 for name, figures in got["usual"].items()}
    held = usual["ours"] <= REPORT_OWN_MS
    text = f"{usual['ours']:.2f} ms ({usual['ours'] / usual['floor']:.2f}x)"
    yield "report, own time, usual delays", f"{usual['floor']:.2f} ms", text, f"<= {REPORT_OWN_MS} ms", held
    none = got["none"]
    yield ratio("report, CPU, upstreams at 0 ms", none["floor"]["cpu_s"], none["ours"]["cpu_s"], CPU_RATIO)
    replay = got["replay_s"]
    yield "report, again from the store", "-", f"{replay:.3f} s", f"<= {REPLAY_S} s", replay <= REPLAY_S


def report_overlap(got: dict[str, Any]) -> Iterator[Row]:
    floor, ours = got["floor"], got["ours"]
    ratios = [mine / base for mine, base in zip(ours["walls"], floor["walls"], strict=True)]
    mean, span = fmean(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
    text = f"{fmean(ours['walls']):.2f} s ({mean:.2f}x)"
    bar = f"<= {REPORT_WALL_RATIO}x ({span})"
    yield "report, wall, uneven delays", f"{fmean(floor['walls']):.2f} s", text, bar, mean <= REPORT_WALL_RATIO
    yield ratio("report, tokens out", floor["tokens_out"], ours["tokens_out"], REPORT_TOKENS_RATIO, 1, "")
    yield "report, tokens in", f"{floor['tokens_in']:.0f}", f"{ours['tokens_in']:.0f}", "-", True


def report_crowd(got: dict[str, Any]) -> Iterator[Row]:
    floor, ours = got["floor"], got["ours"]
    held = ours["mb"] <= REPORT_MB
    yield "report, memory, 100 at once", f"{floor['mb']:.2f} MB", f"{ours['mb']:.2f} MB", f"<= {REPORT_MB} MB", held
    yield ratio("report, CPU, 100 at once", floor["cpu_s"], ours["cpu_s"], CPU_RATIO)


def kafka_on(broker: str) -> Rows:
    """Yield the rows of one broker."""

    def rows(got: dict[str, Any]) -> Iterator[Row]:
        floor, ours = got["throughput"]["floor"], got["throughput"]["ours"]
        part_of = ours["a_second"] / floor["a_second"]
        text = f"{ours['a_second']:.0f} /s ({part_of:.2f}x)"
        yield (
            f"{broker}, no-op stage, 64",
            f"{floor['a_second']:.0f} /s",
            text,
            f">= {KAFKA_SHARE}x",
            part_of >= KAFKA_SHARE,
        )
        yield f"{broker}, CPU a request", f"{floor['cpu_us']:.0f} us", f"{ours['cpu_us']:.0f} us", "-", True
        waiting = got["waiting"]
        text, held = f"{waiting:.3f} of the ideal", waiting >= WAITING_SHARE
        yield f"{broker}, 50 ms stage, 64 at once", "-", text, f">= {WAITING_SHARE}", held
        trip = {name: figures["p50_s"] for name, figures in got["round_trip"].items()}
        yield ratio(f"{broker}, idle round trip, p50", trip["floor"], trip["ours"], TRIP_RATIO)
        share = got["share"]
        yield (
            f"{broker}, three workers, 50 ms stage",
            "1",
            f"{share:.2f}x",
            f">= {THREE_WORKERS}x",
            share >= THREE_WORKERS,
        )
        memory = got["memory"]
        growth, what = memory["end_mb"] - memory["warm_mb"], f"{broker}, memory, {memory['messages']:,} messages"
        text = f"{memory['end_mb']:.1f} MB (+{growth:.1f})"
        yield what, f"{memory['warm_mb']:.1f} MB", text, f"<= +{GROWTH_MB:.0f} MB", growth <= GROWTH_MB

    return rows


def page(got: dict[str, Any]) -> Iterator[Row]:
    words = {"first": "page, first visit", "stored": "page, stored answer"}
    for name, sides in got["paints"].items():
        floor, ours = sides["floor"], sides["ours"]
        yield ratio(f"{words[name]}, largest paint", floor["paint_ms"], ours["paint_ms"], PAINT_RATIO[name], 1)
        text, held = f"{ours['paint_ms']:.0f} ms", ours["paint_ms"] <= PAINT_MS
        yield "the same, on a free machine", "-", text, f"<= {PAINT_MS} ms", held
        base, cpu = (side["browser_cpu_ms"] + side["server_cpu_ms"] for side in (floor, ours))
        yield ratio("the same, CPU of browser and server", base, cpu, PAINT_CPU_RATIO[name], 1)
        yield "the same, requests", f"{floor['requests']:.0f}", f"{ours['requests']:.0f}", "-", True
    floor_ms = got["tasks"].pop("floor")
    for name, ours_ms in got["tasks"].items():
        yield ratio(f"page, 6,000 words {name}, longest task", floor_ms, ours_ms, TASK_RATIO, 1)
        text, held = f"{ours_ms:.0f} ms", ours_ms <= TASK_MS
        yield "the same, CPU", "-", text, f"<= {TASK_MS} ms", held


def indexing(got: dict[str, Any]) -> Iterator[Row]:
    alone, whole = got["documents"] / got["embedding_s"], got["documents"] / got["indexing_s"]
    text = f"{whole:.0f} ({got['share']:.2f} of it)"
    bar = f">= {INDEXING_SHARE} of embedding"
    yield "indexing, documents a second", f"{alone:.0f}", text, bar, got["share"] >= INDEXING_SHARE


def index_search(got: dict[str, Any]) -> Iterator[Row]:
    for share in ("p50", "p95"):
        floor, ours = got["floor"][f"{share}_s"], got["ours"][f"{share}_s"]
        yield ratio(f"index of 100,000 passages, question, {share}", floor, ours, INDEX_SEARCH_RATIO)


PARTS: Mapping[str, Rows] = {
    "in_process": in_process,
    "pages": pages,
    "over_http": over_http,
    "watched_http": watched_http,
    "over_dialects": over_dialects,
    "first_token": first_token,
    "over_http_cached": over_http_cached,
    "memory": memory,
    "start": start,
    "report_alone": report_alone,
    "report_overlap": report_overlap,
    "report_crowd": report_crowd,
    "indexing": indexing,
    "index_search": index_search,
    "page": page,
    "kafka_mock": kafka_on("mock Kafka"),
    "kafka_real": kafka_on("Kafka"),
}
LONG = "--long"
LACKS_ITS_TOOLS: dict[str, Any] = {}
TOOLS = {
    "page": "Chromium is not here (make services-ready)",
    "kafka_real": "Kafka's jars are not here (make kafka-jars)",
}


def main(words: Sequence[str]) -> int:
    wanted, more = [word for word in words if word != LONG], [word for word in words if word == LONG]
    failed = False
    print(f"{'what':<44} {'floor':>13} {'ours':>24}   bar")
    for name, rows in PARTS.items():
        if wanted and name not in wanted:
            continue
        got = part(name, more if name.startswith("kafka") else ())
        failed = failed or got is None
        if got == LACKS_ITS_TOOLS:
            print(f"{name}: left out, {TOOLS[name]}")
        for what, floor, ours, bar, held in rows(got) if got else ():
            print(f"{what:<44} {floor:>13} {ours:>24}   {bar}{'' if held else '   missed'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
