"""A real language model behind the server and the command line: laws that hold whatever it writes.

LLM_TEST_BASE_URL is the address of any service with OpenAI's protocol, LLM_TEST_MODEL its model, LLM_TEST_API_KEY its key.
The sources are three short pages, so that a model of two billion parameters on a CPU reads them within minutes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.model

START_S = 120.0
ANSWER_S = 1800.0  # limit for a report by a model on a busy CPU
STOP_S = 60.0  # time for a command to end after Ctrl-C
BEFORE_CTRL_C_S = 8.0  # the model reads its prompt then
SMALL_CONTEXT_TOKENS = 1000
QUESTION = "How deep can the Brightwater tidal turbine stand, and who maintains it?"
NEXT = "How loud is it?"
PAGES = {
    "turbine.md": """# The Brightwater turbine

The Brightwater tidal turbine stands on the sea floor at a depth of up to 42 metres. Each of its three blades is 9 metres long.
The turbine delivers 1.6 megawatts in a spring tide.
""",
    "maintenance.md": """# Maintenance of the Brightwater turbine

The crew of the workboat Marlin maintains the Brightwater turbine every 14 months. Divers clean the blades; the gearbox is
lifted to the deck.
""",
    "noise.md": """# Noise of the Brightwater turbine

At a distance of 100 metres the Brightwater turbine is as loud as 118 decibels under water. Seals keep 30 metres away from it.
""",
}
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.S)
MARKER = re.compile(r"\[(\d+)\]")
SPECIAL_TOKEN = re.compile(r"<\|[a-z_]+\|>|</?think>", re.I)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pages = tmp_path_factory.mktemp("pages")
    for name, text in PAGES.items():
        (pages / name).write_text(text, encoding="utf-8")
    return pages


def environment(data: Path, **settings: str) -> dict[str, str]:
    """Return the settings of a process; the guard of the tests stays out, since the model may run on another machine."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and "_TEST_" not in name}
    return {
        **kept,
        "LLM_BASE_URL": os.environ["LLM_TEST_BASE_URL"],
        "LLM_MODEL": os.environ.get("LLM_TEST_MODEL", "local"),
        "LLM_API_KEY": os.environ.get("LLM_TEST_API_KEY", ""),
        "LLM_TIMEOUT_S": "900",
        "RESEARCH_TIMEOUT_S": "1500",
        "LLM_PLATFORM_DATA_DIR": str(data),
        "SEARCH_PROVIDERS": "documents",
        "RATE_LIMIT_PER_MINUTE": "0",
        "RATE_LIMIT_GLOBAL_PER_HOUR": "0",
        **settings,
    }


@contextmanager
def serving(folder: Path, data: Path, **settings: str) -> Iterator[httpx2.Client]:
    log = data / "server.log"
    words = [sys.executable, "-m", "modules.llm_platform", "serve", "--port", "0"]
    with log.open("w") as file:
        values = environment(data, DOCUMENTS_DIR=str(folder), **settings)
        process = subprocess.Popen(words, env=values, stdout=file, stderr=file)
    try:
        with httpx2.Client(base_url=_address(process, log), timeout=ANSWER_S) as client:
            yield client
    finally:
        process.terminate()
        process.wait(STOP_S)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + START_S
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)
    return found[0]


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with serving(folder, tmp_path_factory.mktemp("data")) as client:
        yield client


def run(folder: Path, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modules.llm_platform", *words]
    return subprocess.run(command, env=environment(data), capture_output=True, text=True, timeout=ANSWER_S, check=False)


def events(client: httpx2.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream; `[DONE]` is left out."""
    with client.stream("POST", path, json=body, headers={"Accept": "text/event-stream"}) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert response.status_code == 200
    return [json.loads(line) for line in lines if line != "[DONE]"]


def show(value: object) -> None:
    """What came out, for people; pytest prints it with -s and for a failed test."""
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False, indent=1)}\n")


def check_text(text: str, sources: int) -> None:
    """Each `[n]` outside of code is a source, and no token of the model's own format is in the text."""
    assert text.strip()
    assert not SPECIAL_TOKEN.search(text)
    assert {int(number) for number in MARKER.findall(CODE.sub("", text))} <= set(range(1, sources + 1))


def check_answer(answer: dict[str, Any]) -> None:
    """An answer arrives, or a reason; and no sentence looks checked that was not."""
    text, citations = answer["synthesis"], answer["citations"]
    show({key: answer[key] for key in ("synthesis", "degraded", "metadata")})
    assert text.strip()
    assert not SPECIAL_TOKEN.search(text)
    numbered = {source["index"] for source in answer["sources"]}
    assert {int(number) for number in MARKER.findall(CODE.sub("", text))} <= numbered
    for citation in citations:
        assert 0 <= citation["start"] < citation["end"] <= len(text)
        assert citation["source_index"] in numbered
        assert citation["verdict"] == "unchecked" or citation["checked_by"] in ("words", "encoder", "model")
        if citation["verdict"] == "supported":
            stored = answer["raw_results"][citation["source_index"] - 1]["content"]
            is_page = citation.get("checked_against") == "page"
            assert citation["quote"]
            assert is_page or stored[citation["quote_start"] : citation["quote_end"]] == citation["quote"]
    if answer["metadata"]["synthesizer"] != "extractive" and not citations:
        assert answer["degraded"], "the model cited nothing, and no reason says so"


class TestServer:
    @pytest.mark.parametrize("depth", ["shallow", "deep", "report"])
    def test_answer_arrives_with_checked_citations(self, server: httpx2.Client, depth: str) -> None:
        """At every depth: an answer whose numbers are sources and whose quotes stand in them."""
        response = server.post("/research", json={"query": QUESTION, "depth": depth, "sources": ["documents"]})
        assert response.status_code == 200, response.text
        check_answer(response.json())

    def test_stream_is_the_answer(self, server: httpx2.Client) -> None:
        """The tokens since the last reset are the text, and the last event has it or says why there is none."""
        query = "How often is the Brightwater turbine maintained?"
        found = events(server, "/research", {"query": query, "sources": ["documents"], "stream": True})
        assert found[0]["type"] == "started"
        last = found[-1]
        assert last["type"] in ("done", "failed")
        if last["type"] == "failed":
            assert last["problem"]["detail"]
            return
        tokens: list[str] = []
        for event in found:
            if event["type"] == "reset":
                tokens.clear()
            elif event["type"] == "token":
                tokens.append(event["text"])
        assert "".join(tokens) == last["response"]["synthesis"]
        check_answer(last["response"])

    def test_follow_up_is_understood(self, server: httpx2.Client) -> None:
        """A pronoun is replaced, by the model or by rules."""
        first = server.post("/research", json={"query": QUESTION, "sources": ["documents"]}).json()
        body = {"query": NEXT, "sources": ["documents"], "previous_id": first["metadata"]["request_id"]}
        answer = server.post("/research", json=body).json()
        check_answer(answer)
        assert "turbine" in answer["metadata"]["standalone_query"].casefold()

    @pytest.mark.parametrize("model", ["research-shallow", "MODEL"])
    def test_openai_chat_streamed(self, server: httpx2.Client, model: str) -> None:
        """A research run, and the model itself."""
        listed = [model["id"] for model in server.get("/v1/models").json()["data"]]
        name = model if model in listed else next(name for name in listed if "/" in name and "wordllama" not in name)
        body = {"model": name, "stream": True, "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]}
        found = events(server, "/v1/chat/completions", body)
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in found if chunk.get("choices"))
        assert text.strip()
        assert not SPECIAL_TOKEN.search(text)
        if model == "research-shallow":
            check_text(text, len(PAGES))

    def test_openai_responses_streamed(self, server: httpx2.Client) -> None:
        """The deltas are the text of the last event."""
        found = events(server, "/v1/responses", {"model": "research-shallow", "input": QUESTION, "stream": True})
        deltas = "".join(event["delta"] for event in found if event["type"] == "response.output_text.delta")
        assert found[-1]["type"] in ("response.completed", "response.incomplete")
        check_text(deltas, len(PAGES))

    def test_perplexity_streamed(self, server: httpx2.Client) -> None:
        """Each number is a citation of the stream."""
        body = {"model": "sonar", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
        found = events(server, "/perplexity/chat/completions", body)
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in found if chunk.get("choices"))
        check_text(text, max(len(chunk.get("citations") or ()) for chunk in found))

    def test_tavily_answer(self, server: httpx2.Client) -> None:
        """Each number is a result."""
        found = server.post("/tavily/search", json={"query": QUESTION, "include_answer": True}).json()
        check_text(found["answer"], len(found["results"]))

    def test_call_after_a_stream(self, server: httpx2.Client) -> None:
        """The call right after a streamed one is answered by the same model at once, each time."""
        body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
        for _ in range(3):
            streamed = events(server, "/llm-platform/chat", {**body, "stream": True})
            assert streamed[-1]["type"] == "done", streamed[-1]
            response = server.post("/llm-platform/chat", json=body)
            assert response.status_code == 200, response.text
            assert response.json()["provider"] == streamed[-1]["response"]["provider"]


def test_small_context_is_packed_for(folder: Path, tmp_path: Path) -> None:
    """Sources that do not fit are cut, and counted; the rest is answered from."""
    pages, data = tmp_path / "pages", tmp_path / "data"
    pages.mkdir()
    data.mkdir()
    for name, text in PAGES.items():
        filler = " ".join(
            f"Inspection {number} of the turbine found no fault in row {number % 9}." for number in range(60)
        )
        (pages / name).write_text(f"{text}\n{filler}\n", encoding="utf-8")
    with serving(pages, data, LLM_CONTEXT_TOKENS=str(SMALL_CONTEXT_TOKENS)) as client:
        answer = client.post("/research", json={"query": QUESTION, "sources": ["documents"]}).json()
    check_answer(answer)
    assert answer["metadata"]["truncated_tokens"] > 0


def test_ask_answers_from_the_index(folder: Path, tmp_path: Path) -> None:
    """The answer stage over the collection: an outcome whose numbers are its citations, or a reason."""
    assert run(folder, tmp_path, "index", str(folder)).returncode == 0
    done = run(folder, tmp_path, "ask", QUESTION, "--json")
    assert done.returncode == 0, done.stderr
    show(json.loads(done.stdout))
    assert not SPECIAL_TOKEN.search(done.stdout)
    assert json.loads(done.stdout)


def test_judge_is_measured(folder: Path, tmp_path: Path) -> None:
    """Both figures, and whether to turn it on."""
    done = run(folder, tmp_path, "doctor", "--judge", "--json")
    show(json.loads(done.stdout))
    texts = [check["text"] for check in json.loads(done.stdout)["checks"] if check["subject"].startswith("judge")]
    assert len(texts) == 1
    assert "verdicts are right" in texts[0]
    assert "CITATION_JUDGE=" in texts[0]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_ends_the_command_at_once(folder: Path, tmp_path: Path) -> None:
    """While the model reads or writes: exit 130, no traceback."""
    words = [sys.executable, "-m", "modules.llm_platform", "research", QUESTION, "--documents", str(folder)]
    process = subprocess.Popen(
        words, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        time.sleep(BEFORE_CTRL_C_S)
        was_running = process.poll() is None
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=STOP_S)
    finally:
        process.kill()
    assert process.returncode == (130 if was_running else 0)
    assert "Traceback" not in told
