"""One key of a configuration: its type, default, validator, and how a user interface shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from penstock.connect.definitions.config_types import ConfigType
from penstock.connect.errors import ConfigInvalid


class NoDefault(Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "REQUIRED"


REQUIRED: Final = NoDefault.REQUIRED
"""In place of a default: a configuration must have this key."""


class Importance(Enum):
    """The importance of a key to users; documentation is sorted by it."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """The width of the field in which a user interface asks for the value."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Validator(Protocol):
    """Checks a parsed value and raises ConfigInvalid. `str` shows which values are valid."""

    def __call__(self, name: str, value: Any, /) -> None: ...


class Recommender(Protocol):
    """Says which values of a key are useful, and whether a user interface shows the key at all."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """The useful values, given those of all keys; an empty list recommends none."""
        ...

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Whether the key applies, given the values of all keys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key of a configuration. `default` is parsed; `order` is the place in `group`, or -1.

    The visibility and recommended values of `dependents` depend on the value of this key. Documentation
    leaves out keys that are `internal`.
    """

    name: str
    type: ConfigType
    default: Any
    validator: Validator | None
    importance: Importance
    doc: str
    group: str | None
    order: int
    width: Width
    display_name: str
    dependents: tuple[str, ...]
    recommender: Recommender | None
    internal: bool

    @property
    def has_default(self) -> bool:
        """Whether a configuration may leave the key out."""
        return self.default is not REQUIRED

    def default_or_missing(self) -> Any:
        """Return the default.

        Raises:
            ConfigInvalid: there is none.
        """
        if not self.has_default:
            raise ConfigInvalid(f'Missing required configuration "{self.name}" which has no default value.')
        return self.default
