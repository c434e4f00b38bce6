"""Ed25519 signatures: the vectors of RFC 8032, and the behaviour without the package."""

from __future__ import annotations

import sys

import pytest

from modules.llm_platform.domain.dtos.sealed_dtos import Signature
from modules.llm_platform.domain.exceptions import SealConfigError
from modules.llm_platform.infrastructure.ed25519 import Ed25519Signer, is_signed

SEAL_KEY = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"  # RFC 8032, 7.1, test 1
PUBLIC_KEY = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
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
    """Signing reports what to install. Checking reports that the signature was not checked."""
    signature = Ed25519Signer(SEAL_KEY)(DIGEST)
    for name in ("cryptography.exceptions", "cryptography.hazmat.primitives.asymmetric.ed25519"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SealConfigError, match=r'pip install "llm-platform\[seal\]"'):
        Ed25519Signer(SEAL_KEY)(DIGEST)
    assert is_signed(DIGEST, signature) is None
