"""Signatures with Ed25519: those of RFC 8032, and what happens without the package."""

from __future__ import annotations

import sys

import pytest
from tests.support.sealed_answers import PUBLIC_KEY, SEAL_KEY

from modules.llm_platform.domain.dtos.sealed_dtos import Signature
from modules.llm_platform.domain.exceptions import SealConfigError
from modules.llm_platform.infrastructure.ed25519 import Ed25519Signer, is_signed

DIGEST = "ab" * 32


def test_a_signature_belongs_to_its_digest_and_key() -> None:
    """And to no other, whatever its form."""
    signature = Ed25519Signer(SEAL_KEY)(DIGEST)
    assert signature.public_key == PUBLIC_KEY  # of this private key, by RFC 8032
    assert is_signed(DIGEST, signature)
    assert not is_signed("cd" * 32, signature)
    assert not is_signed(DIGEST, Signature("0" * 64, signature.value))
    assert not is_signed(DIGEST, Signature("no key", signature.value))


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who signs learns what to install; who only checks learns that the signature was not checked."""
    signature = Ed25519Signer(SEAL_KEY)(DIGEST)
    for name in ("cryptography.exceptions", "cryptography.hazmat.primitives.asymmetric.ed25519"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SealConfigError, match=r'pip install "llm-platform\[seal\]"'):
        Ed25519Signer(SEAL_KEY)(DIGEST)
    assert is_signed(DIGEST, signature) is None
