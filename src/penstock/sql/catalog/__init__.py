"""The catalog of a service: what each name in a statement stands for.

Descriptions of streams, tables and their columns belong here, and the catalog that maps names to them, to
types and to functions. All of it is immutable data. `penstock.sql.analysis` decides what a catalog may hold.
"""

from penstock.sql.catalog.catalog import Catalog
from penstock.sql.catalog.sources import (
    PSEUDO_COLUMNS,
    SYSTEM_COLUMNS,
    WINDOW_COLUMNS,
    Column,
    DataSource,
    Role,
    WindowedKey,
)

__all__ = [
    "PSEUDO_COLUMNS",
    "SYSTEM_COLUMNS",
    "WINDOW_COLUMNS",
    "Catalog",
    "Column",
    "DataSource",
    "Role",
    "WindowedKey",
]
