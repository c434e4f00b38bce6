"""The garbage collector of a process that does nothing but serve."""

from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import gc, json
from modules.llm_platform.presentation.rest.server import tune_gc
tune_gc()
class Node: pass
left = Node(); left.self = left
import weakref
seen = weakref.ref(left)
del left
gc.collect()
print(json.dumps({"frozen": gc.get_freeze_count(), "young": gc.get_threshold()[0], "collected": seen() is None}))
"""


def test_what_is_loaded_is_left_alone_and_what_is_made_later_is_collected() -> None:
    """Modules leave the collector's sight, it looks less often, and garbage made afterwards still goes. In a process of its
    own, since these are settings of the process.
    """
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=180)
    told = json.loads(ran.stdout)
    assert told["frozen"] > 1000
    assert told["young"] == 50_000
    assert told["collected"]
