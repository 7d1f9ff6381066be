"""The configuration of the sink, with the names and defaults of the JDBC connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from penstock.connect.connectors.sql.settings import DatabaseSettings, define_shared
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import CaseInsensitiveValidString, Range
from penstock.connect.errors import ConfigInvalid

INSERT: Final = "insert"
UPSERT: Final = "upsert"
UPDATE: Final = "update"
MODES: Final = (INSERT, "multi", UPSERT, UPDATE)
"""The insert modes; multi is an insert, since all inserts have many rows here."""
NONE: Final = "none"
KAFKA: Final = "kafka"
RECORD_KEY: Final = "record_key"
RECORD_VALUE: Final = "record_value"
KEY_MODES: Final = (NONE, KAFKA, RECORD_KEY, RECORD_VALUE)
KAFKA_COLUMNS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
OFFSETS_TABLE: Final = "offsets.table.name"

_SWITCHES: Final = {
    "delete.enabled": "Whether a record without a value deletes the row of its key (pk.mode=record_key).",
    "auto.create": "Whether missing tables are created from the schemas of records.",
    "auto.evolve": "Whether missing columns are added to tables.",
    "table.name.normalize": "Whether all but letters, digits and _ become _ in names of tables.",
}
_LISTS: Final = {
    "pk.fields": "The fields, or the names of the columns, of the primary key.",
    "fields.whitelist": "The fields of values that become columns; empty for all.",
    "topics.to.tables.mapping": "Tables of single topics, as topic:table.",
}
_NUMBERS: Final = {
    "batch.size": (3000, "The most rows of one statement."),
    "max.retries": (10, "Attempts to write a batch again before the task fails."),
    "retry.backoff.ms": (3000, "Milliseconds between attempts."),
}


def definition() -> ConfigDef:
    """The keys of the sink's configuration."""
    made = define_shared(ConfigDef())
    made.define(
        *("insert.mode", ConfigType.STRING, INSERT, CaseInsensitiveValidString(*MODES), Importance.HIGH),
        doc="Whether records insert rows, update them, or do either.",
    )
    made.define(
        *("pk.mode", ConfigType.STRING, NONE, CaseInsensitiveValidString(*KEY_MODES), Importance.HIGH),
        doc="What the primary key consists of.",
    )
    made.define(
        *("table.name.format", ConfigType.STRING, "${topic}"),
        doc="The name of the table; ${topic} stands for the topic.",
    )
    for name, doc in _LISTS.items():
        made.define(name, ConfigType.LIST, "", doc=doc)
    for name, doc in _SWITCHES.items():
        made.define(name, ConfigType.BOOLEAN, False, doc=doc)
    for name, (number, doc) in _NUMBERS.items():
        made.define(name, ConfigType.INT, number, Range(0), doc=doc)
    return made.define(
        *(OFFSETS_TABLE, ConfigType.STRING, ""),
        doc="A table for the offsets, which are then in the rows' transactions: no record is written twice.",
    )


def contradiction(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """A key whose value does not go with others, and why; None if there is none."""
    key_mode = properties.get("pk.mode", NONE).lower()
    insert_mode = properties.get("insert.mode", INSERT).lower()
    deletes = str(properties.get("delete.enabled", "false")).lower() == "true"
    if deletes and key_mode != RECORD_KEY:
        return "delete.enabled", "delete.enabled=true needs pk.mode=record_key"
    if insert_mode in (UPSERT, UPDATE) and key_mode == NONE:
        return "insert.mode", f"insert.mode={insert_mode} needs a primary key: set pk.mode"
    fields = [each for each in properties.get("pk.fields", "").split(",") if each.strip()]
    if key_mode == KAFKA and len(fields) not in (0, len(KAFKA_COLUMNS)):
        return "pk.fields", f"pk.fields has {len(fields)} names; pk.mode=kafka needs none or three"
    return None


@dataclass(frozen=True)
class SinkSettings:
    """The configuration of a sink, as its parts use it."""

    connector: str
    database: DatabaseSettings
    insert_mode: str
    key_mode: str
    key_fields: tuple[str, ...]
    whitelist: frozenset[str]
    deletes: bool
    creates: bool
    evolves: bool
    table_format: str
    normalizes: bool
    tables: Mapping[str, str]
    rows_max: int
    retries_max: int
    backoff_ms: int
    offsets_table: str | None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Read the parsed configuration.

        Raises:
            ConfigInvalid: settings do not go together.
        """
        texts = {name: ",".join(each) if isinstance(each, list) else each for name, each in config.items()}
        if (found := contradiction(texts)) is not None:
            raise ConfigInvalid(found[1])
        mapped = [each.partition(":") for each in config["topics.to.tables.mapping"]]
        if any(not topic or not table for topic, _, table in mapped):
            name = "topics.to.tables.mapping"
            raise invalid(name, ",".join(config[name]), "expected topic:table, separated by commas")
        mode = config["insert.mode"].lower()
        return cls(
            connector=config.get("name", ""),
            database=DatabaseSettings.of(config),
            insert_mode=mode if mode in (UPSERT, UPDATE) else INSERT,
            key_mode=config["pk.mode"].lower(),
            key_fields=tuple(config["pk.fields"]),
            whitelist=frozenset(config["fields.whitelist"]),
            deletes=config["delete.enabled"],
            creates=config["auto.create"],
            evolves=config["auto.evolve"],
            table_format=config["table.name.format"],
            normalizes=config["table.name.normalize"],
            tables={topic: table for topic, _, table in mapped},
            rows_max=max(config["batch.size"], 1),
            retries_max=config["max.retries"],
            backoff_ms=config["retry.backoff.ms"],
            offsets_table=config[OFFSETS_TABLE] or None,
        )
