"""The properties of WITH (…) and their allowed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.language.errors import SqlError, listed, shortened
from penstock.sql.language.expression_printing import print_expression
from penstock.sql.language.keywords import DURATION_DAYS_MAX, DURATION_MS_MAX, WINDOW_UNITS
from penstock.sql.language.statements import Property, WindowKind

FORMATS: Final = ("AVRO", "DELIMITED", "JSON", "JSON_SR", "KAFKA", "NONE", "PROTOBUF", "PROTOBUF_NOSR")
REGISTERED_FORMATS: Final = ("AVRO", "JSON_SR", "PROTOBUF")
"""Formats whose schemas are in a schema registry."""

_TEXTS: Final = """
    KAFKA_TOPIC FORMAT KEY_FORMAT VALUE_FORMAT KEY_DELIMITER VALUE_DELIMITER TIMESTAMP TIMESTAMP_FORMAT
    WINDOW_TYPE WINDOW_SIZE KEY_SCHEMA_FULL_NAME VALUE_SCHEMA_FULL_NAME VALUE_AVRO_SCHEMA_FULL_NAME
    KEY_PROTOBUF_NULLABLE_REPRESENTATION VALUE_PROTOBUF_NULLABLE_REPRESENTATION CLEANUP_POLICY
"""
_NUMBERS: Final = {
    "PARTITIONS": range(1, 2**31),
    "REPLICAS": range(1, 2**15),
    "KEY_SCHEMA_ID": range(2**31),
    "VALUE_SCHEMA_ID": range(2**31),
    "RETENTION_MS": range(-1, 2**63),
}
"""The range of each integer property, as wide as its field in Kafka's protocol. -1 is unlimited retention."""
_FLAGS: Final = frozenset(["WRAP_SINGLE_VALUE"])
_KNOWN: Final = frozenset(_TEXTS.split()) | frozenset(_NUMBERS) | _FLAGS


_OF_FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "DELIMITER": ("DELIMITED",),
    "SCHEMA_FULL_NAME": REGISTERED_FORMATS,
    "AVRO_SCHEMA_FULL_NAME": ("AVRO",),
    "SCHEMA_ID": REGISTERED_FORMATS,
    "PROTOBUF_NULLABLE_REPRESENTATION": ("PROTOBUF", "PROTOBUF_NOSR"),
}
"""The formats that support each format property, by the property's name without KEY_ or VALUE_."""
_INHERITED: Final[dict[str, tuple[str, ...]]] = {
    "DELIMITED": ("DELIMITER",),
    "PROTOBUF": ("SCHEMA_FULL_NAME",),
    "PROTOBUF_NOSR": ("PROTOBUF_NULLABLE_REPRESENTATION",),
}
"""The properties that a result inherits from a source of the same format, unless its statement sets them."""


@dataclass(frozen=True)
class DefaultFormats:
    """A server's defaults for CREATE.

    They are ksql.persistence.default.format.key and .value, and ksql.persistence.wrap.single.values, whether
    to wrap a single value in a record.
    """

    key: str = "KAFKA"
    value: str | None = None
    wraps_single_values: bool = True


STANDARD_FORMATS: Final = DefaultFormats()


@dataclass(frozen=True)
class Settings:
    """The validated properties of one statement. ``starts`` are the offsets of their values in ``text``."""

    texts: dict[str, str]
    numbers: dict[str, int]
    text: str
    starts: dict[str, int]

    @classmethod
    def of(cls, properties: Iterable[Property], text: str) -> Settings:
        texts: dict[str, str] = {}
        numbers: dict[str, int] = {}
        starts: dict[str, int] = {}
        for each in properties:
            name = each.name.upper()
            if name not in _KNOWN:
                problem = f"found the property {name}, expected one of {', '.join(sorted(_KNOWN))}"
                raise SqlError(problem).at(text, each.start)
            starts[name] = each.value.meta.get("start", each.start)
            try:
                if name in _NUMBERS:
                    numbers[name] = _number(name, each.value)
                else:
                    texts[name] = _text(name, each.value)
            except SqlError as error:
                raise error.at(text, starts[name]) from None
        return cls(texts, numbers, text, starts)

    def error(self, problem: str, *names: str) -> SqlError:
        """Make an error at the place of the first of these properties that is set."""
        found = next((self.starts[name] for name in names if name in self.starts), None)
        return SqlError(problem) if found is None else SqlError(problem).at(self.text, found)

    def format(self, side: str, default: str | None) -> str:
        """The format of one side, KEY or VALUE, in upper case."""
        if "FORMAT" in self.texts and f"{side}_FORMAT" in self.texts:
            raise self.error(f"found FORMAT beside {side}_FORMAT, expected one of them", f"{side}_FORMAT")
        found = self.texts.get(f"{side}_FORMAT", self.texts.get("FORMAT", default))
        if found is None:
            raise SqlError(f"found no {side}_FORMAT, expected it or FORMAT in WITH (…)")
        if found.upper() not in FORMATS:
            problem = f"found the format {found}, expected {listed(FORMATS)}"
            raise self.error(problem, f"{side}_FORMAT", "FORMAT")
        return found.upper()

    def check_side(self, side: str, format_: str) -> None:
        """Check that the format properties of one side, KEY or VALUE, fit its format and are not empty."""
        for end, formats in _OF_FORMATS.items():
            name = f"{side}_{end}"
            if name not in self.texts and name not in self.numbers:
                continue
            if format_ not in formats:
                problem = f"found {name} with the format {format_}, expected {listed(formats)} for it"
                raise self.error(problem, name)
            if not self.texts.get(name, "x").strip(" " if end != "DELIMITER" else ""):
                raise self.error(f"found an empty text for {name}, expected one that is not empty", name)

    def inherited(self, side: str, format_: str, source_settings: Mapping[str, str]) -> dict[str, str]:
        """The settings that a result inherits from a source of the same format."""
        names = (f"{side}_{end}" for end in _INHERITED.get(format_, ()))
        return {
            name: source_settings[name]
            for name in names
            if name in source_settings and name not in self.texts
        }

    def window(self) -> tuple[WindowKind, int | None] | None:
        """The window that WINDOW_TYPE and WINDOW_SIZE define, with its size in ms."""
        kind, size = self.texts.get("WINDOW_TYPE"), self.texts.get("WINDOW_SIZE")
        if kind is None:
            if size is not None:
                raise self.error("found WINDOW_SIZE without WINDOW_TYPE, expected both", "WINDOW_SIZE")
            return None
        names = tuple(each.value for each in WindowKind)
        if kind.upper() not in names:
            raise self.error(f"found WINDOW_TYPE {kind}, expected {listed(names)}", "WINDOW_TYPE")
        made = WindowKind(kind.upper())
        if (size is None) is not (made is WindowKind.SESSION):
            problem = (
                f"found WINDOW_TYPE {made.value} {'without' if size is None else 'with'} WINDOW_SIZE, "
                "expected a size only for TUMBLING and HOPPING"
            )
            raise self.error(problem, "WINDOW_SIZE", "WINDOW_TYPE")
        return made, None if size is None else self._duration_ms(size)

    def _duration_ms(self, text: str) -> int:
        shown, words = shortened(text), text.upper().split()
        if len(words) != 2 or not words[0].isdecimal() or words[1] not in WINDOW_UNITS:
            problem = f"found WINDOW_SIZE {shown!r}, expected a number and a unit, such as '10 SECONDS'"
            raise self.error(problem, "WINDOW_SIZE")
        duration = int(words[0][:20]) * WINDOW_UNITS[words[1]]
        if not 0 < duration <= DURATION_MS_MAX:
            problem = f"found WINDOW_SIZE {shown!r}, expected more than 0, and up to {DURATION_DAYS_MAX} DAYS"
            raise self.error(problem, "WINDOW_SIZE")
        return duration


def _number(name: str, value: exp.Expr) -> int:
    sign, digits = (-1, value.this) if isinstance(value, exp.Neg) else (1, value)
    text = digits.name if isinstance(digits, exp.Literal) else ""
    allowed = _NUMBERS[name]
    if not text.isdecimal() or sign * int(text) not in allowed:
        least, most = allowed[0], allowed.stop - 1
        raise SqlError(f"found {_shown(value)} for {name}, expected an integer from {least} to {most}")
    return sign * int(text)


def _text(name: str, value: exp.Expr) -> str:
    if name in _FLAGS:
        if not isinstance(value, exp.Boolean):
            raise SqlError(f"found {_shown(value)} for {name}, expected TRUE or FALSE")
        return "true" if value.this else "false"
    if not isinstance(value, exp.Literal) or not value.is_string:
        raise SqlError(f"found {_shown(value)} for {name}, expected a text in quotes")
    return value.name


def _shown(value: exp.Expr) -> str:
    return shortened(print_expression(value))
