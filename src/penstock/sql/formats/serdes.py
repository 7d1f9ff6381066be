"""The serdes of a source's keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.sql.catalog import Column, WindowedKey
from penstock.sql.formats import delimited, kafka
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.json import reading as json_reading
from penstock.sql.formats.json import writing as json_writing
from penstock.sql.formats.kafka import Pair
from penstock.sql.formats.registry.registered import kinds, registered_pair
from penstock.sql.formats.settings import Side, SideFormat, side_format
from penstock.topology.serdes import Serde, session_windowed, time_windowed

Row = tuple[Any, ...]


def key_serde(
    columns: Sequence[Column],
    format_: str,
    settings: Mapping[str, str],
    window: WindowedKey | None = None,
    *,
    topic: str | None = None,
) -> Serde[Any]:
    """Build the serde of a source's keys, which are tuples of the key columns' values, or Windowed ones.

    ``serialize`` returns None for a key without bytes (NONE, or an unwrapped null). ``settings`` are the
    source's WITH (…) and the properties of a schema registry. Schemas are registered for ``topic``. Both
    this function and the serde raise FormatError.
    """
    inner = _made(side_format(Side.KEY, columns, format_, settings, topic))
    if window is None:
        return inner
    return session_windowed(inner) if window.size_ms is None else time_windowed(inner, window.size_ms)


def value_serde(
    columns: Sequence[Column],
    format_: str,
    settings: Mapping[str, str],
    *,
    topic: str | None = None,
) -> Serde[Any]:
    """Build the serde of a source's values, tuples of the value columns' values, as `key_serde` does."""
    return _made(side_format(Side.VALUE, columns, format_, settings, topic))


def _made(chosen: SideFormat) -> Serde[Any]:
    """Build a serde, which is pickled as its format: that has the registry's settings as one object.

    So the host of a query can find the credentials in it, and leave them out of the checkpoint.
    """
    maker = _MAKERS.get(chosen.format)
    if maker is None:
        raise FormatError(f"found the format {chosen.format}, expected one of {', '.join(_MAKERS)}")
    try:
        serialize, deserialize = maker(chosen)
    except FormatError as error:
        raise error.within(str(chosen.side)) from None
    name = f"{chosen.format} {chosen.side} ({', '.join(name for name, _ in chosen.fields)})"
    return Serde(serialize, deserialize, name=name, made_by=(_made, (chosen,)))


def _none(chosen: SideFormat) -> Pair:
    if chosen.fields:
        raise FormatError("found a column in the format NONE, expected none", chosen.fields[0][0])
    return kafka.nothing()


def _kafka(chosen: SideFormat) -> Pair:
    if not chosen.fields:
        return kafka.nothing()
    if len(chosen.fields) > 1:
        names = ", ".join(name for name, _ in chosen.fields)
        raise FormatError(f"found {names} in the format KAFKA, expected one column")
    return kafka.single(*chosen.fields[0])


def _json(chosen: SideFormat) -> Pair:
    if chosen.is_alone:
        return json_writing.single_writer(*chosen.fields[0]), json_reading.single_reader(*chosen.fields[0])
    return json_writing.row_writer(chosen.fields), json_reading.ObjectReader(chosen.fields).read


def _delimited(chosen: SideFormat) -> Pair:
    mark = chosen.delimiter
    return delimited.row_writer(chosen.fields, mark), delimited.row_reader(chosen.fields, mark)


def _registered(chosen: SideFormat) -> Pair:
    if not chosen.fields:
        return kafka.nothing()
    return registered_pair(chosen, kinds()[chosen.format])


def _protobuf_alone(chosen: SideFormat) -> Pair:
    # imported late because its library loads slowly
    from penstock.sql.formats.protobuf import rows as protobuf

    return protobuf.without_registry(chosen)


_MAKERS: Final = {
    "AVRO": _registered,
    "DELIMITED": _delimited,
    "JSON": _json,
    "JSON_SR": _registered,
    "KAFKA": _kafka,
    "NONE": _none,
    "PROTOBUF": _registered,
    "PROTOBUF_NOSR": _protobuf_alone,
}
