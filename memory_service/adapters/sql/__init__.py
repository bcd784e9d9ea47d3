"""The record on SQLAlchemy Core: SQLite (embedded), MySQL 8 and MariaDB (production)."""
