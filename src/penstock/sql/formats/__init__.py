"""Serialization of rows to the bytes of records and back, in ksqlDB's formats.

Formats, their schemas and the inference of columns from schemas belong here; expressions and queries don't.
This folder holds what all formats need, the small formats, and `serdes`, which chooses a format. Larger
formats have rooms of their own, and `registry` connects those that use a schema registry to it.

>>> from penstock.sql import types
>>> from penstock.sql.catalog import Column
>>> serde = value_serde([Column("ID", types.BIGINT), Column("NAME", types.STRING)], "JSON", {})
>>> serde.deserialize(b'{"id": "7", "name": null}')
(7, None)
>>> serde.serialize((7, "Ada"))
b'{"ID":7,"NAME":"Ada"}'
"""

from __future__ import annotations

from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.headers import headers_reader
from penstock.sql.formats.registry.registration import (
    format_settings,
    register_schemas,
    registered_columns,
    sides_of,
)
from penstock.sql.formats.serdes import key_serde, value_serde
from penstock.sql.formats.settings import Side

__all__ = [
    "FormatError",
    "Side",
    "format_settings",
    "headers_reader",
    "key_serde",
    "register_schemas",
    "registered_columns",
    "sides_of",
    "value_serde",
]
