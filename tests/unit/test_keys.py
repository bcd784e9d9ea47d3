"""Key-encryption keys: the file is made once, for its owner alone, and what cannot be used is said in words."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from memory_service.adapters.keys import (
    KeyFileError,
    LocalKeyProvider,
    add_key,
    make_key_file,
    parse_keys,
    read_key_file,
)
from memory_service.ports import KeyMissing

K1, K2 = b"1" * 32, b"2" * 32
DATA_KEY = bytes(range(32))


def b64(key: bytes) -> str:
    return base64.b64encode(key).decode()


def test_a_wrapped_key_opens_under_its_key_and_context() -> None:
    keys = LocalKeyProvider({"k1": K1}, "k1")
    wrapped = keys.wrap(DATA_KEY, b"u1")
    assert keys.unwrap("k1", wrapped, b"u1") == DATA_KEY
    assert keys.wrap(DATA_KEY, b"u1") != wrapped
    assert DATA_KEY not in wrapped
    assert len(wrapped) <= 255, "what the record's column takes"


@pytest.mark.parametrize("case", ["context", "key", "byte", "cut", "empty"])
def test_what_was_not_wrapped_so_is_a_value_error(case: str) -> None:
    keys = LocalKeyProvider({"k1": K1, "k2": K2}, "k1")
    wrapped = keys.wrap(DATA_KEY, b"u1")
    changed = {"byte": wrapped[:-1] + bytes([wrapped[-1] ^ 1]), "cut": wrapped[:5], "empty": b""}.get(case, wrapped)
    with pytest.raises(ValueError):  # noqa: PT011
        keys.unwrap("k2" if case == "key" else "k1", changed, b"u2" if case == "context" else b"u1")


def test_several_keys_open_and_the_current_one_wraps() -> None:
    old = LocalKeyProvider({"k1": K1}, "k1").wrap(DATA_KEY, b"c")
    both = LocalKeyProvider({"k1": K1, "k2": K2}, "k2")
    assert both.current == "k2"
    assert both.unwrap("k1", old, b"c") == DATA_KEY
    assert both.unwrap("k2", both.wrap(DATA_KEY, b"c"), b"c") == DATA_KEY
    assert (both.holds("k1"), both.holds("k2"), both.holds("k3")) == (True, True, False)


def test_a_key_that_is_not_held_is_missing_by_name() -> None:
    with pytest.raises(KeyMissing, match="key k9 is missing") as caught:
        LocalKeyProvider({"k1": K1}, "k1").unwrap("k9", b"x" * 60, b"c")
    assert caught.value.kek_id == "k9"


@pytest.mark.parametrize(
    ("keys", "current", "says"),
    [
        ({"k1": b64(K1)}, "k2", "the current key 'k2' is not among the keys (k1)"),
        ({}, "k1", "none"),
        ({"k1": b64(b"short")}, "k1", "key 'k1' has 5 bytes, it must have 32"),
        ({"k1": "not base64!"}, "k1", "not base64"),
        ({"k1": "钥匙"}, "k1", "not base64"),
        ({"k" * 65: b64(K1)}, "k" * 65, "65 characters, it must have 1 to 64"),
        ({"": b64(K1)}, "", "0 characters"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_in_words(keys: dict[str, str], current: str, says: str) -> None:
    with pytest.raises(KeyFileError) as caught:
        parse_keys(keys, current)
    assert says in str(caught.value)


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "keys.json"
    before = os.umask(0)
    try:
        made = make_key_file(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.current == "k1"
    wrapped = made.wrap(DATA_KEY, b"c")
    content = path.read_bytes()
    with pytest.raises(FileExistsError):
        make_key_file(path)
    assert path.read_bytes() == content, "never made anew"
    assert read_key_file(path).unwrap("k1", wrapped, b"c") == DATA_KEY


def test_two_files_have_different_keys(tmp_path: Path) -> None:
    first, second = make_key_file(tmp_path / "a"), make_key_file(tmp_path / "b")
    with pytest.raises(ValueError, match="was not wrapped with it"):
        second.unwrap("k1", first.wrap(DATA_KEY, b"c"), b"c")


@pytest.mark.parametrize("name", ["keys.json", "keys", "keys.new", ".new"])
def test_a_key_is_added_and_the_old_ones_stay(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    wrapped = make_key_file(path).wrap(DATA_KEY, b"c")
    assert [add_key(path), add_key(path)] == ["k2", "k3"]
    keys = read_key_file(path)
    assert keys.current == "k3"
    assert keys.unwrap("k1", wrapped, b"c") == DATA_KEY
    assert keys.holds("k2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir()] == [name], "nothing is left lying about"


def test_adding_a_key_never_leaves_the_place_of_the_file_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between any two steps leaves a key file with every key that wraps data."""
    path = tmp_path / "keys.new"
    make_key_file(path)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "urandom", lambda n: b"9" * n)
    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        add_key(path)
    monkeypatch.undo()
    assert read_key_file(path).current == "k1"
    assert add_key(path) == "k2", "what the crash left does not stand in the way"


@pytest.mark.parametrize("step", ["make", "add"])
def test_the_name_of_the_file_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "keys.json"
    if step == "add":
        make_key_file(path)
    synced: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode) and path.exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    if step == "add":
        add_key(path)
    else:
        make_key_file(path)
    assert synced[0] is False, "first its content"
    assert synced[-1] is True, "last its place in the folder"


def test_added_keys_take_the_next_free_name(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"current": "mine", "keys": {"mine": b64(K1), "k1": b64(K2)}}))
    assert add_key(path) == "k2"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "1",
        '{"keys": {}}',
        '{"current": "k1", "keys": []}',
        '{"current": "k1", "keys": {"k1": 5}}',
        '{"current": "k1", "keys": {"k1": null}}',
        '{"current": ["k1"], "keys": {"k1": ""}}',
        "\udcff",
    ],
)
def test_a_file_that_is_no_key_file_is_refused_with_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    for use in (read_key_file, add_key):
        with pytest.raises(KeyFileError, match="keys"):
            use(path)


def test_a_missing_file_is_refused_not_made(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for use in (read_key_file, add_key):
        with pytest.raises(KeyFileError, match="keys"):
            use(path)
    assert not path.exists()


def test_errors_never_show_a_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"current": "k2", "keys": {"k1": b64(K1)}}))
    with pytest.raises(KeyFileError) as caught:
        read_key_file(path)
    assert b64(K1) not in str(caught.value)


def test_a_key_that_was_added_meanwhile_is_read_from_the_file(tmp_path: Path) -> None:
    """`keys rotate` while a server runs: what it wrapped with the new key must open there without a restart."""
    path = tmp_path / "keys.json"
    running = make_key_file(path)
    name = add_key(path)
    wrapped = read_key_file(path).wrap(b"d" * 32, b"here")
    assert running.unwrap(name, wrapped, b"here") == b"d" * 32
    assert running.current == name
    path.unlink()
    with pytest.raises(KeyMissing):
        running.unwrap("k9", wrapped, b"here")
