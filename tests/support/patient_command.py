"""The command `llm-platform` with longer time limits than its users have, for services on a busy machine.

    run_forked(patient(REDIS_LIMITS), "doctor", timeout=120)

A reply that comes too late looks as if the service were away, and a test that counts what the service was asked would fail.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.forked_command import COMMAND_LINE

Limits = Mapping[str, Mapping[str, float]]  # constants by module

REPLY_S = 15.0
REDIS_LIMITS: Limits = {
    "modules.llm_platform.infrastructure.redis_client": {"REDIS_TIMEOUT_S": REPLY_S, "CALL_TIMEOUT_S": 2 * REPLY_S},
    "modules.llm_platform.infrastructure.cache.redis": {"LOCAL_TTL_S": 600.0},  # a test may repeat a request much later
}
CHECK_LIMITS: Limits = {  # of answers at /v1 and /anthropic
    "modules.llm_platform.wiring.services": {"CHECK_TIMEOUT_S": 4 * REPLY_S},
    "modules.llm_platform.application.services.answer_check_service": {"WARM_UP_TIMEOUT_S": 4 * REPLY_S},
    "modules.llm_platform.presentation.rest.compat.verified_answers": {"MARK_WAIT_S": REPLY_S},
}
KAFKA_LIMITS: Limits = {"modules.llm_platform.presentation.kafka.admin.check": {"QUERY_TIMEOUT_S": 4 * REPLY_S}}


def patient(limits: Limits) -> str:
    """Return the program for `tests.support.forked_command`."""
    changed = {module: dict(constants) for module, constants in limits.items()}
    return f"""
import importlib
for module, constants in {changed!r}.items():
    known = vars(importlib.import_module(module))
    assert constants.keys() <= known.keys(), f"{{module}} has no {{constants.keys() - known.keys()}}"
    known.update(constants)
{COMMAND_LINE}
"""
