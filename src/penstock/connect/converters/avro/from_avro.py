"""Translates Avro's schemas to Connect's, with the attributes that Confluent's converter has added."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from penstock.connect.converters.avro import settings as avro
from penstock.connect.converters.avro.settings import AvroSettings, is_union
from penstock.connect.data import logical
from penstock.connect.data.schema import STRING, Schema
from penstock.connect.data.schema import Type as ConnectType
from penstock.connect.data.struct import Struct
from penstock.connect.data.validation import validate_value
from penstock.connect.errors import DataError
from penstock.java.numbers import float32, float64, low_bits, wrapped
from penstock.registry.formats.avro.types import ABSENT, NAMED, Type

Json: TypeAlias = Any

_SIMPLE: Final = {
    "boolean": ConnectType.BOOLEAN,
    "double": ConnectType.FLOAT64,
    "float": ConnectType.FLOAT32,
    "string": ConnectType.STRING,
}
_CONNECT_TYPES: Final = {"int8": ConnectType.INT8, "int16": ConnectType.INT16}
_BITS: Final = {ConnectType.INT8: 8, ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}


def connect_schema(of: Type, settings: AvroSettings, version: int | None = None) -> Schema | None:
    """Return the schema for an Avro schema; None if it is that of values without one.

    ``version`` is the one of the subject, unless the schema has its own. Raises DataError.
    """
    if of.full_name == avro.ANYTHING:
        return None
    return _Translation(settings).schema(of, version=version)


@dataclass(slots=True)
class _Parts:
    """The parts of a schema that is being made."""

    type: ConnectType
    name: str | None = None
    version: int | None = None
    optional: bool = False
    doc: str | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    inner: dict[str, Any] = field(default_factory=dict)

    def schema(self) -> Schema:
        return Schema(
            self.type,
            optional=self.optional,
            name=self.name,
            version=self.version,
            doc=self.doc,
            parameters=self.parameters or None,
            **self.inner,
        )


@dataclass(slots=True)
class _Translation:
    settings: AvroSettings
    within: list[Type] = field(default_factory=list)

    def schema(
        self,
        of: Type,
        *,
        optional: bool = False,
        default: Json = ABSENT,
        doc: str | None = None,
        version: int | None = None,
    ) -> Schema:
        """Translate a type; ``default`` and ``doc`` are those of the field that has it."""
        if of.kind == "union":
            member = self._only_member(of)
            if member is not None:
                has_null = len(of.items) > 1
                return self.schema(member, optional=has_null, doc=doc)
        if of.kind == "record":
            if any(of is each for each in self.within):
                raise DataError(f"{of.full_name} contains itself, which a schema of Connect cannot here")
            self.within.append(of)
        parts = self._parts(of)
        if of.kind == "record":
            self.within.pop()
        self._describe(parts, of, doc)
        self._set_version(parts, of, version)
        self._add_parameters(parts, of)
        connect_default = of.properties.get(avro.DEFAULT, ABSENT)
        keeps_all = not self.settings.only_docs_and_defaults and self.settings.has_metadata
        if default is not ABSENT and connect_default is ABSENT and keeps_all:
            parts.parameters[avro.FIELD_DEFAULT] = "true"
        unnamed = parts.schema()
        self._set_name(parts, of)
        parts.optional = parts.optional or optional
        made = parts.schema()
        if default is not ABSENT:
            return self._with_default(made, unnamed, of, default, of_field=True)
        return self._with_default(made, unnamed, of, connect_default, of_field=False)

    def _only_member(self, of: Type) -> Type | None:
        """The member of a union that is none in Connect: it has one, or null beside it."""
        if len(of.items) == 1 and self.settings.flattens_unions:
            return of.items[0]
        if len(of.items) == 2 and any(each.kind == "null" for each in of.items):
            return next((each for each in of.items if each.kind != "null"), None)
        return None

    def _parts(self, of: Type) -> _Parts:
        match of.kind:
            case "bytes" | "fixed":
                return self._bytes(of)
            case "int":
                return self._int(of)
            case "long":
                if _logical_type(of) == "timestamp-millis":
                    return _Parts(ConnectType.INT64, logical.TIMESTAMP_NAME, 1)
                return _Parts(ConnectType.INT64)
            case "array":
                return self._array(of)
            case "map":
                values = self._inner(of.items[0])
                return _Parts(ConnectType.MAP, inner={"key_schema": STRING, "value_schema": values})
            case "record":
                return self._record(of)
            case "enum":
                return self._enum(of)
            case "union":
                return self._union(of)
            case "null":
                raise DataError("Standalone null schemas are not supported by this converter")
        return _Parts(_SIMPLE[of.kind])

    def _inner(self, of: Type) -> Schema | None:
        return None if of.full_name == avro.ANYTHING else self.schema(of)

    def _bytes(self, of: Type) -> _Parts:
        made = _Parts(ConnectType.BYTES)
        if _logical_type(of) == "decimal":
            scale, precision = of.properties.get("scale"), of.properties.get("precision")
            made = _Parts(ConnectType.BYTES, logical.DECIMAL_NAME, 1)
            made.parameters[logical.SCALE] = str(_whole(scale) or 0)
            if precision is not None:
                if (digits := _whole(precision)) is None:
                    raise DataError(f"precision property must be a JSON Integer, found {precision!r}")
                if digits != avro.PRECISION_DEFAULT:
                    made.parameters[avro.PRECISION] = str(digits)
        if of.kind == "fixed":
            made.parameters[avro.FIXED_SIZE] = str(of.size)
        return made

    def _int(self, of: Type) -> _Parts:
        match _logical_type(of):
            case "date":
                return _Parts(ConnectType.INT32, logical.DATE_NAME, 1)
            case "time-millis":
                return _Parts(ConnectType.INT32, logical.TIME_NAME, 1)
            case str():
                return _Parts(ConnectType.INT32)
        found = of.properties.get(avro.TYPE)
        if not isinstance(found, str):
            return _Parts(ConnectType.INT32)
        type_ = _CONNECT_TYPES.get(found)
        if type_ is None:
            raise DataError(
                f"Connect type annotation for Avro int field is {found!r}, expected int8 or int16"
            )
        return _Parts(type_)

    def _array(self, of: Type) -> _Parts:
        element = of.items[0]
        if not is_map_entry(element):
            return _Parts(ConnectType.ARRAY, inner={"value_schema": self._inner(element)})
        found = {each.name: each.type for each in element.fields}
        if found.keys() != {avro.KEY, avro.VALUE}:
            raise DataError(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected "
                f"format: {sorted(found)}"
            )
        parts = {"key_schema": self._inner(found[avro.KEY]), "value_schema": self._inner(found[avro.VALUE])}
        return _Parts(ConnectType.MAP, inner=parts)

    def _record(self, of: Type) -> _Parts:
        made = _Parts(ConnectType.STRUCT)
        keeps_docs = self.settings.has_metadata and not self.settings.only_docs_and_defaults
        if keeps_docs and of.doc is not None:
            made.parameters[avro.RECORD_DOC] = of.doc
        fields: dict[str, Schema] = {}
        for each in of.fields:
            if keeps_docs and each.doc is not None:
                made.parameters[avro.FIELD_DOC + each.name] = each.doc
            fields[each.name] = self.schema(each.type, default=each.default, doc=each.doc)
        made.inner["fields"] = Schema.struct(fields).fields
        return made

    def _enum(self, of: Type) -> _Parts:
        made = _Parts(ConnectType.STRING)
        assert of.name is not None
        only_fields = self.settings.only_docs_and_defaults
        if self.settings.has_metadata and of.doc is not None:
            made.parameters[avro.ENUM_DOC_ONLY if only_fields else avro.ENUM_DOC + of.name.name] = of.doc
        if self.settings.has_metadata and not only_fields and of.symbol_default is not None:
            made.parameters[avro.ENUM_DEFAULT + of.name.name] = of.symbol_default
        made.parameters[avro.ENUM] = of.full_name
        made.parameters |= {f"{avro.ENUM}.{each}": each for each in of.symbols}
        return made

    def _union(self, of: Type) -> _Parts:
        fields: dict[str, Schema] = {}
        for each in of.items:
            if each.kind == "null":
                continue
            name = self.member_name(each)
            if name in fields:
                raise DataError("Multiple union schemas map to the Connect union field name")
            fields[name] = self.schema(each, optional=True)
        has_null = any(each.kind == "null" for each in of.items)
        inner = {"fields": Schema.struct(fields).fields}
        return _Parts(ConnectType.STRUCT, avro.UNION, optional=has_null, inner=inner)

    def member_name(self, of: Type) -> str:
        """Return the name of the field that stands for a member of a union."""
        if of.kind not in NAMED:
            return of.kind
        assert of.name is not None
        return of.full_name if self.settings.enhanced else of.name.name

    def _describe(self, parts: _Parts, of: Type, field_doc: str | None) -> None:
        connect_doc = of.properties.get(avro.DOC)
        if self.settings.only_docs_and_defaults:
            parts.doc = next(
                (each for each in (field_doc, of.doc, connect_doc) if isinstance(each, str)), None
            )
            if self.settings.has_metadata and of.doc is not None:
                parts.parameters[avro.RECORD_DOC_ONLY] = of.doc
        elif self.settings.has_metadata and isinstance(connect_doc, str):
            parts.doc = connect_doc

    def _set_version(self, parts: _Parts, of: Type, version: int | None) -> None:
        """Set the version; one of the schema's own takes priority over that of the subject."""
        own = of.properties.get(avro.VERSION)
        found = version if own is None else _whole(own)
        if own is not None and found is None:
            raise DataError(f"Invalid Connect version found: {own!r}")
        if found is None or found < 0:
            return
        if parts.version not in (None, found):
            raise DataError(
                f"Mismatched versions: version already added to the schema ({parts.version}) differs from "
                f"version in source schema ({found})"
            )
        parts.version = found

    def _add_parameters(self, parts: _Parts, of: Type) -> None:
        given = of.properties.get(avro.PARAMETERS)
        if self.settings.has_metadata and given is not None:
            if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
                raise DataError(f"Expected schema parameter values to be strings but found: {given!r}")
            parts.parameters |= given
        for name, value in of.properties.items():
            if name.startswith(avro.AVRO_PREFIX):
                parts.parameters[name] = value if isinstance(value, str) else str(value)

    def _set_name(self, parts: _Parts, of: Type) -> None:
        name = of.properties.get(avro.NAME)
        if name is None and (of.kind in ("record", "enum") or (of.kind == "fixed" and parts.name is None)):
            name = of.full_name
        if name is None:
            return
        if not isinstance(name, str):
            raise DataError(f"Invalid schema name: {name!r}")
        if name.startswith(f"{avro.NAMESPACE}.{avro.DEFAULT_NAME}"):
            return
        if parts.name not in (None, name):
            raise DataError(
                f"Mismatched names: name already added to the schema ({parts.name}) differs from name in "
                f"source schema ({name})"
            )
        parts.name = name

    def _with_default(
        self, made: Schema, unnamed: Schema, of: Type, given: Json, *, of_field: bool
    ) -> Schema:
        """Add a default; one that does not fit is left out, as in Confluent's converter."""
        if given is ABSENT or (made.type is ConnectType.STRUCT and not is_union(made)):
            return made
        try:
            default = self._default(unnamed, of, given, of_field=of_field)
            validate_value(unnamed, default, "default value")
        except DataError:
            return made
        return replace(made, default=default)

    def _default(self, schema: Schema | None, of: Type, given: Json, *, of_field: bool) -> Any:
        """Return the value that the JSON of a default stands for.

        Of a union inside, it is the first member, by which Avro reads most defaults of fields.
        """
        if schema is None:
            return None
        member = self._only_member(of) if of.kind == "union" and of_field else None
        if member is not None and (of.items[0] is member or isinstance(given, bool | dict)):
            return self._default(schema, member, given, of_field=of_field)
        if given is None and (of.kind != "union" or of.items[0].kind == "null" or of_field):
            return None
        value = self._plain_default(schema, of, given, of_field)
        if value is None:
            return None
        match schema.name:
            case logical.DECIMAL_NAME:
                return logical.decimal_of_bytes(value, logical.scale_parameter(schema))
            case logical.DATE_NAME:
                return logical.date_of(value)
            case logical.TIME_NAME:
                return logical.time_of(value)
            case logical.TIMESTAMP_NAME:
                return logical.timestamp_of(value)
        return value

    def _plain_default(self, schema: Schema, of: Type, given: Json, of_field: bool) -> Any:
        match of.kind:
            case "int" | "long":
                return wrapped(low_bits(given, 64) if _is_number(given) else 0, _BITS[schema.type])
            case "float" | "double":
                number = float64(given) if _is_number(given) else 0.0
                return float32(number) if of.kind == "float" else number
            case "boolean":
                return given is True
            case "string" | "enum":
                return given if isinstance(given, str) else str(given)
            case "bytes" | "fixed":
                if not isinstance(given, str):
                    raise DataError(f"Invalid binary data in default value: {given!r}")
                return given.encode("latin-1", "replace")
        return self._default_of_parts(schema, of, given, of_field)

    def _default_of_parts(self, schema: Schema, of: Type, given: Json, of_field: bool) -> Any:
        convert = partial(self._default, of_field=of_field)
        match of.kind, given:
            case "array", [] if schema.type is ConnectType.MAP and of_field:
                return {}
            case "array", list() if schema.type is ConnectType.MAP:
                raise DataError("the entries of a map are no pairs in Avro")
            case "array", list():
                return [convert(schema.value_schema, of.items[0], each) for each in given]
            case "map", dict():
                entry = schema.value_schema
                return {name: convert(entry, of.items[0], each) for name, each in given.items()}
            case "record", dict():
                pairs = zip(schema.fields, of.fields, strict=True)
                values_of = [convert(one.schema, other.type, given.get(one.name)) for one, other in pairs]
                return Struct.of_values(schema, values_of)
            case "union", _:
                first = of.items[0]
                if first.kind == "null":
                    return None
                member = schema.field(self.member_name(first))
                return convert(None if member is None else member.schema, first, given)
        raise DataError(f"Invalid JSON for {of.kind} default value: {given!r}")


def is_map_entry(of: Type) -> bool:
    """Whether a record is one entry of a map whose keys are no strings."""
    if of.kind != "record" or of.name is None:
        return False
    is_named = of.name == (avro.MAP_ENTRY, avro.NAMESPACE)
    return is_named or of.properties.get(avro.INTERNAL_TYPE) == avro.MAP_ENTRY


def _logical_type(of: Type) -> str | None:
    found = of.properties.get("logicalType")
    return found.lower() if isinstance(found, str) else None


def _whole(value: Json) -> int | None:
    """Return a number without its fraction; None if the value is none."""
    return int(value) if _is_number(value) else None


def _is_number(value: Json) -> bool:
    return not isinstance(value, bool | str | list | dict) and value is not None
