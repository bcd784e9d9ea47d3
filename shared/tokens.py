"""Opaque, authenticated tokens that callers hand back: page tokens, freshness.

Owns their encryption and their binding; what is inside is the caller's business. AES-256-SIV (RFC 5297): nobody can
read or make one without the key, there is no nonce to run out of, and the same content gives the same token.
"""

import base64
import binascii
import hashlib
import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_VERSION = b"\x01"
_LONGEST = 4096


class BadToken(Exception):
    """The token is not one of ours, is damaged, or was given to someone else or for other arguments."""


class TokenSigner:
    """Seals and opens tokens under one key of at least 32 bytes. All replicas need the same key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError("a token key has at least 32 bytes")
        # A key of its own for this use, 64 bytes as AES-256-SIV wants them.
        self._siv = AESSIV(hmac.new(key, b"palimpsest/tokens/1", hashlib.sha512).digest())

    def sign(self, kind: str, binding: tuple[str, ...], payload: bytes) -> str:
        """A URL-safe token of `payload`, which only `open` with the same kind and binding gives back.

        `binding` is for instance the user id and a hash of the arguments; its parts cannot be confused with each other.
        """
        sealed = self._siv.encrypt(_VERSION + payload, _associated(kind, binding))
        return base64.urlsafe_b64encode(_VERSION + sealed).rstrip(b"=").decode("ascii")

    def open(self, kind: str, binding: tuple[str, ...], token: str) -> bytes:
        """The payload. Raises BadToken, with the same text whatever is wrong."""
        try:
            if len(token) > _LONGEST:
                raise ValueError("too long")
            raw = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
            if raw[:1] != _VERSION:
                raise ValueError("other version")
            return self._siv.decrypt(raw[1:], _associated(kind, binding))[1:]
        except (ValueError, binascii.Error, InvalidTag) as error:
            raise BadToken("the token is not valid here") from error


def _associated(kind: str, binding: tuple[str, ...]) -> list[bytes]:
    parts = [part.encode("utf-8", "surrogatepass") for part in (kind, *binding)]
    return [b"".join(len(part).to_bytes(4, "big") + part for part in parts)]
