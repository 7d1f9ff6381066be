"""ExtractNewRecordState: replaces Debezium's envelope by the row after the change.

Deletes become tombstones, or rows with a mark. A struct of the envelope can be added as a field, where
Debezium stops with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, Final, NamedTuple

from penstock.connect.data.records import Header
from penstock.connect.data.schema import STRING, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import CaseInsensitiveValidString
from penstock.connect.errors import ConfigInvalid, DataError
from penstock.connect.transforms.debezium.event_router import DEBEZIUM_VERSION, ENVELOPE_SUFFIX, is_blank
from penstock.connect.transforms.fields.extract_field import ExtractFieldValue
from penstock.connect.transforms.fields.insert_field import InsertFieldValue
from penstock.connect.transforms.fields.part import filled, require_struct
from penstock.connect.transforms.fields.replace_field import ReplaceFieldKey, ReplaceFieldValue
from penstock.connect.transforms.fields.schemas import SchemaCache, struct_schema
from penstock.connect.transforms.transform import R, Transform

DELETED_FIELD: Final = "__deleted"
_TOP: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})
_TRANSACTION: Final = frozenset({"id", "data_collection_order", "total_order"})


class DeleteHandling(Enum):
    """``delete.tombstone.handling.mode``: what becomes of a deleted row, and of the tombstone after it."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"

    @property
    def rewrites(self) -> bool:
        """Whether rows have a field that tells whether they were deleted."""
        return self in (DeleteHandling.REWRITE, DeleteHandling.REWRITE_WITH_TOMBSTONE)


class _Reference(NamedTuple):
    """A field of the envelope, or of a struct in it, and its name in the new record."""

    struct: str | None
    field: str
    name: str

    def schema(self, envelope: Schema) -> Schema | None:
        """The schema of the new field; None if there is no such field."""
        found = self._parent(envelope).by_name.get(self.field) or envelope.by_name.get(self.field)
        if found is None:
            return None
        return replace(found.schema, optional=True, default=None)

    def value(self, envelope: Struct) -> Any:
        """The value of the field; None without the struct that it belongs to."""
        parent = envelope if self.struct is None else envelope.without_default(self.struct)
        if parent is None:
            return None
        where = parent if self.field in parent.schema.by_name else envelope
        return where.without_default(self.field)

    def _parent(self, envelope: Schema) -> Schema:
        if self.struct is None:
            return envelope
        found = envelope.by_name.get(self.struct)
        if found is None or found.schema.type is not Type.STRUCT:
            raise DataError(f"the envelope has no struct {self.struct}")
        return found.schema


class ExtractNewRecordState(Transform):
    """Unwraps Debezium's envelope."""

    definition = (
        ConfigDef()
        .define(
            "delete.tombstone.handling.mode",
            ConfigType.STRING,
            DeleteHandling.TOMBSTONE.value,
            CaseInsensitiveValidString(*(each.value for each in DeleteHandling)),
            doc="What becomes of deletes and of the tombstones after them.",
        )
        .define("route.by.field", ConfigType.STRING, "", doc="The column that names the topic.")
        .define(
            "add.fields", ConfigType.STRING, "", doc="Fields to add, such as <code>op,source.lsn:lsn</code>."
        )
        .define("add.fields.prefix", ConfigType.STRING, "__", doc="The first part of their names.")
        .define("add.headers", ConfigType.STRING, "", doc="Fields to add as headers.")
        .define("add.headers.prefix", ConfigType.STRING, "__", doc="The first part of their names.")
        .define(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            True,
            doc="Whether defaults take the place of nulls in rewritten rows.",
        )
        .define(
            "drop.fields.header.name",
            ConfigType.STRING,
            None,
            importance=Importance.LOW,
            doc="The header with a list of fields to leave out.",
        )
        .define("drop.fields.from.key", ConfigType.BOOLEAN, False, doc="Whether keys lose these fields, too.")
        .define(
            "drop.fields.keep.schema.compatible",
            ConfigType.BOOLEAN,
            True,
            doc="Whether only optional fields are left out.",
        )
    )
    version = DEBEZIUM_VERSION

    def start(self, config: Mapping[str, Any]) -> None:
        self._handling = DeleteHandling(config["delete.tombstone.handling.mode"].strip().lower())
        self._route = config["route.by.field"]
        self._fields = _references(config["add.fields.prefix"], config["add.fields"])
        self._headers = _references(config["add.headers.prefix"], config["add.headers"])
        self._dropping = (config["drop.fields.header.name"] or "").strip()
        self._drops_from_key = config["drop.fields.from.key"]
        self._only_optional = config["drop.fields.keep.schema.compatible"]
        self._after, self._before = ExtractFieldValue(), ExtractFieldValue()
        self._after.configure({"field": "after"})
        self._before.configure({"field": "before"})
        marked = []
        for is_deleted in ("true", "false"):
            marker = InsertFieldValue()
            nulls = str(config["replace.null.with.default"]).lower()
            marker.configure(
                {
                    "static.field": DELETED_FIELD,
                    "static.value": is_deleted,
                    "replace.null.with.default": nulls,
                }
            )
            marked.append(marker)
        self._mark_deleted, self._mark_kept = marked
        self._schemas: dict[int, tuple[Schema, SchemaCache[Schema]]] = {}

    def apply(self, record: R) -> R | None:
        schema = record.value_schema
        is_envelope = schema is not None and (schema.name or "").endswith(ENVELOPE_SUFFIX)
        if record.value is None:
            made = self._with_headers(record, None)
            return made if self._handling is DeleteHandling.REWRITE_WITH_TOMBSTONE else None
        if not is_envelope:
            return record
        assert schema is not None, "an envelope has a schema"
        envelope = require_struct(record.value, schema, "source field insertion")
        record = self._with_headers(record, envelope)
        if envelope["after"] is not None:
            return self._row(record, envelope)
        return None if envelope["before"] is None else self._deleted(record, envelope)

    def _row(self, record: R, envelope: Struct) -> R:
        made = self._applied(self._after, record)
        if self._handling.rewrites and isinstance(made.value, Struct):
            made = self._applied(self._mark_kept, made)
        if self._route:
            made = _routed(made, _text(made.value, self._route))
        return self._without_dropped(self._with_fields(made, envelope))

    def _deleted(self, record: R, envelope: Struct) -> R | None:
        if self._handling is DeleteHandling.DROP:
            return None
        if self._handling.rewrites:
            made = self._applied(self._before, record)
            if isinstance(made.value, Struct):
                made = self._applied(self._mark_deleted, made)
        elif self._handling is DeleteHandling.TOMBSTONE:
            made = self._applied(self._after, record)
        else:
            made = record.with_value(None, None)
        if self._route:
            made = _routed(made, _text(envelope["before"], self._route))
        made = self._without_dropped(made)
        return made if made.value is None else self._with_fields(made, envelope)

    @staticmethod
    def _applied(transform: Transform, record: R) -> R:
        made = transform.apply(record)
        assert made is not None, "these transforms drop no record"
        return made

    def _with_headers(self, record: R, envelope: Struct | None) -> R:
        added = []
        for each in self._headers:
            if envelope is None:
                if each.field == "op":
                    added.append(Header(each.name, "d", STRING))
            elif (schema := each.schema(envelope.schema)) is not None:
                added.append(Header(each.name, each.value(envelope), schema))
        return record.with_headers((*record.headers, *added)) if added else record

    def _with_fields(self, record: R, envelope: Struct) -> R:
        """The record with the fields to add; its schema is not optional any more."""
        assert record.value_schema is not None, "it was in the envelope"
        row = require_struct(record.value, record.value_schema, "source field insertion")
        found = self._schemas.get(id(envelope.schema))
        if found is None:
            found = envelope.schema, SchemaCache(lambda schema: self._extended(schema, envelope.schema))
            if len(self._schemas) > _ENVELOPES_MAX:
                self._schemas.clear()
            self._schemas[id(envelope.schema)] = found
        schema = found[1].get(row.schema)
        added = [each.value(envelope) for each in self._fields if each.schema(envelope.schema) is not None]
        return record.with_value(schema, filled(schema, [*row.own_values, *added]))

    def _extended(self, schema: Schema, envelope: Schema) -> Schema:
        fields = [(each.name, each.schema) for each in schema.fields]
        for each in self._fields:
            made = each.schema(envelope)
            if made is not None:
                fields.append((each.name, made))
        return struct_schema(fields, schema)

    def _without_dropped(self, record: R) -> R:
        if not self._dropping:
            return record
        names = next((each.value for each in record.headers if each.key == self._dropping), None)
        if not names:
            return record
        if self._drops_from_key and record.key is not None:
            record = self._replaced(ReplaceFieldKey(), record, self._droppable(record.key_schema, names))
        if record.value is None:
            return record
        return self._replaced(ReplaceFieldValue(), record, self._droppable(record.value_schema, names))

    def _droppable(self, schema: Schema | None, names: list[str]) -> list[str]:
        if not self._only_optional or schema is None:
            return list(names)
        return [each.name for each in schema.fields if each.schema.optional and each.name in names]

    def _replaced(self, transform: Transform, record: R, names: list[str]) -> R:
        if not names:
            return record
        transform.configure({"exclude": ",".join(names)})
        return self._applied(transform, record)


_ENVELOPES_MAX: Final = 64
"""Schemas of envelopes whose extended schemas are kept."""


def _references(prefix: str, text: str) -> list[_Reference]:
    made = []
    for entry in (each.strip() for each in text.split(",")) if text else ():
        path, *names = entry.split(":")
        if len(names) > 1:
            raise ConfigInvalid(f"Unexpected field name: {entry}")
        first, *rest = path.split(".")
        field = rest[0] if rest else first
        struct: str | None = first if rest else _struct_of(first)
        own = f"{first}_{field}" if rest else field
        made.append(_Reference(struct, field, prefix + (names[0] if names else own)))
    return made


def _struct_of(field: str) -> str | None:
    """The struct that a field without one belongs to."""
    if field in _TOP:
        return None
    return "transaction" if field in _TRANSACTION else "source"


def _text(row: Any, name: str) -> str | None:
    """A column that names a topic. Raises DataError if there is none, or it is no text."""
    if not isinstance(row, Struct):
        raise DataError(f"found {row!r}; expected a row with the column {name}")
    found: str | None = row.without_default(name)
    if row.schema.by_name[name].schema.type is not Type.STRING:
        raise DataError(f"Field '{name}' is not of type STRING")
    return found


def _routed(record: R, topic: str | None) -> R:
    return record if topic is None or is_blank(topic) else record.with_topic(topic)
