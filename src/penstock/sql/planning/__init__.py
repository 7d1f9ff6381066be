"""Plans become streams applications: each step of a plan is a stream or a table of row tuples.

A row has the values of its step's schema, in that order. The key of a record is a tuple too, of the key
columns' values, or a `Windowed` one; a record without a key has None, and a tombstone has no row.
"""

from penstock.sql.planning.apps import CACHE, Planned, build_app, build_reader

__all__ = ["CACHE", "Planned", "build_app", "build_reader"]
