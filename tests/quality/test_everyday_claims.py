"""What blind claims about everyday files say of the checker: the support model accepts more true claims and fewer wrong ones."""

from __future__ import annotations

import asyncio

from scripts.everyday_claims import Verified, read_claims, verify_claims

CLAIMS = 60  # true ones, and as many wrong ones


def count_accepted(found: list[Verified], label: str) -> int:
    return sum(claim["label"] == label and verdict == "supported" for claim, verdict, _ in found)


def test_the_claims_are_as_described() -> None:
    claims = read_claims()
    assert [claim["label"] for claim in claims].count("supported") == CLAIMS == len(claims) / 2


def test_the_support_model_helps_the_words() -> None:
    """Near the figures of docs/reference/success-criteria.md (17 and 10): processors differ a little in eight-bit arithmetic."""
    words, both = (asyncio.run(verify_claims(encoder)) for encoder in ("off", "on"))
    assert (count_accepted(words, "supported"), count_accepted(words, "unsupported")) == (6, 26)
    assert count_accepted(both, "supported") >= 14
    assert count_accepted(both, "unsupported") <= 13
