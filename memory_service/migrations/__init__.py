"""Alembic migrations: `record` and, for the wrapped keys, `keys`.

Expand first, contract a release later: a migration never breaks the code of the release before it.
"""
