"""JsonConverter (org.apache.kafka.connect.json.JsonConverter)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final, NamedTuple

from penstock.connect.converters.converter import RecordHeaders, SchemaAndValue
from penstock.connect.converters.json.reading import Read, Reading, needs_exact_numbers
from penstock.connect.converters.json.schemas import schema_of_json, schema_text
from penstock.connect.converters.json.writing import Write, Writing
from penstock.connect.converters.properties import converter_definition, parsed_properties
from penstock.connect.converters.schema_cache import SchemaCache
from penstock.connect.data.json_text import MISSING, encoded, from_json, only_value, parsed
from penstock.connect.data.schema import Schema
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance, Width
from penstock.connect.definitions.validators import CaseInsensitiveValidString
from penstock.connect.errors import DataError

_BEGIN: Final = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_BETWEEN: Final = re.compile(r'\s*,\s*"payload"\s*:\s*')
_EXACT: Final = json.JSONDecoder(parse_float=Decimal)
_RECENT_MAX: Final = 8
"""Number of envelopes that are compared with a record's bytes before its schema is parsed."""


def _definition() -> ConfigDef:
    definition = converter_definition()
    schemas: dict[str, Any] = {"importance": Importance.HIGH, "group": "Schemas", "width": Width.MEDIUM}
    definition.define(
        "schemas.enable",
        ConfigType.BOOLEAN,
        True,
        doc="Whether each key and value is written with its schema, and read with it.",
        order=0,
        display_name="Enable Schemas",
        **schemas,
    )
    definition.define(
        "schemas.cache.size",
        ConfigType.INT,
        1000,
        doc="Number of schemas that the converter keeps at most.",
        order=1,
        display_name="Schema Cache Size",
        **schemas,
    )
    definition.define(
        "schema.content",
        ConfigType.STRING,
        None,
        doc="The schema of all records that sinks read, as JSON. Records then have no schema of their own. "
        "It has no effect unless schemas.enable is true.",
        order=2,
        display_name="Schema Content",
        **schemas,
    )
    values: dict[str, Any] = {"importance": Importance.LOW, "group": "Serialization", "width": Width.MEDIUM}
    definition.define(
        "decimal.format",
        ConfigType.STRING,
        "BASE64",
        CaseInsensitiveValidString("BASE64", "NUMERIC"),
        doc="How decimals are written: BASE64 or NUMERIC. Both are read.",
        order=0,
        display_name="Decimal Format",
        **values,
    )
    return definition.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        doc="Whether the default of a field takes the place of null, when it is written and when it is read.",
        order=1,
        display_name="Replace null with default",
        **values,
    )


class _Writer(NamedTuple):
    """Writes the values of a schema: the envelope up to the payload, and the function for the payload."""

    envelope: bytes
    write: Write


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the values of a schema; ``exact`` asks for Decimals from the parser."""

    schema: Schema | None
    read: Read
    exact: bool


class JsonConverter:
    """Converts keys and values to JSON and back, with their schemas in each record or without schemas.

    Without schemas, bytes come back as base64 and structs as dicts.
    """

    definition: ClassVar[ConfigDef] = _definition()

    def __init__(self) -> None:
        self._envelopes: list[tuple[bytes, _Reader]] = []
        self._readers: dict[str, _Reader] = {}

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        config = parsed_properties(self.definition, properties, is_key)
        self._has_schemas: bool = config["schemas.enable"]
        self._cache_size: int = config["schemas.cache.size"]
        replaces_nulls: bool = config["replace.null.with.default"]
        is_numeric = config["decimal.format"].upper() == "NUMERIC"
        self._writing = Writing(decimals_are_numbers=is_numeric, replaces_nulls=replaces_nulls)
        self._reading = Reading(replaces_nulls=replaces_nulls)
        self._writers = SchemaCache(self._cache_size, self._made_writer)
        content = config["schema.content"]
        made = self._reader_of_json(parsed(content.encode(), exact=True)) if content else None
        self._content = made if made is not None and made.schema is not None else None

    def to_bytes(
        self, topic: str, schema: Schema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if schema is None and value is None:
            return None
        envelope, write = self._writers.get(schema)
        text = encoded(write(value))
        return b"%b%b}" % (envelope, text) if self._has_schemas else text

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        if not self._has_schemas:
            return SchemaAndValue(None, from_json(data))
        if (content := self._content) is not None:
            return SchemaAndValue(content.schema, content.read(parsed(data, exact=content.exact)))
        for envelope, reader in self._envelopes:
            if data.startswith(envelope) and data.endswith(b"}"):
                payload = only_value(data[len(envelope) : -1], exact=reader.exact)
                if payload is not MISSING:
                    return SchemaAndValue(reader.schema, reader.read(payload))
        return self._read_envelope(data)

    def close(self) -> None:
        """A converter of JSON holds nothing."""

    @property
    def decimals_are_numbers(self) -> bool:
        """Whether decimals are written as numbers; else as the base64 of their bytes."""
        return self._writing.decimals_are_numbers

    def text_writer(self, schema: Schema) -> Write:
        """Return the function that gives the JSON of a value; it raises DataError for misfits."""
        return self._writing.writer(schema)

    def frame(self, schema: Schema) -> tuple[bytes, bytes]:
        """Return what `to_bytes` puts around the JSON of a value."""
        return self._writers.get(schema).envelope, b"}" if self._has_schemas else b""

    def _made_writer(self, schema: Schema | None) -> _Writer:
        envelope = f'{{"schema":{schema_text(schema, self._writing)},"payload":' if self._has_schemas else ""
        return _Writer(encoded(envelope), self._writing.writer(schema))

    def _read_envelope(self, data: bytes) -> SchemaAndValue:
        """Read a record whose schema was not seen lately, or is not written in the same way."""
        given = parsed(data, exact=True)
        if not isinstance(given, dict) or given.keys() != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain'
                " additional fields. If you are trying to deserialize plain JSON data, set"
                " schemas.enable=false in your converter configuration."
            )
        reader = self._reader_of_json(given["schema"])
        self._remember_envelope(data, given["schema"], reader)
        return SchemaAndValue(reader.schema, reader.read(given["payload"]))

    def _reader_of_json(self, given: Any) -> _Reader:
        text = repr(given)
        found = self._readers.get(text)
        if found is None:
            schema = schema_of_json(given, self._reading)
            found = _Reader(schema, self._reading.reader(schema), needs_exact_numbers(schema))
            self._readers[text] = found
            if len(self._readers) > max(self._cache_size, 1):
                del self._readers[next(iter(self._readers))]
        return found

    def _remember_envelope(self, data: bytes, given: Any, reader: _Reader) -> None:
        """Remember the bytes before the payload: records that begin with them have the same schema."""
        try:
            text = data.decode()
            begin = _BEGIN.match(text)
            if begin is None:
                return
            found, end = _EXACT.raw_decode(text, begin.end())
        except ValueError:
            return  # only the lenient parser understands the record
        between = _BETWEEN.match(text, end)
        if between is None or repr(found) != repr(given):
            return
        envelope = text[: between.end()].encode()
        if all(envelope != known for known, _ in self._envelopes):
            self._envelopes.insert(0, (envelope, reader))
            del self._envelopes[_RECENT_MAX:]
