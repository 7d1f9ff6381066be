"""The types of configuration values, and how their text is parsed and printed, as Kafka does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from penstock.connect.errors import ConfigInvalid
from penstock.java.numbers import double_text, parse_double

FindClass = Callable[[str], str | None]
"""The full name of the class that a name or an alias stands for, or None if there is no such class."""

COMMA: Final = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
INTEGER: Final = re.compile(r"[+-]?\d+")
SPACE: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""


class ConfigType(Enum):
    """The type of a configuration value; the comment names what `ConfigDef.parse` makes of its text.

    A CLASS value is the name of a class, not the class: the worker's plugins find and load it.
    """

    BOOLEAN = "BOOLEAN"  # bool
    STRING = "STRING"  # str without surrounding white space
    INT = "INT"  # int of 32 bits
    SHORT = "SHORT"  # int of 16 bits
    LONG = "LONG"  # int of 64 bits
    DOUBLE = "DOUBLE"  # float
    LIST = "LIST"  # list of str, from text separated by commas
    CLASS = "CLASS"  # str, the name of a class
    PASSWORD = "PASSWORD"  # Password, which never prints its value


BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
EXPECTED_INTEGER: Final = {
    ConfigType.SHORT: "a 16-bit integer (short)",
    ConfigType.INT: "a 32-bit integer",
    ConfigType.LONG: "a 64-bit integer (long)",
}


@dataclass(frozen=True)
class Password:
    """A secret. Only `value` shows it: neither `str` nor `repr` do."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "[hidden]"


def parse_type(name: str, value: object, type_: ConfigType, find_class: FindClass | None = None) -> Any:
    """Parse the value of the configuration `name`; a value that has the type already is kept.

    Without `find_class`, any name of a class is accepted.

    Raises:
        ConfigInvalid: the value does not fit its type.
    """
    if value is None:
        return None
    text = value.strip(SPACE) if isinstance(value, str) else None
    match type_:
        case ConfigType.BOOLEAN:
            if isinstance(value, bool):
                return value
            if text is None or text.lower() not in ("true", "false"):
                raise invalid(name, value, "Expected value to be either true or false")
            return text.lower() == "true"
        case ConfigType.STRING:
            return text if text is not None else refuse(name, value, "a string")
        case ConfigType.PASSWORD:
            if isinstance(value, Password):
                return value
            return Password(text) if text is not None else refuse(name, value, "a string")
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            return parse_integer(name, value, text, type_)
        case ConfigType.DOUBLE:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
            return parse_number(name, value, text) if text is not None else refuse(name, value, "a double")
        case ConfigType.LIST:
            if isinstance(value, list | tuple):
                return list(value)
            if text is None:
                raise invalid(name, value, "Expected a comma separated list.")
            return COMMA.split(text) if text else []
        case ConfigType.CLASS:
            return parse_class(name, value, text, find_class)


def invalid(name: str, value: object, problem: str) -> ConfigInvalid:
    """The error for a value that cannot be used, in Kafka's words."""
    return ConfigInvalid(f"Invalid value {java_text(value)} for configuration {name}: {problem}")


def refuse(name: str, value: object, expected: str) -> Any:
    found = type(value).__name__
    raise invalid(name, value, f"Expected value to be {expected}, but it was a {found}")


def parse_integer(name: str, value: object, text: str | None, type_: ConfigType) -> int:
    if text is not None:
        number = int(text) if INTEGER.fullmatch(text) else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        refuse(name, value, EXPECTED_INTEGER[type_])
    limit = 1 << (BITS[type_] - 1)
    if number is None or not -limit <= number < limit:
        raise invalid(name, value, f"Not a number of type {type_.name}")
    return number


def parse_number(name: str, value: object, text: str) -> float:
    if (number := parse_double(text)) is None:
        raise invalid(name, value, "Not a number of type DOUBLE")
    return number


def parse_class(name: str, value: object, text: str | None, find_class: FindClass | None) -> str:
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if text is None:
        raise invalid(name, value, "Expected a Class instance or class name.")
    found = text if find_class is None else find_class(text)
    if found is None:
        raise invalid(name, value, f"Class {value} could not be found.")
    return found


def printed(value: Any) -> str | None:
    """Print a parsed value as text that can be parsed again, except that a password stays hidden."""
    if isinstance(value, list):
        return ",".join(map(java_text, value))
    return None if value is None else java_text(value)


def java_text(value: object) -> str:
    """Print a value as Java does, as messages show it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case list() | tuple():
            return f"[{', '.join(map(java_text, value))}]"
        case _:
            return str(value)
