"""A small disk for a test: a tmpfs in a mount namespace that vanishes with its process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

AS_ROOT = ("unshare", "--mount")
AS_ANYBODY = ("unshare", "--user", "--map-root-user", "--mount")
FORBIDDEN = "a full disk needs a mount namespace: run the test as root, or where the kernel lets users make one"


def in_a_mount_namespace(folder: Path) -> list[str]:
    """Return the command prefix for a process that may mount over `folder`.

    Skips the test if the system does not permit it (not Linux, or a container without the right), because the test
    would have to fill the machine's own disk.
    """
    for words in (AS_ANYBODY, AS_ROOT):
        mounting = [*words, "mount", "-t", "tmpfs", "none", str(folder)]
        if shutil.which("unshare") and not subprocess.run(mounting, capture_output=True, check=False).returncode:
            return list(words)
    pytest.skip(FORBIDDEN)
