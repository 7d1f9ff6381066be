"""Records as ksqlDB's tests of queries write them, in JSON, compared with ours."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from record_cases import json_text

from penstock.registry.client.config import URL
from penstock.sql.catalog import Column, DataSource, Role
from penstock.sql.formats import format_settings, key_serde, value_serde
from penstock.sql.formats.json.values import coercion
from penstock.sql.language import types
from penstock.sql.language.types import SqlType
from penstock.topology.serdes import Window, Windowed

_CLOSE = 1e-6
"""The tolerance for the last digits of a double, and for a FLOAT of Protobuf."""


class Differs(Exception):
    """A difference between the record found and the one expected."""


class Side:
    """The keys or the values of one topic's records.

    JSON and DELIMITED are compared as they stand, other formats as our serdes read them.
    """

    def __init__(self, name: str, format_: str, columns: Sequence[Column], serde: Any) -> None:
        self._name = name
        self._format = format_
        self._columns = columns
        self._serde = serde

    def bytes_of(self, given: Any, window: Mapping[str, Any] | None = None) -> bytes | None:
        if window is not None:
            return self._serde.serialize(Windowed(self._typed(given), _window(window)))
        if given is None:
            return None
        if self._format == "DELIMITED" and isinstance(given, str):
            return given.encode()
        return (
            json_text(given).encode() if self._format == "JSON" else self._serde.serialize(self._typed(given))
        )

    def expect(self, wanted: Any, found: bytes | None, window: Mapping[str, Any] | None = None) -> None:
        """Compare the bytes found with the wanted value; raises Differs if they differ."""
        if window is not None:
            windowed = self._serde.deserialize(found)
            if windowed.window != _window(window):
                raise Differs(f"found the window {windowed.window}, expected {window}")
            self._same(windowed.key, self._typed(wanted))
        elif wanted is None or found is None:
            if wanted is not found and self._columns:
                raise Differs(f"found the {self._name} {found!r}, expected {wanted!r}")
        elif self._format == "JSON":
            self._same(json.loads(found, parse_float=Decimal), wanted)
        elif self._format == "DELIMITED" and isinstance(wanted, str):
            self._same(found.decode(), wanted)
        else:
            # The wanted value is encoded and decoded, because in Protobuf null equals a type's default.
            self._same(self._serde.deserialize(found), self._serde.deserialize(self.bytes_of(wanted)))

    def _typed(self, given: Any) -> tuple[Any, ...]:
        columns = self._columns
        if not columns:
            return ()
        if len(columns) == 1 and not _has_field(given, columns[0]):
            return (_value(given, columns[0].type),)
        if isinstance(given, str):
            given = dict(zip((each.name for each in columns), given.split(","), strict=True))
        if not isinstance(given, dict):
            raise Differs(f"found {given!r}, expected the columns {[each.name for each in columns]}")
        named = {name.upper(): value for name, value in given.items()}
        return tuple(_value(named.get(each.name.upper()), each.type) for each in columns)

    def _same(self, found: Any, wanted: Any) -> None:
        if not _alike(found, wanted):
            raise Differs(f"found the {self._name} {found!r}, expected {wanted!r}")


def sides_of(source: DataSource, registry_url: str | None) -> tuple[Side, Side]:
    """The sides of the keys and of the values."""
    values = tuple(each for each in source.columns if each.role is Role.VALUE)
    settings = format_settings(source, {URL: registry_url} if registry_url else {})
    key = key_serde(source.keys, source.key_format, settings, source.window, topic=source.topic)
    value = value_serde(values, source.value_format, settings, topic=source.topic)
    return (
        Side("key", source.key_format, source.keys, key),
        Side("value", source.value_format, values, value),
    )


def _window(said: Mapping[str, Any]) -> Window:
    return Window(said["start"], said["end"])


def _has_field(given: Any, column: Column) -> bool:
    """Return whether the object has the column as a field; if not, it is the column's value itself."""
    if not isinstance(given, dict):
        return False
    return not isinstance(column.type, (types.Struct, types.Map)) or [*map(str.upper, given)] == [column.name]


def _value(given: Any, type_: SqlType) -> Any:
    if given is None:
        return None
    if type_ == types.BYTES:
        return base64.b64decode(given)
    if type_ == types.DOUBLE and given in ("NaN", "Infinity", "-Infinity"):
        return float(given)
    return coercion(type_)(given)


def _alike(found: Any, wanted: Any) -> bool:
    if isinstance(found, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(_alike, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        ours, theirs = map(_fields, (found, wanted))
        return ours.keys() == theirs.keys() and all(_alike(ours[name], theirs[name]) for name in ours)
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, Decimal) and isinstance(wanted, str):
        return str(found) == wanted
    if isinstance(found, (int, float, Decimal)) and isinstance(wanted, (int, float, Decimal)):
        return found == wanted or math.isclose(found, wanted, rel_tol=_CLOSE)
    return bool(found == wanted)


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not null, in upper case: ksqlDB's runner ignores case and missing nulls."""
    return {name.upper(): value for name, value in given.items() if value is not None}
