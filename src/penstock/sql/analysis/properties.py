"""WITH (…): which properties there are, and what they may be set to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.errors import SqlError, listed
from penstock.sql.keywords import WINDOW_UNITS
from penstock.sql.statements import Property, WindowKind

FORMATS: Final = ("AVRO", "DELIMITED", "JSON", "JSON_SR", "KAFKA", "NONE", "PROTOBUF", "PROTOBUF_NOSR")
# Formats whose columns a schema registry knows.
REGISTERED_FORMATS: Final = ("AVRO", "JSON_SR", "PROTOBUF")

_TEXTS: Final = """
    KAFKA_TOPIC FORMAT KEY_FORMAT VALUE_FORMAT KEY_DELIMITER VALUE_DELIMITER TIMESTAMP TIMESTAMP_FORMAT
    WINDOW_TYPE WINDOW_SIZE KEY_SCHEMA_FULL_NAME VALUE_SCHEMA_FULL_NAME VALUE_AVRO_SCHEMA_FULL_NAME
    KEY_PROTOBUF_NULLABLE_REPRESENTATION VALUE_PROTOBUF_NULLABLE_REPRESENTATION CLEANUP_POLICY
"""
_NUMBERS: Final = frozenset(["PARTITIONS", "REPLICAS", "KEY_SCHEMA_ID", "VALUE_SCHEMA_ID", "RETENTION_MS"])
_FLAGS: Final = frozenset(["WRAP_SINGLE_VALUE"])
_KNOWN: Final = frozenset(_TEXTS.split()) | _NUMBERS | _FLAGS


# What is for one side's format alone: the end of the property's name, and the formats that know it.
_OF_FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "DELIMITER": ("DELIMITED",),
    "SCHEMA_FULL_NAME": REGISTERED_FORMATS,
    "AVRO_SCHEMA_FULL_NAME": ("AVRO",),
    "SCHEMA_ID": REGISTERED_FORMATS,
    "PROTOBUF_NULLABLE_REPRESENTATION": ("PROTOBUF", "PROTOBUF_NOSR"),
}
# What a result has from its source, where both are in the same format and it sets nothing else.
_INHERITED: Final[dict[str, tuple[str, ...]]] = {
    "DELIMITED": ("DELIMITER",),
    "PROTOBUF": ("SCHEMA_FULL_NAME",),
    "PROTOBUF_NOSR": ("PROTOBUF_NULLABLE_REPRESENTATION",),
}


@dataclass(frozen=True)
class DefaultFormats:
    """What a server takes where a CREATE doesn't say it: ksql.persistence.default.format.key and .value, and
    whether a single value stands in a record, ksql.persistence.wrap.single.values.
    """

    key: str = "KAFKA"
    value: str | None = None
    wraps_single_values: bool = True


STANDARD_FORMATS: Final = DefaultFormats()


@dataclass(frozen=True)
class Settings:
    """The properties of one statement, checked."""

    texts: dict[str, str]
    numbers: dict[str, int]

    @classmethod
    def of(cls, properties: Iterable[Property], text: str) -> Settings:
        texts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for each in properties:
            name = each.name.upper()
            try:
                if name in _NUMBERS:
                    numbers[name] = _number(name, each.value)
                else:
                    texts[name] = _text(name, each.value)
            except SqlError as error:
                start = each.value.meta.get("start")
                raise (error if start is None else error.at(text, start)) from None
        return cls(texts, numbers)

    def format(self, side: str, default: str | None) -> str:
        """The KEY's or VALUE's format, in upper case."""
        if "FORMAT" in self.texts and f"{side}_FORMAT" in self.texts:
            raise SqlError(f"found FORMAT beside {side}_FORMAT, expected one of them")
        found = self.texts.get(f"{side}_FORMAT", self.texts.get("FORMAT", default))
        if found is None:
            raise SqlError(f"found no {side}_FORMAT, expected it or FORMAT in WITH (…)")
        if found.upper() not in FORMATS:
            raise SqlError(f"found the format {found}, expected {listed(FORMATS)}")
        return found.upper()

    def check_side(self, side: str, format_: str) -> None:
        """That what is set for the KEY's or VALUE's format is for this format, and not empty."""
        for end, formats in _OF_FORMATS.items():
            name = f"{side}_{end}"
            if name not in self.texts and name not in self.numbers:
                continue
            if format_ not in formats:
                raise SqlError(f"found {name} with the format {format_}, expected {listed(formats)} for it")
            if not self.texts.get(name, "x").strip(" " if end != "DELIMITER" else ""):
                raise SqlError(f"found an empty text for {name}, expected one that is not empty")

    def inherited(self, side: str, format_: str, source_settings: Mapping[str, str]) -> dict[str, str]:
        """What a source's settings say for a result of the same format."""
        names = (f"{side}_{end}" for end in _INHERITED.get(format_, ()))
        return {
            name: source_settings[name]
            for name in names
            if name in source_settings and name not in self.texts
        }

    def window(self) -> tuple[WindowKind, int | None] | None:
        """What WINDOW_TYPE and WINDOW_SIZE say."""
        kind, size = self.texts.get("WINDOW_TYPE"), self.texts.get("WINDOW_SIZE")
        if kind is None:
            if size is not None:
                raise SqlError("found WINDOW_SIZE without WINDOW_TYPE, expected both")
            return None
        names = tuple(each.value for each in WindowKind)
        if kind.upper() not in names:
            raise SqlError(f"found WINDOW_TYPE {kind}, expected {listed(names)}")
        made = WindowKind(kind.upper())
        if (size is None) is not (made is WindowKind.SESSION):
            raise SqlError(
                f"found WINDOW_TYPE {made.value} {'without' if size is None else 'with'} WINDOW_SIZE, "
                "expected a size for TUMBLING and HOPPING alone"
            )
        return made, None if size is None else _duration_ms(size)


def _duration_ms(text: str) -> int:
    words = text.upper().split()
    if len(words) != 2 or not words[0].isdecimal() or words[1] not in WINDOW_UNITS:
        raise SqlError(f"found WINDOW_SIZE {text!r}, expected a number and a unit, such as '10 SECONDS'")
    return int(words[0]) * WINDOW_UNITS[words[1]]


def _number(name: str, value: exp.Expr) -> int:
    text = value.name if isinstance(value, exp.Literal) else ""
    if not text.isdecimal() or (int(text) == 0 and name in ("PARTITIONS", "REPLICAS")):
        raise SqlError(f"found {value.name or value.key} for {name}, expected a positive integer")
    return int(text)


def _text(name: str, value: exp.Expr) -> str:
    if name not in _KNOWN:
        raise SqlError(f"found the property {name}, expected one of {', '.join(sorted(_KNOWN))}")
    if name in _FLAGS:
        if not isinstance(value, exp.Boolean):
            raise SqlError(f"found {value.name or value.key} for {name}, expected TRUE or FALSE")
        return "true" if value.this else "false"
    if not isinstance(value, exp.Literal) or not value.is_string:
        raise SqlError(f"found {value.name or value.key} for {name}, expected a text in quotes")
    return value.name
