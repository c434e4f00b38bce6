"""Garbage collector settings of a server."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import gc, json
from modules.llm_platform.presentation.garbage_collection import tune_gc
tune_gc()
class Node: pass
left = Node(); left.self = left
import weakref
seen = weakref.ref(left)
del left
gc.collect()
print(json.dumps({"frozen": gc.get_freeze_count(), "young": gc.get_threshold()[0], "collected": seen() is None}))
"""


def test_loaded_objects_are_frozen_and_new_garbage_is_collected() -> None:
    """Loaded objects are frozen, the threshold is raised, and later garbage is collected; tested in a child process."""
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=180)
    result = json.loads(ran.stdout)
    assert result["frozen"] > 1000
    assert result["young"] == 50_000
    assert result["collected"]
