"""Translate plans into streams applications: each step of a plan becomes a stream or a table of row tuples.

A row has the values of its step's schema, in that order. The key of a record is a tuple of the key columns'
values, possibly inside a `Windowed`; it is None for a record without a key. A tombstone has no row.

The package only builds applications. SQL is parsed and analyzed in `penstock.sql.language` and
`penstock.sql.analysis`, and `penstock.sql.engine` lets applications run.
"""

from penstock.sql.planning.apps import CACHE, Planned, build_app, build_reader

__all__ = ["CACHE", "Planned", "build_app", "build_reader"]
