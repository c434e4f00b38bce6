"""Runs every test folder, then every test file, in a pytest process of its own, each in another random order.

python scripts/alone.py [tests/unit/domain ...]          prints what failed; slow, so not part of `make test`
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS_COLLECTED = 5
DEADLINE_S = 600


def passes(path: Path) -> bool:
    seed = random.randrange(2**31)
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--randomly-seed={seed}", str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    good = done.returncode in (0, NO_TESTS_COLLECTED)
    print(f"{'ok    ' if good else 'FAILED'} {path.relative_to(ROOT)}  seed {seed}", flush=True)
    if not good:
        print(done.stdout[-3000:])
    return good


def main(names: list[str]) -> int:
    tops = [ROOT / name for name in names] or [ROOT / "tests"]
    files = sorted(path for top in tops for path in top.rglob("test_*.py"))
    folders = sorted({path.parent for path in files} - {ROOT / "tests"})
    failed = [path for path in (*folders, *files) if not passes(path)]
    print(f"{len(folders)} folders, {len(files)} files, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
