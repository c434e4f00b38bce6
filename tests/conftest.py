"""What holds for every test: nothing beyond loopback, nobody's settings, nobody's home, the same examples each time.

All of it is in place before the first test module is imported, and processes that tests start inherit it.
"""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from zlib import crc32

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key, get_timeout_config_value
from hypothesis import is_hypothesis_test
from hypothesis import settings as hypothesis_settings
from tests.guard import network_guard
from tests.support.clock import Clock
from tests.support.environment import SETTINGS

from modules.llm_platform.testing.waiting import Elapse
from shared.config import Settings, list_prefixes, variable_names
from shared.logging import QUIET_LOGGERS

GUARD = Path(network_guard.__file__).parent
LIVE: Mapping[
    str, tuple[str, str]
] = {  # mark of the tests of a service that runs: the variable of its address, an example
    "live_searxng": ("SEARXNG_TEST_URL", "http://localhost:8080"),
    "live_qdrant": ("QDRANT_TEST_URL", "http://localhost:6333"),
    "model": ("LLM_TEST_BASE_URL", "http://127.0.0.1:8080/v1"),
}
KEPT = re.compile(r"(SEARXNG|QDRANT|LLM)_TEST_\w+")  # they say where those services are, and what may be asked of them
FOREIGN = re.compile(  # what changes how code of ours or of our libraries behaves; case does not matter for proxies
    r"(?i:.*_proxy)|.*_(API_KEY|API_KEYS|TOKEN|SECRET|PASSWORD)|(DATABASE|OPENAI|AZURE|ANTHROPIC|HF|DDGS|UPSTREAM|LOG|QDRANT|EMBEDD\w+"
    r"|KAFKA|REDIS|JINA|READERS?|RATE_LIMIT|LIMIT|TYPER|RICH|XDG)_\w+|PG[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|COLUMNS|LINES|PYTHON(PATH|WARNINGS)"
)
NOBODY_LISTENS = "http://127.0.0.1:9"  # the discard port
GC_YOUNG_THRESHOLD, GC_OLDER_THRESHOLD = (
    50_000,
    20,
)  # allocations, collections; each collection looks at all loaded tests
HOSTILE = Path(__file__).parent / "security"
LONGEST = (  # files that one worker runs for half a minute and more of its processor
    "tests/quality/test_folder_questions.py",
    "tests/unit/presentation/rest/http/test_openapi.py",
    "tests/e2e/test_hostile_requests.py",
    "tests/security/test_text_fuzz.py",
    "tests/security/test_injection_pages.py",
    "tests/security/test_parser_limits.py",
)
LONG = (  # what starts processes or tries thousands of cases
    "tests/crash/",
    "tests/docs/",
    "tests/e2e/",
    "tests/integration/",
    "tests/packaging/",
    "tests/quality/",
    "tests/security/",
)
MADE_ONCE = "tests/packaging/"  # a wheel, and two environments
# Most of these tests wait for processes, sockets or timers, so any worker takes the next one.
SHARED_OUT = (
    "tests/docs/",
    "tests/e2e/",
    "tests/integration/",
    "tests/quality/test_folder_questions.py",
    "tests/services/test_page",
)
MODULE_FIXTURE = 'scope="module"'
PARTED = "tests/services/test_clients.py"  # each worker that takes a part makes the fixture of the module
PARTS = 3


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # lasts until all tests are collected: what is collected stays
    gc.set_threshold(GC_YOUNG_THRESHOLD, GC_OLDER_THRESHOLD, GC_OLDER_THRESHOLD)
    _scrub_environment()
    if not _runs_workers(config):
        os.environ["PYTHONPATH"] = str(GUARD)  # children: see sitecustomize.py there
    _keep_running()
    _hear_interrupts()
    network_guard.install()
    pytest.register_assert_rewrite(
        "tests.kafka.contract", "tests.kafka.broker_contract"
    )  # their asserts explain themselves
    hypothesis_settings.register_profile("default", max_examples=50, deadline=None, derandomize=True, database=None)
    hypothesis_settings.register_profile("thorough", max_examples=2000, deadline=None, database=None)
    hypothesis_settings.load_profile(config.getoption("--hypothesis-profile", None) or "default")


@pytest.hookimpl(trylast=True)  # runs after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measuring coverage takes two thirds of the time of tests that run thousands of examples; others reach the same lines.

    The longest files run first, then the other long ones: the files that are left at the end are short, and no worker waits
    long for another.
    """
    items.sort(key=lambda item: (not item.nodeid.startswith(LONGEST), not item.nodeid.startswith(LONG)))
    for item in items:
        if item.path.is_relative_to(HOSTILE) or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.no_cover)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """With `--dist=loadfile` a worker runs a whole file, or a whole folder whose fixtures take long to make. The tests of
    SHARED_OUT are distributed one by one, except those of a file that has a fixture of its module. PARTED is divided.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # it may not be installed

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, _ = nodeid.partition("::")
            if file == PARTED:
                return f"{file} {crc32(nodeid.encode()) % PARTS}"
            if file.startswith(SHARED_OUT) and not _has_module_fixture(config.rootpath / file):
                return nodeid
            return MADE_ONCE if file.startswith(MADE_ONCE) else file

    return Scheduling(config, log)


@cache
def _has_module_fixture(file: Path) -> bool:
    return MODULE_FIXTURE in file.read_text(encoding="utf-8")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Live tests whose service has no address: an error where they were asked for, else they are skipped beside others.

    `-m live` runs the services that have an address; `-m live_qdrant` without one would be green and have tried nothing.
    """
    gc.freeze()  # modules and tests live as long as the process
    gc.enable()
    asked_for = session.config.getoption("markexpr", "")
    for mark, (variable, example) in LIVE.items():
        items = [item for item in session.items if item.get_closest_marker(mark)]
        if not items or os.environ.get(variable):
            continue
        remedy = f"{variable} is not set: give the address of a server to test with, for instance {variable}={example}"
        if mark in asked_for or not any(os.environ.get(other) for other, _ in LIVE.values()):
            raise pytest.UsageError(remedy)
        for item in items:
            item.add_marker(pytest.mark.skip(reason=remedy))


def _runs_workers(config: pytest.Config) -> bool:
    """Whether this process only hands tests to workers: a worker guards itself, and a second guard knows of no live test."""
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


def _scrub_environment() -> None:
    ours = {name for field in Settings.model_fields for name in variable_names(field)}
    for name in list(os.environ):
        if not KEPT.fullmatch(name) and (name in ours or name.startswith(list_prefixes()) or FOREIGN.fullmatch(name)):
            del os.environ[name]
    # Images of Python forbid to keep bytecode; then each of the hundreds of processes would compile the whole project again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ["DDGS_PROXY"] = NOBODY_LISTENS  # ddgs connects from Rust, where no hook of Python looks
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # no process looks for them in the metadata of every package
    os.environ.update(SETTINGS)


def _keep_running() -> None:
    """`os._exit` in this process would end the whole run half-way, and with 0 it would look green: it becomes SystemExit."""
    leave, this_process = os._exit, os.getpid()

    def exit_the_test(code: int) -> NoReturn:
        if os.getpid() == this_process:
            raise SystemExit(code)
        leave(code)

    os._exit = exit_the_test


def _hear_interrupts() -> None:
    """A shell without job control starts what runs in the background with SIGINT ignored, and children inherit that: a
    command that a test interrupts would go on.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest lifts the limit of a test that fails, for a debugger. The fixtures of such a test have to end as well."""
    if node.config.getoption("usepdb", False):
        return
    limit_s, file = get_timeout_config_value(node.config), node.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(limit_s, file=file, exit=True)


@pytest.fixture(scope="session", autouse=True)
def _nobodys_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Home and the folders below it are empty, and the working directory is no checkout with somebody's `.env`."""
    home, elsewhere = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("USERPROFILE", str(home))
        for kind in ("CONFIG", "DATA", "CACHE", "STATE"):
            patch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
        patch.chdir(elsewhere)
        yield


@pytest.fixture(autouse=True)
def _reaches_its_service(request: pytest.FixtureRequest) -> Iterator[None]:
    """A live test may reach the host that its variable names, and no other."""
    urls = [os.environ[variable] for mark, (variable, _) in LIVE.items() if request.node.get_closest_marker(mark)]
    for host in filter(None, (urlsplit(url).hostname for url in urls)):
        network_guard.admitted.add(host)
        try:
            network_guard.admitted.update(str(found[4][0]) for found in socket.getaddrinfo(host, None))
        except OSError:
            pytest.fail(f"{host} has no address: look at the variable that names it")
    yield
    network_guard.admitted.clear()


@pytest.fixture(autouse=True)
def _stays_here() -> Iterator[None]:
    """A test that tried to reach out fails, even where the code under test swallowed the error."""
    before, here = len(network_guard.attempts), Path.cwd()
    yield
    os.chdir(here)
    tried = network_guard.attempts[before:]
    del network_guard.attempts[before:]
    assert not tried, f"tried to reach {', '.join(tried)}: only loopback is allowed"


@pytest.fixture(autouse=True)
def _restored_log_levels() -> Iterator[None]:
    """A test that starts an application leaves no logger of ours at another level."""
    yield
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("modules.") and isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
            logger.setLevel(logging.NOTSET)


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """A test that configures logging leaves handlers and levels as they were."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    quiet = {name: logging.getLogger(name).level for name in QUIET_LOGGERS}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in quiet.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def elapse(clock: Clock) -> Elapse:
    """Let seconds pass for a store that is under a contract."""
    return clock.elapse


def pytest_report_header() -> str:
    return f"guard: loopback only, environment scrubbed, python {sys.version.split()[0]}"
