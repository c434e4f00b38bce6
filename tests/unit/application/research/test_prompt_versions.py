"""A prompt that changes without its version would leave answers of the old one in caches and stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from modules.llm_platform.application.research import answer_prompt, plan, verification
from modules.llm_platform.application.research.report import queries, rank, summarize

DIGESTS = Path(__file__).parent / "prompt_digests.json"  # by the name of the version and its value
CHANGED = (
    'The prompts of {name} have changed: raise {name}, and add its new value with the digest "{digest}" to {file}. '
    "The line of a version that was used stays as it is."
)

# The version and the texts of its prompts.
PROMPTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "PROMPT_VERSION": (
        answer_prompt.PROMPT_VERSION,
        (
            answer_prompt._ANSWER_RULES,
            answer_prompt._REPORT_RULES,
            answer_prompt._ANSWER_INSTRUCTIONS,
            answer_prompt._REPORT_INSTRUCTIONS,
        ),
    ),
    "PLAN_VERSION": (plan.PLAN_VERSION, (plan.PROMPT, plan.REPORT_PROMPT, plan._REJECTED)),
    "QUERIES_VERSION": (queries.QUERIES_VERSION, (queries.PROMPT, queries._VARIETY)),
    "RANK_VERSION": (rank.RANK_VERSION, (rank.RULES,)),
    "SUMMARY_VERSION": (summarize.SUMMARY_VERSION, (summarize.RULES, summarize._SHORT, summarize._LONG)),
    "JUDGE_VERSION": (verification.JUDGE_VERSION, (verification.RULES,)),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_changed_prompt_has_a_new_version(name: str) -> None:
    """The digest of the texts is the one that was recorded for the version."""
    version, texts = PROMPTS[name]
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    recorded = json.loads(DIGESTS.read_text())[name]
    assert recorded.get(version) == digest, CHANGED.format(name=name, digest=digest, file=DIGESTS.name)
