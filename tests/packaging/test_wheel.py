"""Tests the wheel, because users install the wheel and not this checkout. `make release` runs the tests marked `release`."""

from __future__ import annotations

import json
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from tests.docs.pages import files_in
from tests.packaging.conftest import ROOT, Environment, build_wheel, run

OVERRIDES = """\
from modules.llm_platform import ILLMProvider, IWebSearchProvider
from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.container import build_platform
from modules.llm_platform.testing import FakeLLM, FakeWebSearch


def one() -> LLMPlatform:
    overrides = {IWebSearchProvider: FakeWebSearch()}
    return build_platform(overrides=overrides)


def several() -> LLMPlatform:
    overrides = {IWebSearchProvider: FakeWebSearch(), ILLMProvider: FakeLLM(["…"])}
    return build_platform(overrides=overrides)


def misspelt() -> LLMPlatform:
    return build_platform(override={})
"""


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_owns_few_names(wheel: Path) -> None:
    """Another top-level name could collide with a user's package. `modules` is a namespace without an owner."""
    tops = {name.split("/")[0] for name in names(wheel)}
    own = {top for top in tops if not top.endswith(".dist-info")}
    assert own == {"modules", "shared"}
    assert not {"modules/__init__.py", "shared/__init__.py"} & set(names(wheel))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """The wheel has every source and data file and the type markers. It has no tests, no bytecode and no settings file."""
    held = [name for name in names(wheel) if ".dist-info/" not in name]
    sources = (path for suffix in ("py", "json", "js", "css", "html") for path in (ROOT / "src").rglob(f"*.{suffix}"))
    source = {path.relative_to(ROOT / "src").as_posix() for path in sources}
    assert source <= set(held)
    assert {"modules/llm_platform/py.typed", "shared/py.typed"} <= set(held)
    page = "modules/llm_platform/presentation/rest/swagger_ui/"  # the files of /docs and their licence
    files = {"index.html", "start.js", "swagger-ui-bundle.js", "swagger-ui.css", "LICENSE", "NOTICE"}
    assert {f"{page}{name}" for name in (*files, "swagger-ui-bundle.js.LICENSE.txt")} <= set(held)
    licences = {"markdown-it.LICENSE", "dompurify.LICENSE"}  # licences of the libraries in the page at /
    assert {f"modules/llm_platform/presentation/rest/page/vendor/{name}" for name in licences} <= set(held)
    assert [name for name in held if "/tests/" in name or name.endswith((".pyc", ".env"))] == []


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    """The metadata contains name, version, licence and README."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        head = message_from_string(archive.read(metadata).decode())
        licences = [name for name in archive.namelist() if "/licenses/" in name]
    assert head["Name"] == "llm-platform"
    assert head["Requires-Python"] == ">=3.11"
    assert {name.rsplit("/", 1)[1] for name in licences} == {"LICENSE", "NOTICE"}


def test_the_classifiers_name_the_versions_of_python(wheel: Path) -> None:
    """They cover all versions from Requires-Python on, including the running version. `make installers` tries them."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        head = message_from_string(archive.read(metadata).decode())
    version = "Programming Language :: Python :: 3."
    named = [
        int(classifier.removeprefix(version))
        for classifier in head.get_all("Classifier", ())
        if classifier.startswith(version)
    ]
    lowest = int(str(head["Requires-Python"]).removeprefix(">=3."))
    assert named == list(range(lowest, lowest + len(named)))
    assert sys.version_info[1] in named


@pytest.mark.release
def test_the_installed_package_is_the_wheel(everything: Environment) -> None:
    """The import finds the installed files, not this checkout, and both entry points work."""
    where = everything.python(
        "-c", "import modules.llm_platform as p, shared.config as c; print(p.__file__, c.__file__)"
    )
    assert where.returncode == 0, where.stderr
    assert all(Path(path).is_relative_to(everything.folder.resolve()) for path in where.stdout.split())


@pytest.mark.release
@pytest.mark.parametrize("kind", ["everything", "bare"])
def test_the_command_works(kind: str, request: pytest.FixtureRequest) -> None:
    """The console script and `python -m` print their help, even without an extra."""
    environment: Environment = request.getfixturevalue(kind)
    for done in (
        environment.command("llm-platform", "--help"),
        environment.python("-m", "modules.llm_platform", "--help"),
    ):
        assert done.returncode == 0, done.stderr
        assert "research" in done.stdout
        assert done.stderr == ""


@pytest.mark.release
@pytest.mark.parametrize("kind", ["everything", "bare"])
def test_the_settings_are_shown(kind: str, request: pytest.FixtureRequest) -> None:
    """`llm-platform config` works without any configuration."""
    environment: Environment = request.getfixturevalue(kind)
    done = environment.command("llm-platform", "config")
    assert done.returncode == 0, done.stderr
    assert "SEARXNG_URL" in done.stdout


def test_a_research_runs_from_the_wheel(everything: Environment) -> None:
    """The installed command answers a question about a folder, as JSON with sources."""
    folder = everything.folder / "documents"
    folder.mkdir(exist_ok=True)
    (folder / "heron.md").write_text("# Herons\n\nThe grey heron builds its nest in tall trees near water.\n")
    question = "Where does the grey heron build its nest?"
    done = everything.command("llm-platform", "research", question, "--documents", str(folder), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["sources"][0]["url"] == "doc:heron.md"


@pytest.mark.release
def test_without_extras_the_package_works_and_says_what_is_missing(bare: Environment) -> None:
    """The import needs no extra. A command that needs an extra prints the install line and no traceback."""
    assert bare.python("-c", "import modules.llm_platform, modules.llm_platform.container").returncode == 0
    done = bare.command("llm-platform", "serve")
    assert done.returncode == 1
    assert 'pip install "llm-platform[server]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.release
def test_a_users_program_passes_mypy_strict(everything: Environment, tmp_path: Path) -> None:
    """The programs of the README and the how-tos type-check in a separate project, and mypy finds a mistake."""
    programs = (
        files_in("README.md") | files_in("docs/howto/use-from-python.md") | files_in("docs/howto/write-a-provider.md")
    )
    del programs["test_glossary.py"]  # projects rarely type-check their tests
    assert {"ask.py", "replacing.py", "glossary.py"} <= set(programs)
    for name, code in (programs | {"overriding.py": OVERRIDES}).items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n")
    mypy = Path(sys.executable).with_name("mypy")
    done = run(mypy, "--python-executable", everything.bin / "python", ".", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert [line for line in lines if "error:" in line and "overriding.py" not in line] == []
    assert ["Unexpected keyword argument" in line for line in lines if "error:" in line] == [True], done.stdout


@pytest.mark.release
def test_another_wheel_can_stand_beside_it(everything: Environment, tmp_path: Path) -> None:
    """`modules` is a namespace package: another project can install `modules.billing`, and both imports work."""
    package = tmp_path / "billing" / "src" / "modules" / "billing"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from modules.llm_platform import WebSearchRequest\n\nCURRENCY = 'EUR'\n")
    (tmp_path / "billing" / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "billing"\nversion = "1.0"\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/modules"]\n'
    )
    folder = tmp_path / "wheels"
    folder.mkdir()
    everything.install(build_wheel(tmp_path / "billing", folder), "--no-deps")
    done = everything.python(
        "-c", "import modules.billing as b, modules.llm_platform as p; print(b.CURRENCY, len(p.__all__) > 0)"
    )
    assert done.stdout.split() == ["EUR", "True"], done.stderr
