"""Names of settings: every leaf of a settings class, its variable, what to say of a name nobody knows, and masking.

The helpers of `shared.config`, which is the public door.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

PREFIX = "PALIMPSEST_"
_MASK = "********"
_URL_PASSWORD = re.compile(r"(?P<head>[A-Za-z][A-Za-z0-9+.\-]*://[^:/?#\s@]*:)[^\s]*@")
_URL_PARAMETER = re.compile(
    r"(?P<head>[?&;][\w.\-]*(?:password|passwd|pwd|secret|token|api_?key)[\w.\-]*=)[^&;\s\"']+", re.IGNORECASE
)
# What Kubernetes puts into every container for a Service named palimpsest-something ("enableServiceLinks").
_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")


class ConfigError(Exception):
    """A setting is wrong. The text is one line: which setting, what is wrong, what to write."""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as it is in force: dotted name, variable, value as text (secrets masked), unit, origin, help."""

    name: str
    env: str
    value: str
    unit: str
    source: Literal["default", "environment", "file"]
    help: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting of a settings class."""

    path: tuple[str, ...]
    help: str
    unit: str
    secret: bool
    open: bool
    """A map: names below it are not fixed."""
    default: Any


def env_name(path: Iterable[str]) -> str:
    """`("auth", "mode")` is PALIMPSEST_AUTH__MODE."""
    return PREFIX + "__".join(path).upper()


def leaves(cls: type[BaseModel], above: tuple[str, ...] = ()) -> list[Leaf]:
    """Every setting of the class and of its sections, in the order of declaration."""
    found: list[Leaf] = []
    for name, field in cls.model_fields.items():
        section = _section(field.annotation)
        if section is not None:
            found += leaves(section, (*above, name))
        else:
            found.append(_leaf((*above, name), field))
    return found


def _leaf(path: tuple[str, ...], field: FieldInfo) -> Leaf:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, Mapping) else {}
    kinds = _kinds(field.annotation)
    return Leaf(
        path=path,
        help=field.description or "",
        unit=str(extra.get("unit", "")),
        secret=any(isinstance(kind, type) and issubclass(kind, SecretStr) for kind in kinds),
        open=any(get_origin(kind) is dict or kind is dict for kind in (*kinds, field.annotation)),
        default=None if field.is_required() else field.get_default(call_default_factory=True, validated_data={}),
    )


def _kinds(annotation: Any) -> list[Any]:
    """The annotation and everything inside it, unions and containers taken apart."""
    return [annotation, *(kind for part in get_args(annotation) for kind in _kinds(part))]


def _section(annotation: Any) -> type[BaseModel] | None:
    union = get_origin(annotation) in (Union, UnionType)
    for kind in get_args(annotation) if union else (annotation,):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def refuse_unknown(environ: Mapping[str, str], known: list[Leaf], foreign: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Paths that the environment sets, sections given whole (JSON) included. ConfigError at a name nobody knows."""
    paths = {leaf.path[:n] for leaf in known for n in range(1, len(leaf.path) + 1)}
    by_name = {env_name(path): path for path in paths}
    maps = {env_name(leaf.path) + "__": leaf.path for leaf in known if leaf.open}
    in_kubernetes = "KUBERNETES_SERVICE_HOST" in environ
    seen: set[tuple[str, ...]] = set()
    for raw in sorted(environ):
        name = raw.upper()
        if not name.startswith(PREFIX) or name == f"{PREFIX}CONFIG_FILE" or name.startswith(foreign):
            continue
        path = by_name.get(name) or next((path for start, path in maps.items() if name.startswith(start)), None)
        if path is None and not (in_kubernetes and _SERVICE_LINK.search(name)):
            raise ConfigError(_unknown(raw, "environment variable", list(by_name), "unset it"))
        if path is not None and environ[raw] != "":
            seen.add(path)
    return seen


def read_toml(path: str, cls: type[BaseModel], foreign: tuple[str, ...]) -> tuple[dict[str, Any], set[tuple[str, ...]]]:
    """The file's values without the foreign ones, and the paths it sets. ConfigError in one line."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{PREFIX}CONFIG_FILE: cannot read {path}: {error.strerror}; name a readable TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{PREFIX}CONFIG_FILE: {path} is not TOML: {' '.join(str(error).split())}") from error
    found = _Found(leaves(cls), foreign, path)
    return found.checked(values), found.seen


class _Found:
    """A walk through a TOML file's values that keeps what the class knows and refuses what nobody does."""

    def __init__(self, known: list[Leaf], foreign: tuple[str, ...], file: str) -> None:
        self.leaves = {leaf.path for leaf in known}
        self.sections = {leaf.path[:n] for leaf in known for n in range(1, len(leaf.path))}
        self.foreign = foreign
        self.file = file
        self.seen: set[tuple[str, ...]] = set()

    def checked(self, values: Mapping[str, Any], above: tuple[str, ...] = ()) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, value in values.items():
            path = (*above, key)
            if path in self.leaves:
                kept[key] = value
                self.seen.add(path)
            elif path in self.sections:
                # A value where a table belongs is left to validation, which names it.
                kept[key] = self.checked(value, path) if isinstance(value, Mapping) else value
            elif not f"{env_name(path)}_".startswith(self.foreign):
                names = [".".join(known) for known in self.leaves | self.sections]
                raise ConfigError(_unknown(".".join(path), f"setting in {self.file}", names, "take it out"))
        return kept


def _unknown(name: str, what: str, names: list[str], otherwise: str) -> str:
    by_tail = {known.upper().removeprefix(PREFIX): known for known in names}
    near = difflib.get_close_matches(name.upper().removeprefix(PREFIX), by_tail, n=1, cutoff=0.6)
    return f"{name}: there is no such {what}; " + (f"did you mean {by_tail[near[0]]}?" if near else f"{otherwise}.")


def mask_urls(text: str) -> str:
    """The text with passwords, tokens and keys inside URLs replaced. Rather too much than too little is hidden."""
    return _URL_PARAMETER.sub(rf"\g<head>{_MASK}", _URL_PASSWORD.sub(rf"\g<head>{_MASK}@", text))


def masked(leaf: Leaf, value: Any) -> str:
    """A setting's value as text for people."""
    if value is None:
        return ""
    if leaf.secret:
        return _MASK
    if isinstance(value, bool):
        return str(value).lower()
    return mask_urls(str(value))
