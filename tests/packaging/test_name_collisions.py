"""Tests an application that has its own package `modules` or `shared` next to the installed wheel. `make release` runs them."""

from __future__ import annotations

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
    """Create the layout of the page and more files, by path. `empty` files have no text, `more` maps paths to texts."""
    packages = ("modules/billing/__init__.py", "shop/__init__.py", "shop/shared/__init__.py")
    for name, code in {**dict.fromkeys((*packages, *empty), ""), **files_in(PAGE), **more}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    return folder


def python(environment: Environment, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(environment.bin / "python", *words, cwd=folder)


def test_the_layout_of_the_page_works(everything: Environment, tmp_path: Path) -> None:
    """The page's program runs unchanged next to the installed platform."""
    done = python(everything, application(tmp_path), "main.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("price of a heat pump in EUR\n")


@pytest.mark.parametrize("package", ["modules", "shared"])
def test_a_package_that_looks_further_hides_nothing(everything: Environment, tmp_path: Path, package: str) -> None:
    """The page's two lines merge the application's package with our package."""
    folder = application(tmp_path, f"{package}/own.py", **{f"{package}/__init__.py": EXTEND_PATH})
    done = python(everything, folder, "-c", f"import main, {package}.own")
    assert done.returncode == 0, done.stderr


def test_another_checkout_is_no_stranger(bare: Environment, tmp_path: Path) -> None:
    """A source tree on the path is used as a whole, even next to an installed copy."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; sys.path.insert(0, 'src'); import modules.llm_platform as m, shared.config as c"
    code += "; print(m.__file__, c.__file__)"
    done = python(bare, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert all(str(tmp_path) in name or name.startswith("src") for name in done.stdout.split())


@pytest.mark.parametrize("statement", IMPORTS)
@pytest.mark.parametrize("held", ["__init__", "config", "logging"])
def test_the_import_names_both_paths(bare: Environment, tmp_path: Path, held: str, statement: str) -> None:
    """The ImportError names the hiding and the hidden package, with and without a module of that name in the application."""
    folder = application(tmp_path, f"shared/{held}.py")
    done = python(bare, folder, "-c", f"try:\n {statement}\nexcept ImportError as error:\n print(error)")
    assert done.returncode == 0, done.stderr
    assert f"'shared' at {folder / 'shared'}" in done.stdout
    assert f" hides llm-platform's package 'shared' at {bare.site.resolve() / 'shared'}. " in done.stdout
    assert PAGE in done.stdout


@pytest.mark.parametrize("package", ["modules", "shared"])
def test_folders_without_an_init_file_are_one_package(bare: Environment, tmp_path: Path, package: str) -> None:
    """An application's folder `modules` or `shared` works together with our folder, whichever is found first."""
    folder = application(tmp_path, f"{package}/own.py")
    code = f"import modules.llm_platform, shared.exceptions, {package}.own as own; print(own.__file__)"
    done = python(bare, folder, "-c", code)
    assert done.stdout.strip() == str(folder / package / "own.py"), done.stderr


def test_nothing_runs_when_python_starts(bare: Environment, tmp_path: Path) -> None:
    """The installed package has no file that Python reads at startup, and loads no module without an import."""
    own_files = list(bare.site.glob("*llm_platform*.pth"))
    done = python(
        bare, tmp_path, "-c", "import sys; print([n for n in sys.modules if 'llm_platform' in n or n == 'shared'])"
    )
    assert (own_files, done.stdout.strip()) == ([], "[]"), done.stderr


def test_the_message_of_the_page_is_the_one_that_is_printed(bare: Environment, tmp_path: Path) -> None:
    """A user who searches for the message finds the page."""
    folder = application(tmp_path, "shared/__init__.py")
    done = python(bare, folder, "-c", "import modules.llm_platform")
    printed = done.stderr.splitlines()[-1].partition("ImportError: ")[2]
    for real, shown in (
        (str(folder / "shared"), "/home/me/shop/shared"),
        (str(bare.site.resolve() / "shared"), "/home/me/shop/.venv/lib/python3.11/site-packages/shared"),
    ):
        printed = printed.replace(real, shown)
    assert printed in text_of(PAGE)
