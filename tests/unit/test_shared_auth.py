"""Identity by the contract's rules: tokens, keys, act_as, dev mode. No server here."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from shared.addresses import is_loopback
from shared.auth import (
    DEV_SCOPES,
    SCOPES,
    Authenticator,
    Credentials,
    Principal,
    check_dev_mode,
    current_principal,
    mint_dev_token,
    require_scope,
    set_caller,
)
from shared.config import AuthSettings, ConfigError
from shared.errors import PermissionDenied, ServiceError, Unauthenticated

NOW = 1_800_000_000
SECRET = "0123456789abcdef0123456789abcdef"
HS = AuthSettings(mode="jwt", secret=SECRET, issuer="https://issuer")
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def claims(**changes: Any) -> dict[str, Any]:
    """Good claims with changes; a value of None takes the claim out."""
    good = {"sub": "alice", "aud": "palimpsest", "iss": "https://issuer", "exp": NOW + 60, "scope": "memory:read"}
    return {key: value for key, value in (good | changes).items() if value is not None}


def token(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=headers)


def authenticate(settings: AuthSettings, *metadata: tuple[str, str | bytes]) -> Principal:
    return Authenticator(settings, clock=lambda: NOW).authenticate(metadata)[0]


def bearer(text: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {text}")


def refusal(settings: AuthSettings, *metadata: tuple[str, str | bytes]) -> ServiceError:
    with pytest.raises((Unauthenticated, PermissionDenied)) as caught:
        authenticate(settings, *metadata)
    return caught.value


def pem(key: Any) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_good_token_names_the_user_and_the_rights():
    principal = authenticate(HS, bearer(token(scope="memory:read memory:write", shards=["TRANSACTION"])))
    assert principal == Principal(
        "alice", "alice", frozenset({"memory:read", "memory:write"}), frozenset({"TRANSACTION"}), float(NOW + 60)
    )


def test_absent_shards_are_all_and_an_empty_list_is_none():
    assert authenticate(HS, bearer(token())).shards is None
    assert authenticate(HS, bearer(token(shards=[]))).shards == frozenset()
    assert authenticate(HS, bearer(token(shards=["NOT_YET_INVENTED"]))).shards == frozenset({"NOT_YET_INVENTED"})


def test_without_scope_there_are_no_rights():
    assert authenticate(HS, bearer(token(scope=None))).scopes == frozenset()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW - 31}, "TOKEN_EXPIRED"),
        ({"exp": NOW - 30}, "TOKEN_EXPIRED"),
        ({"nbf": NOW + 31}, "TOKEN_NOT_YET_VALID"),
        ({"aud": "other"}, "AUDIENCE_MISMATCH"),
        ({"aud": ["other", "another"]}, "AUDIENCE_MISMATCH"),
        ({"aud": []}, "CLAIM_MISSING"),
        ({"iss": "https://other"}, "ISSUER_MISMATCH"),
        ({"iss": "https"}, "ISSUER_MISMATCH"),
        ({"iss": None}, "CLAIM_MISSING"),
        ({"sub": None}, "CLAIM_MISSING"),
        ({"exp": None}, "CLAIM_MISSING"),
        ({"aud": None}, "CLAIM_MISSING"),
        ({"sub": ""}, "CLAIM_INVALID"),
        ({"exp": "soon"}, "CLAIM_INVALID"),
        ({"exp": True}, "CLAIM_INVALID"),
        ({"exp": float("inf")}, "CLAIM_INVALID"),
        ({"exp": float("nan")}, "CLAIM_INVALID"),
        ({"nbf": "yesterday"}, "CLAIM_INVALID"),
        ({"scope": ["memory:read"]}, "CLAIM_INVALID"),
        ({"shards": "TRANSACTION"}, "CLAIM_INVALID"),
        ({"shards": [1]}, "CLAIM_INVALID"),
        ({"shards": {}}, "CLAIM_INVALID"),
        ({"sub": "al ice"}, "USER_ID_INVALID"),
        ({"sub": "爱丽丝"}, "USER_ID_INVALID"),
        ({"sub": "a" * 129}, "USER_ID_INVALID"),
        ({"sub": "alice\n"}, "USER_ID_INVALID"),
    ],
)
def test_a_token_that_is_not_good_is_refused(changes, reason):
    error = refusal(HS, bearer(token(**changes)))
    assert isinstance(error, Unauthenticated)
    assert error.reason == reason


def test_null_shards_are_not_absent_shards():
    raw = jwt.encode(claims() | {"shards": None}, SECRET, algorithm="HS256")
    assert refusal(HS, bearer(raw)).reason == "CLAIM_INVALID"


@pytest.mark.parametrize(
    "changes", [{"exp": NOW - 29}, {"nbf": NOW + 30}, {"iat": NOW + 9999}, {"aud": ["x", "palimpsest"]}]
)
def test_what_the_leeway_forgives(changes):
    assert authenticate(HS, bearer(token(**changes))).user_id == "alice"


def test_an_issuer_is_asked_for_only_where_one_is_configured():
    settings = AuthSettings(mode="jwt", secret=SECRET)
    assert authenticate(settings, bearer(token(iss=None))).user_id == "alice"
    assert authenticate(settings, bearer(token(iss="https://anyone"))).user_id == "alice"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YWxpY2U6cHc=",
        "Bearer not.a.token",
        "Bearer " + "é" * 5,
        "Bearer ..",
        b"\xff\xfe",
    ],
)
def test_without_a_token_nobody_is_known(header):
    metadata = () if header is None else (("authorization", header),)
    assert isinstance(refusal(HS, *metadata), Unauthenticated)


def test_the_scheme_is_case_insensitive():
    assert authenticate(HS, ("authorization", f"bearer  {token()}")).user_id == "alice"


def test_other_secrets_unsigned_tokens_and_other_algorithms_are_refused():
    for bad in (
        token("another secret of at least 32 bytes!"),
        token("", "none"),
        token("0" * 64, "HS512"),
        token(RSA_KEY, "RS256"),
        token()[:-2] + "AA",
    ):
        assert refusal(HS, bearer(bad)).reason == "TOKEN_INVALID"


@pytest.mark.parametrize(("key", "algorithm", "other"), [(RSA_KEY, "RS256", "PS256"), (EC_KEY, "ES256", None)])
def test_a_public_key_means_one_algorithm(tmp_path: Path, key, algorithm, other):
    (tmp_path / "key.pem").write_bytes(pem(key))
    settings = AuthSettings(mode="jwt", public_key_file=tmp_path / "key.pem")
    assert authenticate(settings, bearer(token(key, algorithm))).user_id == "alice"
    assert refusal(settings, bearer(token())).reason == "TOKEN_INVALID"
    if other:
        assert refusal(settings, bearer(token(key, other))).reason == "TOKEN_INVALID"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not a key", "PEM public key"),
        (pem(rsa.generate_private_key(65537, 1024)), "2048"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "P-256"),
        (None, "cannot read"),
    ],
)
def test_a_key_file_that_cannot_be_used_stops_the_start(tmp_path: Path, content, said):
    path = tmp_path / "key.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        Authenticator(AuthSettings(mode="jwt", public_key_file=path))


def test_a_key_file_is_read_again_when_it_changes(tmp_path: Path, caplog):
    path = tmp_path / "key.pem"
    path.write_bytes(pem(RSA_KEY))
    authenticator = Authenticator(AuthSettings(mode="jwt", public_key_file=path), clock=lambda: NOW)
    old, new = bearer(token(RSA_KEY, "RS256")), bearer(token(EC_KEY, "ES256"))
    assert authenticator.authenticate([old])[0].user_id == "alice"
    with caplog.at_level(logging.ERROR):
        path.write_bytes(b"half")
        for _ in range(3):
            assert authenticator.authenticate([old])[0].user_id == "alice"
    assert len(caplog.records) == 1
    path.unlink()
    assert authenticator.authenticate([old])[0].user_id == "alice"
    path.write_bytes(pem(EC_KEY))
    assert authenticator.authenticate([new])[0].user_id == "alice"
    with pytest.raises(Unauthenticated):
        authenticator.authenticate([old])


def jwks(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": list(keys)})


def test_a_jwks_is_chosen_from_by_kid(tmp_path: Path):
    path = tmp_path / "jwks.json"
    one = {**json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())), "kid": "r1", "use": "sig"}
    two = {**json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())), "kid": "e1", "alg": "ES256"}
    shared_secret = {"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY", "kid": "o1"}
    encryption = {**one, "kid": "enc", "use": "enc"}
    for key in (one, two, encryption):
        key.pop("key_ops", None)
    path.write_text(jwks(one, two, shared_secret, encryption, {"kty": "RSA", "kid": "broken"}))
    settings = AuthSettings(mode="jwt", jwks_file=path)
    assert authenticate(settings, bearer(token(RSA_KEY, "RS256", {"kid": "r1"}))).user_id == "alice"
    assert authenticate(settings, bearer(token(EC_KEY, "ES256", {"kid": "e1"}))).user_id == "alice"
    for key, algorithm, headers in (
        (RSA_KEY, "RS256", {"kid": "e1"}),
        (RSA_KEY, "RS256", {"kid": "enc"}),
        (RSA_KEY, "RS256", None),
        (SECRET, "HS256", {"kid": "o1"}),
    ):
        assert refusal(settings, bearer(token(key, algorithm, headers))).reason == "TOKEN_INVALID"
    path.write_text(jwks(two))
    assert authenticate(settings, bearer(token(EC_KEY, "ES256"))).user_id == "alice"


@pytest.mark.parametrize("content", ["[]", "{}", "nonsense", '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'])
def test_a_jwks_without_a_usable_key_stops_the_start(tmp_path: Path, content):
    (tmp_path / "jwks.json").write_text(content)
    with pytest.raises(ConfigError, match="JWKS_FILE"):
        Authenticator(AuthSettings(mode="jwt", jwks_file=tmp_path / "jwks.json"))


# Acting as somebody


def act_as(named: str, **changes: Any) -> Principal:
    return authenticate(
        HS, bearer(token(sub="backend one!", scope="act_as memory:write", **changes)), ("x-user-id", named)
    )


def test_a_trusted_backend_names_the_user_and_gets_no_other_scope():
    principal = act_as("bob", act_as_prefix=None)
    assert (principal.user_id, principal.subject) == ("bob", "backend one!")
    assert principal.scopes == frozenset({"act_as", "memory:write"})


def test_a_trusted_backend_that_names_nobody_is_itself():
    principal = authenticate(HS, bearer(token(sub="backend", scope="act_as", act_as_prefix="app/")))
    assert (principal.user_id, principal.subject) == ("backend", "backend")


def test_the_prefix_limits_whom():
    assert act_as("app/bob", act_as_prefix="app/").user_id == "app/bob"
    for named in ("bob", "App/bob", "application/bob"):
        with pytest.raises(PermissionDenied) as caught:
            act_as(named, act_as_prefix="app/")
        assert caught.value.reason == "ACT_AS_PREFIX"
    for broken in ("", 7, ["app/"]):
        with pytest.raises(Unauthenticated):
            act_as("app/bob", act_as_prefix=broken)


def test_naming_a_user_without_the_scope_is_denied_and_not_ignored():
    for named in ("bob", "alice", "not a user id"):
        error = refusal(HS, bearer(token()), ("x-user-id", named))
        assert isinstance(error, PermissionDenied)
        assert error.reason == "ACT_AS_REQUIRED"
    assert isinstance(refusal(HS, bearer(token(exp=NOW - 60)), ("x-user-id", "bob")), Unauthenticated)


def test_repeated_headers_are_refused_in_both_modes():
    good = bearer(token(scope="act_as"))
    assert refusal(HS, good, good).reason == "HEADER_REPEATED"
    assert refusal(HS, good, ("x-user-id", "bob"), ("x-user-id", "bob")).reason == "HEADER_REPEATED"
    assert refusal(AuthSettings(), ("x-user-id", "a"), ("x-user-id", "b")).reason == "HEADER_REPEATED"


BAD_IDS = ["", " ", "a b", "a\n", "\na", "a\0", "用户", "a" * 129, "a;b", 'a") or true or ("', "é", "a%", "ａ", b"\xff"]


@pytest.mark.parametrize("named", BAD_IDS)
def test_bad_user_ids_are_refused_with_the_rule(named):
    for error in (
        refusal(AuthSettings(), ("x-user-id", named)),
        refusal(HS, bearer(token(scope="act_as")), ("x-user-id", named)),
    ):
        assert isinstance(error, Unauthenticated)
        assert error.reason == "USER_ID_INVALID"
        assert "1 to 128 characters of A-Z a-z 0-9 . _ : @ + = / | -" in error.message


@pytest.mark.parametrize("named", ["a", "A", "a" * 128, "app/agent/user", "o|1", "a+b@c.d", "x=y", "..", "u:1-2_3"])
def test_good_user_ids_pass_unchanged(named):
    assert authenticate(AuthSettings(), ("x-user-id", named)).user_id == named


@given(st.text(max_size=140))
def test_a_user_id_is_exactly_what_the_rule_says(named):
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@+=/|-")
    good = 1 <= len(named) <= 128 and set(named) <= allowed
    try:
        assert authenticate(AuthSettings(), ("x-user-id", named)).user_id == named
        assert good
    except Unauthenticated:
        assert not good


# Dev mode


def test_dev_mode_takes_the_header_and_gives_all_but_two_scopes():
    principal = authenticate(AuthSettings(), ("x-user-id", "alice"))
    assert principal == Principal("alice", "alice", DEV_SCOPES)
    assert SCOPES - principal.scopes == {"act_as", "memory:pii"}
    assert refusal(AuthSettings()).reason == "CREDENTIALS_MISSING"


@pytest.mark.parametrize(
    ("listen", "calls", "environ", "allowed"),
    [
        (["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/tmp/x"], [], {}, True),
        (["127.0.0.1:1"], ["127.0.0.2:5", "dns:///localhost:5", "ipv4:127.0.0.1:5"], {}, True),
        (["0.0.0.0:1"], [], {}, False),
        (["[::]:1"], [], {}, False),
        ([":1"], [], {}, False),
        (["127.0.0.1:1", "192.168.1.2:1"], [], {}, False),
        (["127.0.0.1:1"], ["memory:50051"], {}, False),
        (["127.0.0.1:1"], ["localhost.evil.example:1"], {}, False),
        (["127.0.0.1:1"], ["127.0.0.1.evil.example:1"], {}, False),
        (["127.0.0.1:1"], [], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
    ],
)
def test_dev_mode_is_for_loopback_only(listen, calls, environ, allowed):
    if allowed:
        check_dev_mode(AuthSettings(), listen=listen, calls=calls, environ=environ)
    else:
        with pytest.raises(ConfigError, match="refused"):
            check_dev_mode(AuthSettings(), listen=listen, calls=calls, environ=environ)
    check_dev_mode(HS, listen=listen, calls=calls, environ=environ)


@pytest.mark.parametrize(
    "address", ["127.1:1", "2130706433:1", "example.com:1", "", "localhost", "dns:///127.0.0.1.nip.io:1"]
)
def test_what_cannot_be_told_is_not_loopback(address):
    assert not is_loopback(address)


# Scopes, tokens for trying out


def test_scopes_are_required_of_the_current_caller():
    with pytest.raises(Unauthenticated):
        current_principal()
    set_caller(Principal("alice", "alice", frozenset({"memory:read"})), Credentials())
    assert require_scope("memory:read").user_id == "alice"
    with pytest.raises(PermissionDenied) as caught:
        require_scope("memory:admin")
    assert caught.value.metadata == {"scope": "memory:admin"}


def test_minted_tokens_are_accepted_as_they_were_asked_for():
    made = mint_dev_token(
        HS, sub="backend", scopes=["act_as", "memory:read"], ttl=60, shards=["GENERAL"], act_as_prefix="app/", now=NOW
    )
    principal = authenticate(HS, bearer(made), ("x-user-id", "app/bob"))
    assert principal == Principal(
        "app/bob", "backend", frozenset({"act_as", "memory:read"}), frozenset({"GENERAL"}), float(NOW + 60)
    )
    elsewhere = mint_dev_token(HS, sub="a", scopes=[], ttl=60, audience="elsewhere", now=NOW)
    assert refusal(HS, bearer(elsewhere)).reason == "AUDIENCE_MISMATCH"
    with pytest.raises(ConfigError, match="PALIMPSEST_AUTH__SECRET"):
        mint_dev_token(AuthSettings(), sub="a", scopes=[], ttl=60)


def test_the_wall_clock_is_the_default():
    made = mint_dev_token(HS, sub="alice", scopes=[], ttl=60)
    assert Authenticator(HS).authenticate([bearer(made)])[0].expires_at == pytest.approx(time.time() + 60, abs=5)


def test_credentials_do_not_show_in_a_log():
    assert "secret-token" not in repr(Credentials("Bearer secret-token", "alice"))


def test_a_token_seen_before_still_expires_and_falls_with_its_key(tmp_path: Path):
    path, now = tmp_path / "key.pem", [float(NOW)]
    path.write_bytes(pem(RSA_KEY))
    authenticator = Authenticator(AuthSettings(mode="jwt", public_key_file=path), clock=lambda: now[0])
    seen = bearer(token(RSA_KEY, "RS256"))
    for _ in range(2):
        assert authenticator.authenticate([seen])[0].user_id == "alice"
    now[0] = NOW + 90
    with pytest.raises(Unauthenticated) as caught:
        authenticator.authenticate([seen])
    assert caught.value.reason == "TOKEN_EXPIRED"
    now[0] = NOW
    path.write_bytes(pem(rsa.generate_private_key(65537, 2048)))
    with pytest.raises(Unauthenticated) as caught:
        authenticator.authenticate([seen])
    assert caught.value.reason == "TOKEN_INVALID"


def test_many_tokens_are_checked_and_forgotten():
    authenticator = Authenticator(HS, clock=lambda: NOW)
    for number in range(1100):
        assert authenticator.authenticate([bearer(token(sub=f"u{number}"))])[0].user_id == f"u{number}"
    assert len(authenticator._seen) == 1024
