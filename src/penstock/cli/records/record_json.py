"""A record as one JSON object, as `consume --json` prints it and `produce --json-lines` reads it.

Text appears as text; bytes that are not UTF-8 are base64-encoded under `key_base64`, `value_base64`.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from penstock.cli.records.codec import Encoder
from penstock.cli.records.simple import json_kind


class InvalidJsonRecord(ValueError):
    """The object is not a record; the message names the field."""


def bytes_to_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """`{name: text}`, or `{name_base64: …}` if *data* is not UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def headers_to_json(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, str | None]]:
    """Headers as objects, in order, since a name may occur more than once."""
    return [{"name": name, **bytes_to_json("value", value)} for name, value in headers]


def record_from_json(
    record: Any, key_encoder: Encoder | None = None, value_encoder: Encoder | None = None
) -> dict[str, Any]:
    """The key, value, headers, partition and timestamp_ms of one JSON object.

    With an encoder, the key or value may be any JSON value of its format.

    Raises:
        InvalidJsonRecord: a field has the wrong type.
        InvalidValue: an encoder refuses a value.
    """
    if not isinstance(record, dict):
        raise InvalidJsonRecord(f"expected a JSON object, found {json_kind(record)}")
    headers = record.get("headers") or []
    if not isinstance(headers, list) or not all(isinstance(h, dict) and "name" in h for h in headers):
        raise InvalidJsonRecord('headers: expected a list of {"name": …, "value": …}')
    return {
        "key": _bytes_from_json(record, "key", key_encoder),
        "value": _bytes_from_json(record, "value", value_encoder),
        "headers": [(str(header["name"]), _bytes_from_json(header, "value")) for header in headers],
        "partition": _int_from_json(record, "partition"),
        "timestamp_ms": _int_from_json(record, "timestamp_ms"),
    }


def _bytes_from_json(record: dict[str, Any], name: str, encoder: Encoder | None = None) -> bytes | None:
    encoded = record.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError) as error:
            raise InvalidJsonRecord(f"{name}_base64: {error}") from None
    value = record.get(name)
    if value is None:
        return None
    if encoder is not None:
        return encoder.of_json(value)
    if not isinstance(value, str):
        raise InvalidJsonRecord(f"{name}: expected text or null, found {json_kind(value)}")
    return value.encode()


def _int_from_json(record: dict[str, Any], name: str) -> int | None:
    value = record.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InvalidJsonRecord(f"{name}: expected a whole number, found {json_kind(value)}")
