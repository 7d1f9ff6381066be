"""Settings under Kafka's property names: dataclass fields that know their property and how to parse it.

@dataclass(frozen=True, kw_only=True)
class FetchConfig:
    max_wait_ms: int = setting("fetch.max.wait.ms", 500, whole_number(0))

from_properties(FetchConfig, {"fetch.max.wait.ms": "100"})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import PenstockError
from penstock.security.config_providers import InvalidVariable, configures_providers, resolve

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Config = TypeVar("Config", bound=DataclassInstance)

T = TypeVar("T")


class ConfigError(PenstockError, ValueError):
    """A property that is unknown or has a value that cannot be used; the message names both."""


def setting(name: str, default: T, parse: Callable[[str], T], *, is_secret: bool = False) -> T:
    """A dataclass field read from property ``name``; ``parse`` raises ValueError("what was expected").

    Neither errors nor ``repr`` show a secret value.
    """
    made: T = field(default=default, repr=not is_secret, metadata={"name": name, "parse": parse})
    return made


def property_names(*configs: type[DataclassInstance]) -> frozenset[str]:
    return frozenset(f.metadata["name"] for config in configs for f in fields(config) if "name" in f.metadata)


def from_properties(config: type[Config], properties: Mapping[str, str], **known: Any) -> Config:
    """Create an instance from the properties that belong to ``config`` and ignore the others.

    ``known`` holds fields given directly, by field name. Raises ConfigError.
    """
    values: dict[str, Any] = dict(known)
    for f in fields(config):
        name = f.metadata.get("name")
        if name is None or name not in properties:
            continue
        text = properties[name].strip()
        try:
            values[f.name] = f.metadata["parse"](text)
        except ValueError as problem:
            shown = f"invalid value {text!r} for" if f.repr else "invalid value for"
            raise ConfigError(f"{shown} '{name}': expected {problem}") from None
    return config(**values)


def resolved(properties: Mapping[str, str], prefix: str = "") -> dict[str, str]:
    """Replace ``${provider:[path:]key}`` in all values, and leave out the providers' own properties.

    ``prefix`` begins the names of these. Raises ConfigError.
    """
    try:
        found = resolve(properties, prefix)
    except InvalidVariable as error:
        raise ConfigError(str(error)) from None
    return {name: value for name, value in found.items() if not configures_providers(name, prefix)}


def whole_number(at_least: int, at_most: int = 2**31 - 1) -> Callable[[str], int]:
    expected = f"a whole number from {at_least} to {at_most}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(expected) from None
        if not at_least <= value <= at_most:
            raise ValueError(expected)
        return value

    return parse


def boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return text.lower()

    return parse


def text(value: str) -> str:
    if not value:
        raise ValueError("a non-empty text")
    return value
