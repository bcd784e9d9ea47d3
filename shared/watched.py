"""Files that are read again when they change: keys, certificates."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from shared.config_names import ConfigError

_T = TypeVar("_T")
_Stamp = tuple[tuple[int, int, int] | None, ...]

logger = logging.getLogger(__name__)


class WatchedFiles(Generic[_T]):
    """What was parsed from some files, parsed again when one is another file: time, size or inode changed.

    `parse` gets their contents in order and raises ValueError at what cannot be used. Construction raises ConfigError;
    later, the value before stays in force and the fault is logged once. `value()` costs one stat(2) a file, about a
    microsecond each, and may be called from any thread.
    """

    def __init__(self, paths: Sequence[Path], setting: str, parse: Callable[..., _T]) -> None:
        self._paths = tuple(paths)
        self._setting = setting
        self._parse = parse
        self._seen = self._stamps()
        self._value = self._read()

    def value(self) -> _T:
        """The newest usable value."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._value = self._read()
                logger.info("%s: read again, it has changed", self._setting)
            except ConfigError as error:
                logger.error("%s; what was read before stays in force", error)
        return self._value

    def _stamps(self) -> _Stamp:
        return tuple(_stamp(path) for path in self._paths)

    def _read(self) -> _T:
        contents = []
        for path in self._paths:
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                raise ConfigError(f"{self._setting}: cannot read {path}: {error.strerror}") from error
        try:
            return self._parse(*contents)
        except ValueError as error:
            names = ", ".join(str(path) for path in self._paths)
            raise ConfigError(f"{self._setting}: {names}: {' '.join(str(error).split())}") from error


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
