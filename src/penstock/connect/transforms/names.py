"""The transforms and predicates of Kafka Connect and Debezium, by the names of their Java classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from penstock.connect.errors import ConfigInvalid
from penstock.connect.transforms.debezium import EventRouter, ExtractNewRecordState
from penstock.connect.transforms.fields.cast import CastKey, CastValue
from penstock.connect.transforms.fields.extract_field import (
    ExtractFieldKey,
    ExtractFieldValue,
    HoistFieldKey,
    HoistFieldValue,
    ValueToKey,
)
from penstock.connect.transforms.fields.flatten import FlattenKey, FlattenValue
from penstock.connect.transforms.fields.insert_field import InsertFieldKey, InsertFieldValue
from penstock.connect.transforms.fields.mask_field import MaskFieldKey, MaskFieldValue
from penstock.connect.transforms.fields.replace_field import ReplaceFieldKey, ReplaceFieldValue
from penstock.connect.transforms.fields.schema_metadata import SetSchemaMetadataKey, SetSchemaMetadataValue
from penstock.connect.transforms.filtering import Filter, HasHeaderKey, RecordIsTombstone, TopicNameMatches
from penstock.connect.transforms.headers import DropHeaders, HeaderFromKey, HeaderFromValue, InsertHeader
from penstock.connect.transforms.routing import RegexRouter, TimestampRouter
from penstock.connect.transforms.timestamp_converter import TimestampConverterKey, TimestampConverterValue
from penstock.connect.transforms.transform import Predicate, Transform

T = TypeVar("T")

_PACKAGE: Final = "org.apache.kafka.connect.transforms."

TRANSFORMS: Final[Mapping[str, type[Transform]]] = {
    f"{_PACKAGE}Cast$Key": CastKey,
    f"{_PACKAGE}Cast$Value": CastValue,
    f"{_PACKAGE}DropHeaders": DropHeaders,
    f"{_PACKAGE}ExtractField$Key": ExtractFieldKey,
    f"{_PACKAGE}ExtractField$Value": ExtractFieldValue,
    f"{_PACKAGE}Filter": Filter,
    f"{_PACKAGE}Flatten$Key": FlattenKey,
    f"{_PACKAGE}Flatten$Value": FlattenValue,
    f"{_PACKAGE}HeaderFrom$Key": HeaderFromKey,
    f"{_PACKAGE}HeaderFrom$Value": HeaderFromValue,
    f"{_PACKAGE}HoistField$Key": HoistFieldKey,
    f"{_PACKAGE}HoistField$Value": HoistFieldValue,
    f"{_PACKAGE}InsertField$Key": InsertFieldKey,
    f"{_PACKAGE}InsertField$Value": InsertFieldValue,
    f"{_PACKAGE}InsertHeader": InsertHeader,
    f"{_PACKAGE}MaskField$Key": MaskFieldKey,
    f"{_PACKAGE}MaskField$Value": MaskFieldValue,
    f"{_PACKAGE}RegexRouter": RegexRouter,
    f"{_PACKAGE}ReplaceField$Key": ReplaceFieldKey,
    f"{_PACKAGE}ReplaceField$Value": ReplaceFieldValue,
    f"{_PACKAGE}SetSchemaMetadata$Key": SetSchemaMetadataKey,
    f"{_PACKAGE}SetSchemaMetadata$Value": SetSchemaMetadataValue,
    f"{_PACKAGE}TimestampConverter$Key": TimestampConverterKey,
    f"{_PACKAGE}TimestampConverter$Value": TimestampConverterValue,
    f"{_PACKAGE}TimestampRouter": TimestampRouter,
    f"{_PACKAGE}ValueToKey": ValueToKey,
}
"""The transforms by the full names of their classes; the part after the last dot is an alias."""

DEBEZIUM_TRANSFORMS: Final[Mapping[str, type[Transform]]] = {
    "io.debezium.transforms.ExtractNewRecordState": ExtractNewRecordState,
    "io.debezium.transforms.outbox.EventRouter": EventRouter,
}
"""Debezium's transforms by the full names of their classes; the part after the last dot is an alias."""

PREDICATES: Final[Mapping[str, type[Predicate]]] = {
    f"{_PACKAGE}predicates.HasHeaderKey": HasHeaderKey,
    f"{_PACKAGE}predicates.RecordIsTombstone": RecordIsTombstone,
    f"{_PACKAGE}predicates.TopicNameMatches": TopicNameMatches,
}
"""The predicates by the full names of their classes; the part after the last dot is an alias."""


def find_shipped_transform(name: str) -> type[Transform]:
    """Return the transform with this name or alias. Raises ConfigInvalid if Kafka Connect has none."""
    return _find({**TRANSFORMS, **DEBEZIUM_TRANSFORMS}, name, "transform")


def find_shipped_predicate(name: str) -> type[Predicate]:
    """Return the predicate with this name or alias. Raises ConfigInvalid if Kafka Connect has none."""
    return _find(PREDICATES, name, "predicate")


def _find(known: Mapping[str, type[T]], name: str, kind: str) -> type[T]:
    for full, found in known.items():
        if name in (full, full.rpartition(".")[2]):
            return found
    raise ConfigInvalid(f"found the {kind} {name!r}, expected one of {', '.join(sorted(known))}")
