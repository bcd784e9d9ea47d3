"""Who calls, and what they may do. The contract's rules on identity, and nothing about gRPC.

Owns the reading of credentials (bearer tokens, `x-user-id`), the `Principal` they establish, and the check of scopes.
What a scope or a shard protects is the use case's business. Keys are `auth_keys`'.
"""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import jwt

from shared.addresses import is_loopback
from shared.auth_keys import KeySource, key_source
from shared.config import AuthSettings, ConfigError
from shared.errors import PermissionDenied, Unauthenticated

SCOPES = frozenset(
    {
        "memory:read",
        "memory:write",
        "memory:privacy",
        "memory:pii",
        "memory:identity",
        "identity:verify",
        "memory:admin",
        "act_as",
    }
)
DEV_SCOPES = SCOPES - {"act_as", "memory:pii"}
USER_ID_RULE = "a user id is 1 to 128 characters of A-Z a-z 0-9 . _ : @ + = / | -"
_REMEMBERED = 1024  # tokens; at most 8 MiB of them, as headers end at 8 KiB
_USER_ID = re.compile(r"[A-Za-z0-9._:@+=/|\-]{1,128}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a call is made, and with which rights."""

    user_id: str
    """Whose memories: the token's subject, or whom it acts as."""
    subject: str
    """Who calls; differs from `user_id` for a trusted backend."""
    scopes: frozenset[str]
    shards: frozenset[str] | None = None
    """Names such as TRANSACTION that the caller is restricted to; None: all, empty: none. A name that no shard has
    grants nothing; it is no error, so that a token may name a shard that only newer servers know."""
    expires_at: float | None = None
    """Seconds since 1970; None: does not expire."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The headers that established the principal, for passing on to another Palimpsest server."""

    authorization: str | None = field(default=None, repr=False)
    user_id: str | None = None


_principal: ContextVar[Principal | None] = ContextVar("palimpsest_principal", default=None)
_credentials: ContextVar[Credentials | None] = ContextVar("palimpsest_credentials", default=None)


def current_principal() -> Principal:
    """The caller of the call in progress. Raises Unauthenticated outside of one."""
    principal = _principal.get()
    if principal is None:
        raise Unauthenticated("There is no authenticated caller.", reason="CREDENTIALS_MISSING")
    return principal


def current_credentials() -> Credentials | None:
    """The headers the caller came with; None outside of a call."""
    return _credentials.get()


def set_caller(principal: Principal, credentials: Credentials) -> None:
    """Sets both for the current task and what it starts."""
    _principal.set(principal)
    _credentials.set(credentials)


def require_scope(name: str) -> Principal:
    """The caller, who has that scope. Raises PermissionDenied."""
    principal = current_principal()
    if name not in principal.scopes:
        raise PermissionDenied(f"This needs the scope {name}.", reason="SCOPE_MISSING", metadata={"scope": name})
    return principal


class Authenticator:
    """Turns a call's headers into a Principal by the rules of the configured mode.

    Raises ConfigError at construction when a key cannot be used.
    """

    def __init__(self, settings: AuthSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._seen: dict[str, tuple[object, Mapping[str, Any]]] = {}
        self._keys: KeySource | None = key_source(settings) if settings.mode == "jwt" else None

    def authenticate(self, metadata: Iterable[tuple[str, str | bytes]]) -> tuple[Principal, Credentials]:
        """The caller. Raises Unauthenticated or PermissionDenied, whose texts say what to send."""
        authorization, user_id = _headers(metadata)
        if self._keys is None:
            if user_id is None:
                raise Unauthenticated(
                    "Name the user in the header x-user-id (this server runs with dev authentication).",
                    reason="CREDENTIALS_MISSING",
                )
            return Principal(_checked_user(user_id), user_id, DEV_SCOPES), Credentials(user_id=user_id)
        principal = _principal_of(self._claims(self._keys, authorization), user_id)
        return principal, Credentials(authorization, user_id)

    def _claims(self, keys: KeySource, authorization: str | None) -> Mapping[str, Any]:
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("Send the header authorization: Bearer <token>.", reason="CREDENTIALS_MISSING")
        claims = self._verified(keys, token)
        now, leeway = self._clock(), self.settings.leeway_seconds
        if _time(claims, "exp") <= now - leeway:
            raise _refused("TOKEN_EXPIRED", "The token has expired.")
        if "nbf" in claims and _time(claims, "nbf") > now + leeway:
            raise _refused("TOKEN_NOT_YET_VALID", "The token is not valid yet.")
        return claims

    def _verified(self, keys: KeySource, token: str) -> Mapping[str, Any]:
        """The claims of a token whose signature, audience and issuer are right. Remembers those of the current keys,
        because a caller sends the same token many times and a check costs a tenth of a millisecond or two."""
        current = keys.current()
        known = self._seen.get(token)
        if known is not None and known[0] is current:
            return known[1]
        claims = self._decoded(keys, token)
        while len(self._seen) >= _REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        self._seen[token] = (current, claims)
        return claims

    def _decoded(self, keys: KeySource, token: str) -> Mapping[str, Any]:
        try:
            key, algorithm = keys.key_for(token)
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                # Times are checked at each use: with the given clock, and for values that PyJWT would stumble over.
                options={
                    "require": ["sub", "exp", "aud"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_iss": self.settings.issuer is not None,
                },
            )
        except jwt.MissingRequiredClaimError as error:
            raise _refused("CLAIM_MISSING", f"The token has no {error.claim}.") from error
        except jwt.InvalidAudienceError as error:
            raise _refused("AUDIENCE_MISMATCH", f"The token is not for audience {self.settings.audience}.") from error
        except jwt.InvalidIssuerError as error:
            raise _refused("ISSUER_MISMATCH", "The token is not from the expected issuer.") from error
        except Unauthenticated:
            raise
        except Exception as error:  # whatever a crafted token makes the decoder stumble over, it is not accepted
            raise _refused("TOKEN_INVALID", "The token is not a valid token of this server's key.") from error
        return claims


def _principal_of(claims: Mapping[str, Any], named: str | None) -> Principal:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= 256:
        raise _refused("CLAIM_INVALID", "The token's sub is not a text of 1 to 256 characters.")
    scopes = claims.get("scope", "")
    if not isinstance(scopes, str):
        raise _refused("CLAIM_INVALID", "The token's scope is not a text of scopes separated by blanks.")
    granted = frozenset(scopes.split())
    user = subject
    if named is not None:
        if "act_as" not in granted:
            raise PermissionDenied(
                "The header x-user-id needs a token with the scope act_as.",
                reason="ACT_AS_REQUIRED",
                metadata={"scope": "act_as"},
            )
        prefix = claims.get("act_as_prefix")
        if prefix is not None and (not isinstance(prefix, str) or not prefix):
            raise _refused("CLAIM_INVALID", "The token's act_as_prefix is not a text of at least one character.")
        user = _checked_user(named)
        if prefix is not None and not user.startswith(prefix):
            raise PermissionDenied("The token may not act as this user.", reason="ACT_AS_PREFIX")
    return Principal(
        user_id=_checked_user(user),
        subject=subject,
        scopes=granted,
        shards=_shards(claims),
        expires_at=_time(claims, "exp"),
    )


def _shards(claims: Mapping[str, Any]) -> frozenset[str] | None:
    """None only where the claim is absent: anything malformed is refused, so that a mistake never means "all"."""
    if "shards" not in claims:
        return None
    names = claims["shards"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _refused("CLAIM_INVALID", "The token's shards is not a list of names, such as TRANSACTION.")
    return frozenset(names)


def _time(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _refused("CLAIM_INVALID", f"The token's {name} is not a time in seconds since 1970.")
    return float(value)


def _checked_user(user_id: str) -> str:
    if _USER_ID.fullmatch(user_id) is None:
        raise Unauthenticated(f"The user id is not valid: {USER_ID_RULE}.", reason="USER_ID_INVALID")
    return user_id


def _headers(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str | None, str | None]:
    """`authorization` and `x-user-id`, each at most once: of two, nobody can say which a proxy in between checked."""
    found: dict[str, str] = {}
    for key, value in metadata:
        if key not in ("authorization", "x-user-id"):
            continue
        if key in found:
            raise _refused("HEADER_REPEATED", f"The header {key} is there more than once.")
        found[key] = value.decode("latin-1") if isinstance(value, bytes) else value
    return found.get("authorization"), found.get("x-user-id")


def _refused(reason: str, message: str) -> Unauthenticated:
    return Unauthenticated(message, reason=reason)


def check_dev_mode(
    settings: AuthSettings, *, listen: Sequence[str], calls: Sequence[str], environ: Mapping[str, str] = os.environ
) -> None:
    """Refuses dev mode where anybody but this machine's user could reach it; warns where it is allowed.

    `listen` are the addresses served, `calls` those of Palimpsest servers that credentials are passed on to. Raises
    ConfigError.
    """
    if settings.mode != "dev":
        return
    remedy = "set PALIMPSEST_AUTH__MODE=jwt and a key"
    if "KUBERNETES_SERVICE_HOST" in environ:
        raise ConfigError(f"PALIMPSEST_AUTH__MODE=dev is refused inside Kubernetes: anybody could be anyone; {remedy}")
    for address in (*listen, *calls):
        if not is_loopback(address):
            raise ConfigError(
                f"PALIMPSEST_AUTH__MODE=dev is refused with {address}, which is not loopback: anybody could be anyone; "
                f"{remedy}, or use 127.0.0.1"
            )
    logger.warning("dev authentication: whoever reaches this machine's loopback is whoever x-user-id says")


def mint_dev_token(
    settings: AuthSettings,
    *,
    sub: str,
    scopes: Iterable[str],
    ttl: float,
    audience: str | None = None,
    shards: Iterable[str] | None = None,
    act_as_prefix: str | None = None,
    now: float | None = None,
) -> str:
    """An HS256 token of the configured secret, for trying things out. `ttl` in seconds. ConfigError without one."""
    if settings.secret is None:
        raise ConfigError("PALIMPSEST_AUTH__SECRET is not set; tokens are made from an HS256 secret only")
    issued = time.time() if now is None else now
    claims: dict[str, Any] = {
        "sub": sub,
        "aud": audience or settings.audience,
        "iat": int(issued),
        "exp": math.ceil(issued + ttl),
        "scope": " ".join(scopes),
    }
    if settings.issuer is not None:
        claims["iss"] = settings.issuer
    if shards is not None:
        claims["shards"] = list(shards)
    if act_as_prefix is not None:
        claims["act_as_prefix"] = act_as_prefix
    return jwt.encode(claims, settings.secret.get_secret_value(), algorithm="HS256")
