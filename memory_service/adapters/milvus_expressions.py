"""Milvus's filter language and the names of collections, as pure functions.

Filter templates are refused by 2.3.5 and by Lite, so literals are built here and nowhere else.
"""

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from memory_service.ports import IndexQuery

_MAX_NAME: Final = 255  # of a collection, bytes

Clause: TypeAlias = str | None
"""A filter expression; "" holds for every row, None for none."""


def literal(value: int | str) -> str:
    """A value as Milvus's expression language writes it; a text's quotes and backslashes are escaped.

    Raises ValueError for control characters, which that language cannot carry.
    """
    if isinstance(value, str):
        if not value.isprintable():
            raise ValueError("a control character in a filter")
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(int(value))


def compare(field: str, operator: str, value: int | str) -> Clause:
    """One comparison. `field` and `operator` are ours, never a caller's."""
    return f"{field} {operator} {literal(value)}"


def one_of(field: str, values: Sequence[int] | Sequence[str]) -> Clause:
    """`field` has one of the values. Without values no row qualifies, and nothing is worth asking."""
    return f"{field} in [{', '.join(literal(value) for value in values)}]" if values else None


def all_of(clauses: Sequence[Clause]) -> Clause:
    """Every clause holds."""
    if None in clauses:
        return None
    return " and ".join(clause for clause in clauses if clause)


def query_filter(query: IndexQuery) -> Clause:
    """The filter of a search: always user and generation, then whatever the query restricts."""
    clauses = [compare("user_id", "==", query.user_id), compare("generation", "==", query.generation)]
    if query.types:
        clauses.append(one_of("type", sorted(query.types)))
    if query.shards:
        clauses.append(one_of("shard", sorted(query.shards)))
    if query.happened_from is not None:
        clauses.append(compare("happened_at", ">=", query.happened_from))
    if query.happened_until is not None:
        clauses.append(compare("happened_at", "<", query.happened_until))
    return all_of(clauses)


def collection_name(prefix: str, space: str) -> str:
    """The collection of a space: `prefix__` and the id, what is not a letter or digit as `_` and two upper-case hex
    digits per UTF-8 byte. One to one, so that names give ids back. Raises ValueError above 255 bytes or without an id.
    """
    encoded = "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"_{b:02X}" for b in space.encode())
    name = f"{prefix}__{encoded}"
    if not space or len(name) > _MAX_NAME:
        raise ValueError("an embedding space's id is empty or too long")
    return name


def space_of(prefix: str, name: str) -> str | None:
    """The space whose collection has this name; None for a collection that is not ours."""
    encoded = name.removeprefix(f"{prefix}__")
    if encoded == name:
        return None
    try:
        raw = re.sub(rb"_([0-9A-F]{2})", lambda m: bytes.fromhex(m[1].decode()), encoded.encode())
        space = raw.decode()
        return space if collection_name(prefix, space) == name else None
    except ValueError:
        return None
