"""The differences between databases: catalogs, types, statements and errors.

A dialect is chosen by the engine. Databases without a module of their own are read by SQLAlchemy's inspector
and written with plain INSERT, UPDATE and DELETE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connect.connectors.sql.dialects.dialect import Column, Dialect, Target
from penstock.connect.connectors.sql.dialects.duckdb import DuckDB
from penstock.connect.connectors.sql.dialects.mysql import MySQL
from penstock.connect.connectors.sql.dialects.postgres import PostgreSQL
from penstock.connect.connectors.sql.dialects.sqlite import SQLite

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

__all__ = ["Column", "Dialect", "Target", "dialect_for"]

DIALECTS: dict[str, type[Dialect]] = {
    "postgresql": PostgreSQL,
    "mysql": MySQL,
    "mariadb": MySQL,
    "sqlite": SQLite,
    "duckdb": DuckDB,
}


def dialect_for(engine: Engine, *, quotes: bool) -> Dialect:
    """Return the dialect of an engine; ``quotes`` says whether identifiers are quoted."""
    return DIALECTS.get(engine.dialect.name, Dialect)(engine, quotes=quotes)
