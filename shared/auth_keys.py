"""Keys that tokens are checked with: an HS256 secret, a PEM public key or a JWKS; files are read again on change.

A token never chooses its algorithm: each key has exactly one. A file that cannot be used stops the start; later, the
keys read before stay in force and the fault is logged once.
"""

import json
import logging
from pathlib import Path
from typing import Any, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from shared.config import AuthSettings
from shared.config_names import PREFIX, ConfigError
from shared.errors import Unauthenticated
from shared.watched import WatchedFiles

Key = tuple[Any, str]
"""A key and the one algorithm it is used with."""

logger = logging.getLogger(__name__)


class KeySource(Protocol):
    """Where the key for a token comes from."""

    def key_for(self, token: str) -> Key:
        """The key that this token must be signed with. Raises Unauthenticated when there is none."""
        ...

    def current(self) -> object:
        """What is in force: the same object until the keys change."""
        ...


def key_source(settings: AuthSettings) -> KeySource:
    """The source that the settings name. Raises ConfigError when its file cannot be used."""
    if settings.secret is not None:
        return _Fixed((settings.secret.get_secret_value().encode(), "HS256"))
    if settings.public_key_file is not None:
        return _PemFile(settings.public_key_file)
    if settings.jwks_file is not None:
        return _JwksFile(settings.jwks_file)
    raise ConfigError(f"{PREFIX}AUTH__MODE=jwt needs a key")


class _Fixed:
    def __init__(self, key: Key) -> None:
        self._key = key

    def key_for(self, token: str) -> Key:
        del token
        return self._key

    def current(self) -> object:
        return self._key


class _PemFile:
    def __init__(self, path: Path) -> None:
        self._file = WatchedFiles([path], f"{PREFIX}AUTH__PUBLIC_KEY_FILE", _parse_pem)

    def key_for(self, token: str) -> Key:
        del token
        return self._file.value()

    def current(self) -> object:
        return self._file.value()


class _JwksFile:
    def __init__(self, path: Path) -> None:
        self._file = WatchedFiles([path], f"{PREFIX}AUTH__JWKS_FILE", _parse_jwks)

    def key_for(self, token: str) -> Key:
        keys = self._file.value()
        kid = jwt.get_unverified_header(token).get("kid")
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        if not isinstance(kid, str) or kid not in keys:
            raise Unauthenticated("The token's kid names no key of this server.", reason="TOKEN_INVALID")
        return keys[kid]

    def current(self) -> object:
        return self._file.value()


def _with_algorithm(key: object) -> Key:
    if isinstance(key, RSAPublicKey):
        if key.key_size < 2048:
            raise ValueError("an RSA key has at least 2048 bits")
        return key, "RS256"
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return key, "ES256"
    raise ValueError("the key is neither RSA (RS256) nor on the curve P-256 (ES256)")


def _parse_pem(raw: bytes) -> Key:
    try:
        key = load_pem_public_key(raw)
    except ValueError as error:
        raise ValueError("is not a PEM public key (-----BEGIN PUBLIC KEY-----)") from error
    return _with_algorithm(key)


def _parse_jwks(raw: bytes) -> dict[str, Key]:
    """Usable keys by `kid`. Keys for other uses and of other kinds are passed over; none at all is an error."""
    document = json.loads(raw)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError('is not a JWKS ({"keys": [...]})')
    keys: dict[str, Key] = {}
    for entry in listed:
        if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC") or entry.get("use", "sig") != "sig":
            continue
        try:
            key = _with_algorithm(jwt.PyJWK(entry).key)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
            logger.warning("%sAUTH__JWKS_FILE: key %r is passed over: %s", PREFIX, entry.get("kid"), error)
            continue
        if entry.get("alg", key[1]) == key[1]:
            keys[str(entry.get("kid", ""))] = key
    if not keys:
        raise ValueError("has no RSA or P-256 signing key")
    return keys
