"""Answers without a language model over HTTP: by words alone, which is the floor here, and by meaning (`ANSWER_ENCODER`).

    .venv/bin/python -m benchmarks.quotes

The documents and questions are those of `scripts/folder_questions.py`. No question is asked twice in a run; after the first
round the sentences of the documents are known, as on a server that has been up for a while.
"""

from __future__ import annotations

import asyncio
import json
import time

import httpx2
from benchmarks.common import ROOT, percentile
from benchmarks.quick import Server, cpu_ms, resident_mb, running

NO_UPSTREAM = "http://127.0.0.1:9"  # nothing is asked
FOLDER = ROOT / "tests" / "quality" / "folder"
WAYS = {"words": "off", "meaning": "on"}
ROUNDS = {"first round, one client": 1, "one client": 1, "20 clients": 20}


def read_questions() -> list[str]:
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["q"] for line in lines]


async def ask_all(server: Server, questions: list[str], clients: int) -> tuple[list[float], float, float]:
    """Return the seconds of each answer, the seconds of all, and the milliseconds of CPU of one."""
    turns, seconds = asyncio.Semaphore(clients), list[float]()
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:

        async def ask(question: str) -> None:
            async with turns:
                began = time.perf_counter()
                response = await client.post("/research", json={"query": question, "depth": "shallow"})
                response.raise_for_status()
                seconds.append(time.perf_counter() - began)

        before, began = cpu_ms(server.pid), time.perf_counter()
        await asyncio.gather(*map(ask, questions))
        return seconds, time.perf_counter() - began, (cpu_ms(server.pid) - before) / len(questions)


async def measure(way: str, setting: str) -> None:
    settings = {"ANSWER_ENCODER": setting, "DOCUMENTS_DIR": str(FOLDER / "files"), "LLM_PLATFORM_OFFLINE": "true"}
    no_model = {"LLM_BASE_URL": "", "LLM_API_KEY": "", "LLM_MODEL": "", "SEARCH_PROVIDERS": "documents"}
    with running("modules.llm_platform.asgi:app", NO_UPSTREAM, **settings, **no_model) as server:
        first, _, _ = await ask_all(server, ["What is this about?"], 1)
        print(f"{way:8} first answer {first[0]:.2f} s")
        for number, (name, clients) in enumerate(ROUNDS.items()):
            questions = [f"{question.rstrip('?')} ({number})?" for question in read_questions()]
            seconds, total, cpu = await ask_all(server, questions, clients)
            print(
                f"{way:8} {name:25} CPU {cpu:4.0f} ms, {len(seconds) / total:5.1f} answers a second, "
                f"p50 {percentile(seconds, 0.5) * 1000:5.0f} ms, p99 {percentile(seconds, 0.99) * 1000:5.0f} ms, "
                f"{resident_mb(server.pid)[0]:.0f} MB",
                flush=True,
            )


def main() -> None:
    for way, setting in WAYS.items():
        asyncio.run(measure(way, setting))


if __name__ == "__main__":
    main()
