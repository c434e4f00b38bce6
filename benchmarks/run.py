"""What the platform adds to the upstream calls that it must make anyway, as one table (benchmarks/README.md).

Every part runs in a process of its own with a deadline, so the whole ends by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import ROOT, environment, fake_upstreams

PART_S = 55.0  # deadline of one part
Row = tuple[str, str, str, str, bool]  # what, floor, ours, bar, held

SEARCH_OVER_US = 60
OWN_MS = {"shallow": 8, "deep": 12}
OWN_RATIO, CPU_RATIO, WALL_RATIO, P99_RATIO, START_RATIO = 2.0, 1.5, 1.01, 1.1, 1.3
IMPORT_S = 0.15


def part(name: str) -> Any:
    """What one part printed; a failed part is said so and leaves the others alone."""
    with fake_upstreams() as upstream:
        words = [sys.executable, "-m", f"benchmarks.{name}"]
        try:
            env, here = environment(upstream), ROOT / "benchmarks"  # no `.env` lies there
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


def main() -> int:
    failed = False
    print(f"{'what':<44} {'floor':>13} {'ours':>24}   bar")
    for name, rows in (("in_process", in_process), ("over_http", over_http), ("start", start)):
        got = part(name)
        failed = failed or got is None
        for what, floor, ours, bar, held in rows(got) if got else ():
            print(f"{what:<44} {floor:>13} {ours:>24}   {bar}{'' if held else '   missed'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
