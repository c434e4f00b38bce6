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
from tests.cases import for_each
from tests.guard import network_guard

from shared.config import Settings, variable_names

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
    """No variable of ours, no proxy and no `.env` reaches a test: the settings are the defaults, and no page is read."""
    ours = {name for field in Settings.model_fields for name in variable_names(field)} - {"READ_PAGES"}
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
