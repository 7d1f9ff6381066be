"""The definition of one config key: its name, type, default and rule, and the parsing of its values.

The keys are listed in ``tables/`` as text, with two lines per key, so that the reference is easy to read::

    log.cleaner.threads: int = 1 [0..] cluster-wide
        Workers that compact logs.

The name is followed by

- the type;
- ``= default`` (without it the default is null; ``""`` is the empty string; ``required`` means no default);
- a rule (``[min..max]``, ``{one, of}``, ``any-case {one, of}``, ``not-empty`` or the name of a check in
  ``rules``);
- ``cluster-wide`` or ``per-broker`` if the value can change without a restart (KIP-226);
- ``internal`` if DescribeConfigs hides the key until it is set;
- ``<- broker, configs`` that provide the default of a topic or group, nearest first.

Errors repeat Kafka's messages word for word, because admin clients show and match them. Where a value is a
number with a unit, such as 1h, the message continues with the unit that is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

ConfigValue: TypeAlias = bool | int | float | str | list[str] | None


class Problem(NamedTuple):
    """The reason why a value is invalid, with the offending part as Kafka prints it."""

    found: str
    reason: str


Rule: TypeAlias = Callable[[str, ConfigValue], Problem | None]
"""A check that takes a key's name and its typed value, and returns a problem or None."""

_REQUIRED: Final = "required"
_RANGES: Final = {"INT": 31, "SHORT": 15, "LONG": 63}


class InvalidConfig(ValueError):
    """A config is unknown or has an invalid value; ``key`` names the config."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class ConfigType(IntEnum):
    """The types of config values, by their number in DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """Whether a broker config can change without a restart, and for which brokers (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigKey(NamedTuple):
    """One row of the reference; ``default`` is in Kafka's text form, and None means null."""

    name: str
    type: ConfigType
    default: str | None
    required: bool
    rule: Rule | None
    expected: str
    update_mode: UpdateMode
    internal: bool
    synonyms: tuple[str, ...]
    doc: str

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str | None) -> ConfigValue:
        """Parse ``text`` into the typed value.

        Raises InvalidConfig with the value found and the values expected.
        """
        value = None if text is None else parse_value(self.name, self.type, text)
        if self.rule is not None and (problem := self.rule(self.name, value)):
            raise invalid(self.name, problem.found, problem.reason)
        return value


def invalid(name: str, found: str, reason: str) -> InvalidConfig:
    """Create the error for an invalid value of ``name``."""
    return InvalidConfig(name, f"Invalid value {found} for configuration {name}: {reason}")


def parse_value(name: str, type_: ConfigType, text: str) -> ConfigValue:
    """Parse ``text`` as a value of ``type_``, like Kafka's ConfigDef.parseType."""
    match type_:
        case ConfigType.BOOLEAN:
            return _parse_boolean(name, text)
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _parse_integer(name, type_, text)
        case ConfigType.DOUBLE:
            return _parse_double(name, text)
        case ConfigType.LIST:
            return split_list(text)
        case ConfigType.STRING | ConfigType.CLASS:
            return text.strip()
        case ConfigType.PASSWORD:
            return text


def split_list(text: str) -> list[str]:
    """Split a comma-separated list into its items; an empty text has none."""
    stripped = text.strip()
    return [item.strip() for item in stripped.split(",")] if stripped else []


def _parse_boolean(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    raise invalid(name, text, "Expected value to be either true or false")


_INTEGER = re.compile(r"[+-]?[0-9]+")


def _parse_integer(name: str, type_: ConfigType, text: str) -> int:
    stripped = text.strip()
    bits = _RANGES[type_.name]
    if _INTEGER.fullmatch(stripped) and len(stripped) <= 20:
        value = int(stripped)
        if -(1 << bits) <= value < 1 << bits:
            return value
    raise invalid(name, text, f"Not a number of type {type_.name}{_unit_hint(name, stripped)}")


_TIMES_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_MEASURES: Final[Mapping[str, tuple[str, int, Mapping[str, int]]]] = {
    "ms": ("milliseconds", 1, _TIMES_MS),
    "seconds": ("seconds", 1_000, _TIMES_MS),
    "minutes": ("minutes", 60_000, _TIMES_MS),
    "hours": ("hours", 3_600_000, _TIMES_MS),
    "bytes": ("bytes", 1, _SIZES),
}
"""The last word of a name: the unit of its numbers, its size, and the sizes of units that users may write."""

_QUANTITY: Final = re.compile(r"([0-9]{1,18})\s*([A-Za-z]+)")


def _unit_hint(name: str, text: str) -> str:
    """Name the unit of ``name`` if ``text`` is a number with a unit, which Kafka does not accept."""
    found, measure = _QUANTITY.fullmatch(text), _MEASURES.get(name.rpartition(".")[2])
    if found is None or measure is None:
        return ""
    noun, size, factors = measure
    count, rest = divmod(int(found[1]) * factors.get(found[2], 0), size)
    return f", expected {noun}" if rest or not count else f", expected {noun}: {text} is {count}"


def _parse_double(name: str, text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise invalid(name, text, "Not a number of type DOUBLE") from None


_LINE = re.compile(
    r"""(?P<name>[\w.]+): \s (?P<type>\w+)
        (?: \s = \s+ (?P<default>\S+) )?
        (?P<rule> (?: \s (?!cluster-wide|per-broker|internal|<-) (?: \[[^]]*\] | \{[^}]*\} | [\w-]+ ) )* )
        (?: \s (?P<mode>cluster-wide|per-broker) )?
        (?P<internal> \s internal )?
        (?: \s <- \s (?P<synonyms>.+) )?""",
    re.VERBOSE,
)


def read_table(table: str, rule_of: Callable[[str], Rule | None]) -> Iterator[ConfigKey]:
    """Parse the keys of one table of the reference, in its order."""
    lines = table.strip("\n").split("\n")
    for line, doc in zip(lines[::2], lines[1::2], strict=True):
        match = _LINE.fullmatch(line)
        assert match is not None, f"not a config definition: {line}"
        default = match["default"]
        expected = match["rule"].strip()
        yield ConfigKey(
            name=match["name"],
            type=ConfigType[match["type"].upper()],
            default=None if default in (None, _REQUIRED) else "" if default == '""' else default,
            required=default == _REQUIRED,
            rule=rule_of(expected),
            expected=expected,
            update_mode=UpdateMode(match["mode"] or "read-only"),
            internal=match["internal"] is not None,
            synonyms=tuple(split_list(match["synonyms"] or "")),
            doc=doc.strip(),
        )
