"""Key-encryption keys from a file or from the environment.

The file is JSON: {"current": "k1", "keys": {"k1": "<base64 of 32 bytes>"}}, mode 0600. It is made once, where nothing
is wrapped yet; losing it means losing every memory, so it is never made anew while wrapped keys exist.
"""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memory_service.ports import KeyMissing

_NONCE = 12
_NAME = 64
"""Characters of a key id: what the record's column takes."""


class KeyFileError(Exception):
    """The key file or the keys in the environment cannot be used; the text says what to do."""


class LocalKeyProvider:
    """KeyProvider over keys held in this process.

    `path`: the file they come from. It is read again when a key is asked for that is not held: `keys rotate` adds one
    while servers run.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str, path: Path | None = None) -> None:
        if current not in keys:
            raise KeyFileError(
                f"the current key '{current}' is not among the keys ({', '.join(sorted(keys)) or 'none'})"
            )
        for name, key in keys.items():
            if len(key) != 32:
                raise KeyFileError(f"key '{name}' has {len(key)} bytes, it must have 32")
            if not 1 <= len(name) <= _NAME:
                raise KeyFileError(f"the key id '{name[:_NAME]}' has {len(name)} characters, it must have 1 to {_NAME}")
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._current = current
        self._path = path

    @property
    def current(self) -> str:
        return self._current

    def holds(self, kek_id: str) -> bool:
        return kek_id in self._ciphers

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[self._current].encrypt(nonce, data_key, context)

    def unwrap(self, kek_id: str, wrapped: bytes, context: bytes) -> bytes:
        if kek_id not in self._ciphers:
            self._read_again()
        cipher = self._ciphers.get(kek_id)
        if cipher is None:
            raise KeyMissing(kek_id)
        try:
            return cipher.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], context)
        except InvalidTag as error:
            raise ValueError(f"what key {kek_id} should open was not wrapped with it") from error

    def _read_again(self) -> None:
        """Takes over what the file holds now; a file that cannot be read changes nothing."""
        if self._path is None:
            return
        try:
            fresh = read_key_file(self._path)
        except KeyFileError:
            return
        self._ciphers, self._current = fresh._ciphers, fresh._current


def parse_keys(keys: Mapping[str, str], current: str, path: Path | None = None) -> LocalKeyProvider:
    """A provider from base64 texts by key id; KeyFileError names what is wrong."""
    try:
        raw = {name: base64.b64decode(text, validate=True) for name, text in keys.items()}
        return LocalKeyProvider(raw, current, path)
    except (binascii.Error, ValueError) as error:
        raise KeyFileError(f"a key is not base64: {error}") from error


def read_key_file(path: Path) -> LocalKeyProvider:
    """Opens a key file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return parse_keys(content["keys"], content["current"], path)
    except KeyFileError as error:
        raise KeyFileError(f"{path}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KeyFileError(f"{path} is not a key file: {error}") from error


def make_key_file(path: Path) -> LocalKeyProvider:
    """Makes a key file with one new key, k1. Never overwrites one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"current": "k1", "keys": {"k1": base64.b64encode(os.urandom(32)).decode()}}
    _write_new(path, json.dumps(content, indent=2) + "\n")
    return read_key_file(path)


def add_key(path: Path) -> str:
    """Adds a new key to a key file and makes it the current one; answers its id. The old ones stay."""
    read_key_file(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    number = 1
    while f"k{number}" in content["keys"]:
        number += 1
    content["keys"][f"k{number}"] = base64.b64encode(os.urandom(32)).decode()
    content["current"] = f"k{number}"
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    _write_new(fresh, json.dumps(content, indent=2) + "\n")
    fresh.replace(path)
    _sync_folder(path)
    return f"k{number}"


def _write_new(path: Path, text: str) -> None:
    """Writes a file only this user can read, and does not return before it is on the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path)


def _sync_folder(path: Path) -> None:
    """Puts a file's name on the disk: or a power failure takes back a new key that has wrapped data already."""
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
