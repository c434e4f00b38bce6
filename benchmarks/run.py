"""What the platform adds to the upstream calls that it must make anyway, as one table (benchmarks/README.md).

    python benchmarks/run.py            all parts; or name some: in_process report_alone

Every part runs in a process of its own with a deadline, so the whole ends by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import ROOT, environment, fake_upstreams

PART_S = 90.0  # deadline of one part
Row = tuple[str, str, str, str, bool]  # what, floor, ours, bar, held

SEARCH_OVER_US = 60
OWN_MS = {"shallow": 8, "deep": 12}
OWN_RATIO, CPU_RATIO, WALL_RATIO, P99_RATIO, START_RATIO = 2.0, 1.5, 1.01, 1.1, 1.3
IMPORT_S = 0.15
REPORT_OWN_MS, REPORT_MB, REPLAY_S = 30, 1.1, 0.3
REPORT_WALL_RATIO, REPORT_TOKENS_RATIO = 0.70, 0.4  # of the staged floor


def part(name: str) -> Any:
    """What one part printed; a failed part is said so and leaves the others alone."""
    with fake_upstreams() as upstream, TemporaryDirectory() as store:
        words = [sys.executable, "-m", f"benchmarks.{name}"]
        try:
            env = {**environment(upstream), "LLM_PLATFORM_DATA_DIR": store}
            here = ROOT / "benchmarks"  # no `.env` lies there
            done = subprocess.run(words, env=env, cwd=here, capture_output=True, text=True, check=True, timeout=PART_S)
        except subprocess.TimeoutExpired:
            print(f"{name}: not done within {PART_S:.0f} s", file=sys.stderr)
        except subprocess.CalledProcessError as error:
            print(f"{name}: failed\n{error.stderr[-2000:]}", file=sys.stderr)
        else:
            return json.loads(done.stdout.splitlines()[-1])
    return None


def ratio(what: str, floor: float, ours: float, bar: float, unit: float = 1e3, word: str = "ms") -> Row:
    found = ours / floor
    texts = (f"{floor * unit:.2f} {word}", f"{ours * unit:.2f} {word} ({found:.2f}x)", f"<= {bar}x")
    return (what, *texts, found <= bar)


def in_process(got: dict[str, Any]) -> Iterator[Row]:
    bare, search = got["search_us"]["floor"], got["search_us"]["ours"]
    over, text = search - bare, f"{search:.0f} us (+{search - bare:.0f})"
    yield "search, one after another", f"{bare:.0f} us", text, f"<= +{SEARCH_OVER_US} us", over <= SEARCH_OVER_US
    for depth, bar_ms in OWN_MS.items():
        usual = {name: figures["own_s"] for name, figures in got[f"{depth}_usual"].items()}
        what, base, text, bar, held = ratio(f"{depth}, own time, usual delays", usual["floor"], usual["ours"], OWN_RATIO)
        yield what, base, text, f"{bar} and {bar_ms} ms", held and usual["ours"] * 1e3 <= bar_ms
        floor, ours = got[depth]["floor"], got[depth]["ours"]
        yield ratio(f"{depth}, CPU, upstreams at 0 ms", floor["cpu_s"], ours["cpu_s"], CPU_RATIO)
    usual = got["deep_usual"]
    yield ratio("deep, wall, usual delays", usual["floor"]["wall_s"], usual["ours"]["wall_s"], WALL_RATIO)


def over_http(got: dict[str, Any]) -> Iterator[Row]:
    for route, servers in got.items():
        floor, ours = servers["floor"], servers["ours"]
        yield ratio(f"HTTP {route}, CPU a request, 50 clients", floor["cpu_ms"] / 1e3, ours["cpu_ms"] / 1e3, CPU_RATIO)
        yield ratio(f"HTTP {route}, p99, 50 clients", floor["p99_s"], ours["p99_s"], P99_RATIO)
        yield f"HTTP {route}, errors", str(floor["errors"]), str(ours["errors"]), "0", not ours["errors"]


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


PARTS = {
    "in_process": in_process,
    "over_http": over_http,
    "start": start,
    "report_alone": report_alone,
    "report_overlap": report_overlap,
    "report_crowd": report_crowd,
}


def main(wanted: Sequence[str]) -> int:
    failed = False
    print(f"{'what':<44} {'floor':>13} {'ours':>24}   bar")
    for name, rows in PARTS.items():
        if wanted and name not in wanted:
            continue
        got = part(name)
        failed = failed or got is None
        for what, floor, ours, bar, held in rows(got) if got else ():
            print(f"{what:<44} {floor:>13} {ours:>24}   {bar}{'' if held else '   missed'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
