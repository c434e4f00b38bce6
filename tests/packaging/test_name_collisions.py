"""An application with a package `modules` or `shared` of its own, beside the installed wheel. `make release` runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, files_in, text_of
from tests.packaging.conftest import Environment, run

PAGE = "docs/howto/name-collisions.md"
[EXTEND_PATH] = [block for block in re.findall(r"```python\n(.*?)```", text_of(PAGE), re.S) if "extend_path" in block]
pytestmark = pytest.mark.release

IMPORTS = ("import modules.llm_platform", "from modules.llm_platform import ResearchRequest")


def application(folder: Path, *empty: str, **more: str) -> Path:
    """The layout of the page, and further files by their path: those that are `empty`, and `more` with their text."""
    packages = ("modules/billing/__init__.py", "shop/__init__.py", "shop/shared/__init__.py")
    for name, code in {**dict.fromkeys((*packages, *empty), ""), **files_in(PAGE), **more}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return folder


def python(environment: Environment, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(environment.bin / "python", *words, cwd=folder)


def both_paths(environment: Environment, folder: Path, package: str) -> tuple[str, str]:
    return str(folder / package), str(environment.site.resolve() / package)


def test_the_layout_of_the_page_works(everything: Environment, tmp_path: Path) -> None:
    """Its program runs as it stands there, beside the installed platform."""
    done = python(everything, application(tmp_path), "main.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("price of a heat pump in EUR\n")


@pytest.mark.parametrize("package", ["modules", "shared"])
def test_a_package_that_looks_further_hides_nothing(everything: Environment, tmp_path: Path, package: str) -> None:
    """The two lines of the page make a package of the application and ours one."""
    folder = application(tmp_path, f"{package}/own.py", **{f"{package}/__init__.py": EXTEND_PATH})
    done = python(everything, folder, "-c", f"import main, {package}.own")
    assert done.returncode == 0, done.stderr


def test_another_checkout_is_no_stranger(bare: Environment, tmp_path: Path) -> None:
    """A source tree on PYTHONPATH is used whole, although an installed copy stands beside it."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; sys.path.insert(0, 'src'); import modules.llm_platform as m, shared.config as c"
    code += "; print(m.__file__, c.__file__)"
    done = python(bare, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert all(str(tmp_path) in name or name.startswith("src") for name in done.stdout.split())


@pytest.mark.parametrize("statement", IMPORTS)
@pytest.mark.parametrize(
    ("package", "held"), [("modules", "__init__"), ("shared", "__init__"), ("shared", "config"), ("shared", "logging")]
)
def test_the_import_names_both_paths(
    bare: Environment, tmp_path: Path, package: str, held: str, statement: str
) -> None:
    """An ImportError tells who hides whom, whether the application's package lacks our module or has one of that name."""
    folder = application(tmp_path, f"{package}/__init__.py", f"{package}/{held}.py")
    done = python(bare, folder, "-c", f"try:\n {statement}\nexcept ImportError as error:\n print(error)")
    assert done.returncode == 0, done.stderr
    theirs, ours = both_paths(bare, folder, package)
    assert f"'{package}' at {theirs} hides the one of llm-platform at {ours}. " in done.stdout
    assert PAGE in done.stdout


def test_the_kernel_alone_names_both_paths(bare: Environment, tmp_path: Path) -> None:
    """`shared.config` may be imported before anything else of ours."""
    folder = application(tmp_path, "shared/__init__.py")
    done = python(bare, folder, "-c", "import shared.config")
    assert done.returncode == 1
    assert all(path in done.stderr for path in both_paths(bare, folder, "shared"))


@pytest.mark.parametrize("name", ["modules/__init__.py", "shared/__init__.py", "modules.py", "shared.py"])
def test_the_command_says_it_in_one_line(bare: Environment, tmp_path: Path, name: str) -> None:
    """With the application on PYTHONPATH the command is found, and ends with 1 and no traceback; a single file counts too."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    done = run("env", f"PYTHONPATH={path}", bare.bin / "llm-platform", "--help", cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("llm-platform: the package ")
    assert " hides the one of llm-platform at " in line


def test_a_failed_import_of_others_is_left_alone(bare: Environment, tmp_path: Path) -> None:
    """The finder answers for our names only: what an application lacks of its own reads as ever."""
    folder = application(tmp_path, "modules/__init__.py", "shared/__init__.py")
    for name in ("modules.sales", "shared.money", "nothing.at.all"):
        done = python(bare, folder, "-c", f"import {name}")
        missing = name.partition(".")[0] if name.startswith("nothing") else name
        assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: No module named '{missing}'"


def test_the_message_of_the_page_is_the_one_that_is_printed(bare: Environment, tmp_path: Path) -> None:
    """Who looks for the words finds the page."""
    folder = application(tmp_path, "shared/__init__.py")
    done = python(bare, folder, "-c", "import modules.llm_platform")
    theirs, ours = both_paths(bare, folder, "shared")
    said = done.stderr.splitlines()[-1].partition("HiddenPackageError: ")[2]
    for real, shown in (
        (theirs, "/home/me/shop/shared"),
        (ours, "/home/me/shop/.venv/lib/python3.11/site-packages/shared"),
    ):
        said = said.replace(real, shown)
    assert said in text_of(PAGE)
