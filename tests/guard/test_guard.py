"""The guard itself: a hole in it would let a test spend money or depend on the weather of the net."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.guard import network_guard
from tests.support.cases import for_each
from tests.support.environment import SETTINGS

from shared.config import Settings, variable_names

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
OUTSIDE = "192.0.2.1"  # TEST-NET-1: nobody has this address


@pytest.fixture
def forgiven():
    """The attempts of this test are on purpose."""
    yield
    network_guard.attempts.clear()


@pytest.mark.usefixtures("forgiven")
@pytest.mark.parametrize("call", ["connect", "connect_ex"])
def test_no_connection_leaves_the_machine(call: str) -> None:
    """TCP to an address beyond loopback raises, whichever call is used."""
    with socket.socket() as sock, pytest.raises(network_guard.ReachedOut, match=OUTSIDE):
        getattr(sock, call)((OUTSIDE, 80))


@pytest.mark.usefixtures("forgiven")
def test_no_datagram_leaves_the_machine() -> None:
    """UDP as well: a resolver of one's own would use it."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(network_guard.ReachedOut, match=OUTSIDE):
        sock.sendto(b"?", (OUTSIDE, 53))


@pytest.mark.usefixtures("forgiven")
def test_the_service_of_a_live_test_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address that such a test was given may be reached, its neighbour may not. (No packet: UDP, and nothing sent.)"""
    monkeypatch.setattr(network_guard, "admitted", {OUTSIDE})
    with socket.socket(type=socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect((OUTSIDE, 8080))
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(network_guard.ReachedOut):
        sock.connect((OUTSIDE.replace(".1", ".2"), 8080))


@pytest.mark.usefixtures("forgiven")
def test_no_name_is_looked_up() -> None:
    """No name is sent to a resolver, not even from another thread; an attempt whose error is lost is remembered."""
    lost: list[BaseException] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo("example.org", 443)
        except network_guard.ReachedOut as error:
            lost.append(error)

    thread = threading.Thread(target=look_up)
    thread.start()
    thread.join()
    assert len(lost) == 1
    assert "example.org" in network_guard.attempts


def test_a_reserved_name_does_not_exist() -> None:
    """`.invalid` fails as a wrong host name does, so DNS failures can be tested without DNS."""
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("nowhere.invalid", 80)


@for_each("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8", "::ffff:127.0.0.1"])
def test_loopback_is_free(host: str) -> None:
    """Servers on this machine can be talked to under all their names."""
    socket.getaddrinfo(host, 80)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.settimeout(0.2)
        sock.connect_ex((host, 9))  # refused or unreachable, but not forbidden


def test_children_are_guarded() -> None:
    """A Python process that a test starts stays on loopback as well."""
    code = f"import socket; socket.create_connection(('{OUTSIDE}', 80), 1)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert "ReachedOut" in child.stderr


def test_children_keep_their_bytecode() -> None:
    """Whatever PYTHONDONTWRITEBYTECODE says: a process that compiles all that it imports takes twice the time."""
    code = "import sys; print(sys.dont_write_bytecode)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (child.stdout.strip(), sys.dont_write_bytecode) == ("False", False)


def test_the_guard_is_silent_when_the_interpreter_ends() -> None:
    """The last socket of a process may be opened when the guard's names are gone already."""
    code = (
        "import socket, network_guard\n"
        "class Late:\n"
        "    def __init__(self): self.socket = socket.socket()\n"
        "    def __del__(self): self.socket.connect_ex(('127.0.0.1', 9))\n"
        "network_guard.late = Late()\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (child.returncode, child.stderr) == (0, "")


def test_no_setting_of_the_developer_is_seen() -> None:
    """No variable of ours, no proxy and no `.env` reaches a test: the settings are the defaults and those of tests/support."""
    ours = {name for field in Settings.model_fields for name in variable_names(field)} - set(SETTINGS)
    assert not ours & set(os.environ)
    assert not [name for name in os.environ if name.upper().endswith("_PROXY") and name != "DDGS_PROXY"]
    assert not Path(".env").exists()
    assert Settings.load() == Settings(_env_file=None)


def test_home_is_a_folder_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a platform keeps in the user's folders lands in the temporary folder of the run."""
    assert Path.home().is_relative_to(tmp_path_factory.getbasetemp())
    assert Path(os.environ["XDG_CACHE_HOME"]).is_relative_to(Path.home())


def test_no_test_can_end_the_run() -> None:
    """`os._exit(0)` half-way through would be a green run of half the tests: it is an error of the test that does it."""
    with pytest.raises(SystemExit):
        os._exit(0)


def test_a_forked_child_can_end_itself() -> None:
    """Children that were forked still leave at once."""
    child = os.fork()
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@for_each(
    "body",
    [
        "time.sleep(60)",
        "subprocess.run(['sleep', '60'])",
        "pytest.fail('before its fixture hangs')",
    ],
)
def test_no_test_runs_without_a_limit(body: str, tmp_path: Path) -> None:
    """What hangs, in a test or in a fixture after its failure, ends the process, and its last lines name the place."""
    written = HANGING.format(body=body)
    done = _run_elsewhere(tmp_path, written, "-o", "faulthandler_timeout=2")
    assert done.returncode == 1
    assert "Timeout (0:00:02)!" in done.stderr
    assert "test_elsewhere.py" in done.stderr


def test_limits_are_for_every_run(pytestconfig: pytest.Config) -> None:
    """They stand in the configuration, and no process outlives them."""
    assert float(pytestconfig.getini("faulthandler_timeout")) >= 600
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True


def test_a_run_in_the_background_interrupts_its_children(tmp_path: Path) -> None:
    """A shell without job control lets it ignore SIGINT; the children of tests can be interrupted all the same."""
    done = _run_elsewhere(tmp_path, INTERRUPTED, before=("sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    assert done.returncode == 0, done.stdout


HANGING = """
import subprocess, time
import pytest

@pytest.fixture
def hanging():
    yield
    time.sleep(60)

def test_that_hangs(hanging):
    {body}
"""
INTERRUPTED = """
import signal, subprocess, sys

def test_that_interrupts():
    # Short pauses: Python notices a signal that comes right before a pause only when it ends.
    command = [sys.executable, "-c", "import time; print(1, flush=True); [time.sleep(0.1) for _ in range(600)]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(50) == -signal.SIGINT
"""


def _run_elsewhere(
    folder: Path, source: str, *options: str, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a test with this source under the configuration of this project."""
    (folder / "test_elsewhere.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    configured = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    return subprocess.run(
        [*before, *command, *configured, *options, str(folder / "test_elsewhere.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
