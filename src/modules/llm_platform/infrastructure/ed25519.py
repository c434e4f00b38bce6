"""Signatures of sealed answers with Ed25519 (RFC 8032), by the package cryptography."""

from typing import TYPE_CHECKING, Final

from modules.llm_platform.domain.dtos.sealed_dtos import SEAL_PREFIX, Signature
from modules.llm_platform.domain.exceptions import SealConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NOT_INSTALLED: Final = 'SEAL_KEY needs: pip install "llm-platform[seal]"'


class Ed25519Signer:
    """Signs digests with a private key: 32 bytes as 64 hex digits. Raises SealConfigError if the package is not installed."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, digest: str) -> Signature:
        key = self._load()
        value = key.sign(f"{SEAL_PREFIX}{digest}".encode()).hex()
        return Signature(key.public_key().public_bytes_raw().hex(), value)

    def check(self) -> None:
        """Raise SealConfigError if the package that signs is not installed."""
        self._load()

    def _load(self) -> "Ed25519PrivateKey":
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise SealConfigError(NOT_INSTALLED) from error
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(self._key))


def is_signed(digest: str, signature: Signature) -> bool | None:
    """Return whether the signature belongs to the digest; None if the package is not installed."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return None
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.public_key))
        key.verify(bytes.fromhex(signature.value), f"{SEAL_PREFIX}{digest}".encode())
    except (InvalidSignature, ValueError):
        return False
    return True
