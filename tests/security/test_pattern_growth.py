"""The time of each regular expression grows linearly with the length of the text."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]
ROUNDS = 1
ROUNDS_OF_FUZZ = 12
FUZZ_EXAMPLES = 1000  # the profile `thorough` tries more examples


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a search cannot be ended on Windows")
def test_no_pattern_is_slow() -> None:
    """No text built from a pattern's own parts makes it slow. `make fuzz` builds other texts in each run."""
    is_fuzz = settings().max_examples > FUZZ_EXAMPLES
    rounds, seed = (ROUNDS_OF_FUZZ, random.randrange(1 << 30)) if is_fuzz else (ROUNDS, 1)
    command = [sys.executable, "-m", "tests.security.pattern_attacks", f"--rounds={rounds}", f"--seed={seed}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    slow = [json.loads(line) for line in done.stdout.splitlines()]
    listed = "\n".join(f"{found['name']}: {found}" for found in slow)
    assert not slow, f"Seed {seed}. Rewrite, or cut the text before and say so in BOUNDED:\n{listed}"
