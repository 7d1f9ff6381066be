"""The configurations that the source and the sink share, as the JDBC connectors have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from zoneinfo import ZoneInfo

from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import CaseInsensitiveValidString, DescribedValidator, Range


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of this name. Raises KeyError or ValueError."""
    return ZoneInfo({"Z": "UTC"}.get(name, name))


def _check_zone(name: str, value: Any) -> None:
    try:
        zone_of(value)
    except (KeyError, ValueError, OSError):
        raise invalid(name, value, "Invalid time zone identifier") from None


ZONE = DescribedValidator(_check_zone, "valid time zone identifier (e.g., 'Europe/Helsinki', 'Z', 'CET')")


def define_shared(definition: ConfigDef) -> ConfigDef:
    """Add the keys to a definition, and return it."""
    definition.define(
        *("connection.url", ConfigType.STRING),
        importance=Importance.HIGH,
        doc="The database: a URL of SQLAlchemy's, or one that begins with jdbc:.",
    )
    definition.define(
        *("connection.user", ConfigType.STRING, None, None, Importance.HIGH),
        doc="The user; by default the one in the URL.",
    )
    definition.define(
        "connection.password", ConfigType.PASSWORD, None, None, Importance.HIGH, "The user's password."
    )
    definition.define(
        "connection.attempts", ConfigType.INT, 3, Range(1), Importance.LOW, "Attempts to connect."
    )
    definition.define(
        *("connection.backoff.ms", ConfigType.LONG, 10_000, Range(0), Importance.LOW),
        doc="Milliseconds between attempts to connect.",
    )
    definition.define(
        *("db.timezone", ConfigType.STRING, "UTC", ZONE, Importance.MEDIUM),
        doc="The zone of times that the database stores without one.",
    )
    definition.define(
        *("quote.sql.identifiers", ConfigType.STRING, "always"),
        CaseInsensitiveValidString("always", "never"),
        doc="Whether names of tables and columns are quoted in SQL.",
    )
    return definition.define(
        *("dialect.name", ConfigType.STRING, "", None, Importance.LOW),
        doc="Accepted for configurations of the JDBC connectors; the URL says which database it is.",
    )


@dataclass(frozen=True)
class DatabaseSettings:
    """The database of a connector, and how to connect to it."""

    url: str
    user: str | None
    password: str | None
    attempts: int
    backoff_ms: int
    zone: ZoneInfo
    quotes: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Read the parsed configuration of a connector or a task."""
        password = config["connection.password"]
        return cls(
            url=config["connection.url"],
            user=config["connection.user"],
            password=None if password is None else password.value,
            attempts=config["connection.attempts"],
            backoff_ms=config["connection.backoff.ms"],
            zone=zone_of(config["db.timezone"]),
            quotes=config["quote.sql.identifiers"].lower() == "always",
        )
