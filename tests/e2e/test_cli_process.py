"""The command line as a process: what a shell sees of it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.forked_command import COMMAND_LINE, PIPE, ForkedPython, run_forked

from modules.llm_platform.__main__ import wiring
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run

pytestmark = pytest.mark.usefixtures("restored_logging")  # commands run in this process

PROGRAM = (sys.executable, "-m", "modules.llm_platform")
PATIENCE_S = 120.0  # how long a test waits for a process before it is called hanging
PROMPT_S = 20.0  # Ctrl-C to exit, on a slow and busy machine; the silent upstream would be waited for longer
KEY = "sk-very-secret-0123456789"
HEAT = "The greenhouse is heated by a heat pump of nine kilowatts from October to April."
NOBODY = "http://127.0.0.1:9"
COMPLETED_IN_BASH = {"rese": "research researches", "research --depth re": "report"}
COMPLETED = {
    "cache ex": "export",
    "search --ver": "",
    "--ver": "--version",
}
INTERRUPTED_IMPORT = """
import sys
from modules.llm_platform.__main__ import main
class Interrupted:
    def find_spec(self, name, *rest):
        if name.endswith("cli.main"):
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
main()
"""


@pytest.fixture(autouse=True)
def keyword_search_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors change nothing of what a shell sees, and each process would load their model."""
    monkeypatch.setenv("EMBEDDER", "none")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "heating.md").write_text(f"# Heating\n\n{HEAT}\n")
    (folder / "water.md").write_text("# Water\n\nRain water is kept in two tanks of a thousand litres each.\n")
    return folder


def call_here(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the same program without a process, for laws about its output."""
    out, err = io.StringIO(), io.StringIO()
    code = run(arguments, wiring(), Console(out, err, io.StringIO(stdin)))
    return code, out.getvalue(), err.getvalue()


def call(*arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run_forked(COMMAND_LINE, *arguments, input=stdin, timeout=PATIENCE_S, env={**os.environ, **(env or {})})


class TestCompletion:
    def test_bash_completes(self, tmp_path: Path) -> None:
        """The script that --install-completion leaves completes commands, options and choices in a real bash."""
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        script = "llm-platform --install-completion >installed; . ~/.bashrc\n" + "".join(
            f"COMP_WORDS=(llm-platform {words}); COMP_CWORD={len(words.split())}\n"
            '_llm_platform_completion llm-platform; echo "${COMPREPLY[*]}"\n'
            for words in COMPLETED_IN_BASH
        )
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": here, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.stderr, done.stdout.splitlines()) == ("", list(COMPLETED_IN_BASH.values()))

    @for_each("words, completed", COMPLETED.items())
    def test_commands_and_options_are_completed(self, words: str, completed: str) -> None:
        """What the script asks the program for."""
        asked = {"COMP_WORDS": f"llm-platform {words}", "COMP_CWORD": str(len(words.split()))}
        ended = call(env={"_LLM_PLATFORM_COMPLETE": "complete_bash", **asked})
        assert (ended.stderr, " ".join(ended.stdout.split())) == ("", completed)


class TestDocuments:
    def test_folder_is_researched_without_key_or_network(self, notes: Path) -> None:
        """The answer, its sources, each quote with its verdict; nothing on standard error; exit code 0."""
        ended = call("research", "What heats the greenhouse?", "--documents", str(notes), "--offline")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "heat pump of nine kilowatts" in ended.stdout.partition("Sources")[0]
        assert "doc:heating.md" in ended.stdout
        assert re.search(r"❝ quoted word for word  “.*heat pump.*” — \[\d+\]", ended.stdout)
        assert "No language model is configured" in ended.stdout

    def test_json_is_all_of_standard_output(self, notes: Path) -> None:
        """Standard output is one JSON document with the fields of the HTTP answer."""
        words = ("research", "--documents", str(notes), "--offline", "--json")
        _, out, _ = call_here(*words, stdin="What heats the greenhouse?\n")
        answer = json.loads(out)
        assert answer["metadata"]["providers"] == ["documents"]
        assert answer["sources"][0]["url"] == "doc:heating.md"
        quote = answer["citations"][0]
        stored = {result["url"]: result["content"] for result in answer["raw_results"]}["doc:heating.md"]
        assert stored[quote["quote_start"] : quote["quote_end"]] == quote["quote"]

    def test_folder_is_searched(self, notes: Path) -> None:
        """The same folder as a list of hits."""
        code, out, _ = call_here("search", "rain water tanks", "--documents", str(notes), "--offline")
        assert code == 0
        assert "doc:water.md" in out

    def test_output_file_is_written(self, notes: Path, tmp_path: Path) -> None:
        """--output writes the answer, and standard output stays empty."""
        target = tmp_path / "answer.html"
        words = ("research", "What heats the greenhouse?", "--documents", str(notes), "--output", str(target))
        code, out, _ = call_here(*words)
        assert (code, out) == (0, "")
        assert "heat pump" in target.read_text(encoding="utf-8")

    def test_terminal_gets_progress_and_a_rendered_answer(self, notes: Path) -> None:
        """On a terminal progress is shown, the answer is rendered, and it stands there once."""
        code, shown = on_a_terminal("research", "What heats the greenhouse?", "--documents", str(notes), "--offline")
        assert code == 0
        assert "searching …" in shown
        permanent = re.sub(r"\x1b\[\?25l.*?\x1b\[\?25h", "", shown, flags=re.DOTALL)  # what rich draws and takes back
        plain = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", permanent).split())
        answer = plain.partition("Sources")[0]
        assert answer.count("heat pump of nine kilowatts") == 1
        assert "❝ quoted word for word" in plain


class TestLeaving:
    @pytest.mark.parametrize("command", ["search", "research"])
    def test_ctrl_c_ends_promptly_and_closes_connections(self, command: str) -> None:
        """While the upstream is silent: exit code 130 at once, the connection closed, no traceback."""
        with silent_upstream() as (address, upstream):
            env = {**os.environ, "SEARXNG_URL": address, "SEARXNG_TIMEOUT_S": "50"}
            process = ForkedPython(COMMAND_LINE, command, "What is it?", env=env, stdout=PIPE, stderr=PIPE)
            assert upstream.asked.wait(PATIENCE_S)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
            assert time.monotonic() - began < PROMPT_S
            assert (process.returncode, out, err) == (130, "", "")
            assert upstream.closed.wait(PROMPT_S)

    def test_closed_pipe_ends_the_command_quietly(self, notes: Path) -> None:
        """`| head -0`: no complaint, no failure."""
        words = ("research", "What heats the greenhouse?", "--documents", notes, "--offline", "--json")
        process = ForkedPython(COMMAND_LINE, *words, stdout=PIPE, stderr=PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert (process.wait(PATIENCE_S), err) == (0, "")

    def test_ctrl_c_while_the_program_is_imported_is_130(self) -> None:
        """The imports take up to a second; a traceback of them says nothing."""
        ended = subprocess.run(
            [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")

    @pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
    def test_closed_standard_streams_do_not_matter(self, closed: str, notes: Path) -> None:
        """As under a supervisor that opens none: the answer is computed, and its file written."""
        target = notes.parent / "answer.md"
        words = [*PROGRAM, "research", "What heats the greenhouse?", "--documents", str(notes), "--output", str(target)]
        ended = subprocess.run(["sh", "-c", f"{shlex.join(words)} {closed}"], timeout=PATIENCE_S, check=False)
        assert ended.returncode == 0
        assert "heat pump" in target.read_text(encoding="utf-8")

    @for_each(
        ("arguments", "code", "says"),
        [
            (["search", "x", "--count", "0"], 2, "--count"),
            (["research", "What is it?", "--offline"], 1, "--documents DIR"),
            (["search", "x", "--provider", "bocha"], 1, "BOCHA_API_KEY"),
            (["serve", "--host", "0.0.0.0"], 1, "LLM_PLATFORM_API_KEYS"),
            (["topics", "show", "no such topic"], 1, "llm-platform topics list"),
        ],
    )
    def test_failure_is_one_line_and_an_exit_code(
        self, arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What to change is named, nothing stands on standard output, and nothing looks like a traceback."""
        ended, out, err = call_here(*arguments)
        err += capsys.readouterr().err  # what the parser of options prints
        assert (ended, out) == (code, "")
        assert says in err
        assert "Traceback" not in err
        assert code == 2 or err.count("\n") == 1

    def test_missing_network_names_the_settings(self) -> None:
        """Nothing configured, nobody to ask: exit code 1 and the remedy."""
        ended = call("search", "asyncio")
        first, last = ended.stderr.splitlines()
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "leaves this machine" in first
        assert "SEARXNG_URL" in last
        assert "--documents DIR" in last


class TestSecrets:
    def test_no_key_is_in_any_output(self) -> None:
        """With every upstream failing and all that can be logged logged, no key stands anywhere."""
        env = {
            "LOG_LEVEL": "DEBUG",
            "SEARXNG_URL": NOBODY,
            "SEARXNG_USERNAME": "me",
            "SEARXNG_PASSWORD": f"{KEY}-1",
            "BOCHA_API_KEY": f"{KEY}-2",
            "BOCHA_BASE_URL": NOBODY,
            "LLM_API_KEY": f"{KEY}-3",
            "LLM_BASE_URL": NOBODY,
            "LLM_MODEL": "m",
        }
        commands = (["search", "x"], ["research", "What?"], ["config"], ["doctor", "--yes"])
        ends = [call(*arguments, env=env) for arguments in commands]
        assert [ended.returncode for ended in ends] == [1, 1, 0, 1]
        assert KEY not in "".join(ended.stdout + ended.stderr for ended in ends)


class TestWeight:
    def test_search_imports_only_what_it_needs(self, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No web framework, no model library, nothing that draws or logs, no client of a server: a person waits for every
        import. (numpy is needed: the folder is searched by meaning.)
        """
        monkeypatch.delenv("EMBEDDER")
        heavy = [
            "fastapi",
            "starlette",
            "uvicorn",
            "openai",
            "rich",
            "structlog",
            "qdrant_client",
            "ddgs",
            "werkzeug",
            "redis",
            "portalocker",
            "aiohttp",
            "httpcore2",
            "opentelemetry.exporter",
            "modules.llm_platform.infrastructure.telemetry.otel_tracer",
        ]
        code = (
            "import sys; from modules.llm_platform.__main__ import main\n"
            "try: main()\n"
            f"except SystemExit: print([name for name in {heavy} if name in sys.modules])"
        )
        arguments = ["search", "rain water", "--documents", str(notes), "--offline"]
        ended = subprocess.run(
            [sys.executable, "-c", f"import threading; threading.active_count = lambda: 1\n{code}", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.stderr == ""
        assert ended.stdout.splitlines()[-1] == "[]"


class SilentUpstream:
    """Takes requests and never answers; tells when it was asked and when the other side hung up."""

    def __init__(self) -> None:
        self.asked, self.closed = threading.Event(), threading.Event()

    def serve(self, listening: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                while data := connection.recv(65_536):
                    assert data
                    self.asked.set()
        self.closed.set()


@contextmanager
def silent_upstream() -> Iterator[tuple[str, SilentUpstream]]:
    upstream = SilentUpstream()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=upstream.serve, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", upstream
    thread.join(PATIENCE_S)


def on_a_terminal(*arguments: str) -> tuple[int, str]:
    """Exit code and all that a terminal of 100 columns was sent."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = ForkedPython(COMMAND_LINE, *arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the last reader of a terminal gets an error, not an end
        while piece := os.read(ours, 65_536):
            shown += piece
    os.close(ours)
    return process.wait(PATIENCE_S), shown.decode()
