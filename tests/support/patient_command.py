"""The command `llm-platform` with longer time limits than its users have, for services on a busy machine.

    subprocess.run([*patient(REDIS_LIMITS), "serve"])

A reply that comes too late looks as if the service were away, and a test that counts what the service was asked would fail.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

Limits = Mapping[str, Mapping[str, float]]  # constants by module

REPLY_S = 15.0
REDIS_LIMITS: Limits = {
    "modules.llm_platform.infrastructure.redis_client": {"TIMEOUT_S": REPLY_S, "CALL_TIMEOUT_S": 2 * REPLY_S},
    "modules.llm_platform.infrastructure.cache.redis": {"LOCAL_TTL_S": 600.0},  # a test may take minutes to ask again
}
KAFKA_LIMITS: Limits = {"modules.llm_platform.presentation.kafka.admin.check": {"QUERY_TIMEOUT_S": 4 * REPLY_S}}
PROGRAM = """
import importlib, json, runpy, sys
for module, limits in json.loads(sys.argv.pop(1)).items():
    vars(importlib.import_module(module)).update(limits)
sys.argv[0] = "llm-platform"
runpy.run_module("modules.llm_platform", run_name="__main__")
"""


def patient(*limits: Limits) -> tuple[str, ...]:
    """Return the first words of the command line."""
    return (
        sys.executable,
        "-c",
        PROGRAM,
        json.dumps({module: dict(limit[module]) for limit in limits for module in limit}),
    )
