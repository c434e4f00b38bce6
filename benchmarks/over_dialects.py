"""What a compatible API costs: the same shallow research through POST /v1/chat/completions and POST /research, in turn.

Both routes are of one server process; short rounds alternate, and the median of their ratios counts. Prints JSON; started by
run.py.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from benchmarks.common import USUAL_LATENCY, control, median
from benchmarks.over_http import ROUTES, WARM_S, Load
from benchmarks.watched_http import ROUND_S, cpu_ns, running

ROUNDS = 20
OURS = "modules.llm_platform.asgi:app"


class ChatLoad(Load):
    """Asks as a client of OpenAI."""

    def _body(self, query: str) -> dict[str, Any]:
        return {**self.body, "messages": [{"role": "user", "content": query}]}


def loads(port: int) -> dict[str, Load]:
    chat = ChatLoad(port, "/v1/chat/completions", {"model": "research-shallow"})
    return {"research": Load(port, *ROUTES["shallow"]), "chat": chat}


async def main() -> None:
    upstream = os.environ["FLOOR_UPSTREAM"]
    control(upstream, "latency", USUAL_LATENCY)
    rounds: list[dict[str, float]] = []
    errors = 0
    with running(OURS, upstream) as (pid, port):
        for load in loads(port).values():
            await load.run(WARM_S)
        for number in range(ROUNDS):
            cpu_ms = {}
            for name, load in sorted(loads(port).items(), reverse=number % 2 == 0):
                began = cpu_ns(pid)
                await load.run(ROUND_S)
                cpu_ms[name] = (cpu_ns(pid) - began) / len(load.walls) / 1e6
                errors += load.errors
            rounds.append(cpu_ms)
    ratio = median([round_["chat"] / round_["research"] for round_ in rounds])
    figures = {f"{name}_ms": median([round_[name] for round_ in rounds]) for name in rounds[0]}
    print(json.dumps({**figures, "ratio": ratio, "errors": errors}))


if __name__ == "__main__":
    asyncio.run(main())
