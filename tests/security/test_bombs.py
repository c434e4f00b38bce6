"""Pages and answers that unpack to a gigabyte or never end are errors, and take little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.security.reading_bombs import PAGES

ROOT = Path(__file__).parents[2]
MAX_MB = 32
PATIENCE_S = 600  # limit on a busy machine


def test_bombs_take_little_memory() -> None:
    """No bomb is read, and none takes 32 MB in the reading process.

    The parsers run in separate processes with their own limit.
    """
    command = [sys.executable, "-P", "-m", "tests.security.reading_bombs"]
    environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {measured["name"] for measured in found} == {*PAGES, "a search in gzip"}
    assert [measured for measured in found if measured["outcome"] not in ("page_error", "web_search_error")] == []
    assert [measured for measured in found if measured["mb"] >= MAX_MB] == []
