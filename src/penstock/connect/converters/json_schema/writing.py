"""Writes values as Confluent's JsonSchemaConverter does, where that differs from JsonConverter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.connect.converters.json.writing import Write, Writing, misfit
from penstock.connect.converters.json_schema.settings import KEY, VALUE, is_object_map, is_union
from penstock.connect.data.json_text import quoted
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaWriting(Writing):
    """The settings of a converter for writing values.

    A required field without a value is left out, and a map whose keys are not strings is an array of objects.
    """

    def _struct(self, schema: Schema) -> Write:
        if is_union(schema):
            return self._union(schema)
        fields = [(f"{quoted(each.name)}:", self._field(each.schema)) for each in schema.fields]

        def write(value: Any) -> str:
            if not isinstance(value, Struct):
                raise misfit(schema, value)
            if value.schema is not schema and value.schema != schema:
                raise DataError(f"Mismatching schema: the struct has {value.schema}, expected {schema}")
            texts = []
            for (name, write_field), each in zip(fields, value.own_values, strict=True):
                text = write_field(each)
                if text:
                    texts.append(f"{name}{text}")
            return f"{{{','.join(texts)}}}"

        return write

    def _field(self, schema: Schema) -> Write:
        """Make the function that writes a field; an empty text leaves it out."""
        write = self.writer(schema)
        if schema.optional or (schema.default is not None and self.replaces_nulls):
            return write

        def write_or_leave_out(value: Any) -> str:
            return "" if value is None else write(value)

        return write_or_leave_out

    def _union(self, schema: Schema) -> Write:
        members = [(each.schema, self._plain_or_logical(each.schema)) for each in schema.fields]

        def write(value: Any) -> str:
            if not isinstance(value, Struct) or value.schema != schema:
                raise misfit(schema, value)
            for (member, write_member), each in zip(members, value.own_values, strict=True):
                found = member.default if each is None and self.replaces_nulls else each
                if found is not None:
                    return write_member(found)
            if schema.optional:
                return "null"
            raise DataError("null value for a required union: no member has a value")

        return write

    def _plain_or_logical(self, schema: Schema) -> Write:
        return self._logical(schema) or self._plain(schema)

    def _map(self, schema: Schema) -> Write:
        if is_object_map(schema):
            return Writing._map(self, schema)
        write_key, write_value = self.writer(schema.key_schema), self.writer(schema.value_schema)
        key_name, value_name = quoted(KEY), quoted(VALUE)

        def write(value: Any) -> str:
            if not isinstance(value, dict):
                raise misfit(schema, value)
            pairs = [(write_key(key), write_value(each)) for key, each in value.items()]
            return f"[{','.join([f'{{{key_name}:{key},{value_name}:{each}}}' for key, each in pairs])}]"

        return write
