"""The configuration of the source, with the names and defaults of Confluent's JDBC connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from penstock.connect.connectors.sql.settings import DatabaseSettings, define_shared
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import CaseInsensitiveValidString, Range, ValidString
from penstock.connect.errors import ConfigInvalid

BULK: Final = "bulk"
INCREMENTING: Final = "incrementing"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_INCREMENTING: Final = "timestamp+incrementing"
MODES: Final = (BULK, TIMESTAMP, INCREMENTING, TIMESTAMP_INCREMENTING)
NONE: Final = "none"
PRECISION_ONLY: Final = "precision_only"
BEST_FIT: Final = "best_fit"
BEST_FIT_EAGER_DOUBLE: Final = "best_fit_eager_double"
MAPPINGS: Final = (NONE, PRECISION_ONLY, BEST_FIT, BEST_FIT_EAGER_DOUBLE)
ISOLATIONS: Final = ("DEFAULT", "READ_UNCOMMITTED", "READ_COMMITTED", "REPEATABLE_READ", "SERIALIZABLE")
TABLES: Final = "tables"
"""The tables of one task, which the connector sets, as JSON."""

_TEXTS: Final = {
    "catalog.pattern": (None, "A pattern of LIKE for the catalogs whose tables are read; unset for all."),
    "schema.pattern": (None, "A pattern of LIKE for the schemas whose tables are read; unset for all."),
    "incrementing.column.name": ("", "The column that grows; empty to find the one that the database fills."),
    "query": ("", "A query to read in place of tables."),
    "query.suffix": ("", "SQL that is put behind each query, such as a limit."),
}
_LISTS: Final = {
    "table.whitelist": ("", "The tables to read; all others are left out."),
    "table.blacklist": ("", "The tables not to read."),
    "table.types": ("TABLE", "The types of tables to read, such as TABLE and VIEW."),
    "timestamp.column.name": (
        "",
        "Columns with the time of the last change; the first that is not null counts.",
    ),
}
_NUMBERS: Final = {
    "poll.interval.ms": (ConfigType.INT, 5000, 0, "Milliseconds between two queries of a table."),
    "batch.max.rows": (ConfigType.INT, 100, 1, "The most rows that one poll returns."),
    "table.poll.interval.ms": (ConfigType.LONG, 60_000, 1, "Milliseconds between two searches for tables."),
    "timestamp.delay.interval.ms": (
        *(ConfigType.LONG, 0, 0),
        "How long a row waits until it is read, so that transactions with an earlier time can end.",
    ),
    "incrementing.initial": (ConfigType.LONG, -1, None, "Rows are read whose column is greater than this."),
}


def definition() -> ConfigDef:
    """The keys of the source's configuration."""
    made = define_shared(ConfigDef())
    made.define(
        *("mode", ConfigType.STRING),
        validator=ValidString(*MODES),
        importance=Importance.HIGH,
        doc="How rows are found: all of them each time, or only those that are new or changed.",
    )
    made.define(
        *("topic.prefix", ConfigType.STRING),
        importance=Importance.HIGH,
        doc="The text before a table's name in the name of its topic; with a query, the whole name.",
    )
    for name, (text, doc) in _TEXTS.items():
        made.define(name, ConfigType.STRING, text, doc=doc)
    for name, (text, doc) in _LISTS.items():
        made.define(name, ConfigType.LIST, text, doc=doc)
    for name, (type_, number, least, doc) in _NUMBERS.items():
        made.define(name, type_, number, Range(least), doc=doc)
    made.define(
        *("timestamp.initial", ConfigType.LONG, None),
        doc="Rows are read whose time, in milliseconds since 1970, is later than this; -1 for now.",
    )
    made.define(
        *("validate.non.null", ConfigType.BOOLEAN, True),
        doc="Whether tables are refused whose columns for new rows may be null.",
    )
    made.define(
        *("numeric.mapping", ConfigType.STRING, None),
        validator=_optional_mapping,
        doc="Which numbers columns of exact decimals become: none for Decimal, best_fit, precision_only.",
    )
    made.define(
        *("numeric.precision.mapping", ConfigType.BOOLEAN, False),
        doc="The former name of numeric.mapping=precision_only.",
    )
    return made.define(
        *("transaction.isolation.mode", ConfigType.STRING, "DEFAULT"),
        CaseInsensitiveValidString(*ISOLATIONS),
        doc="The isolation of the queries' transactions.",
    )


def _optional_mapping(name: str, value: Any) -> None:
    if value is not None:
        CaseInsensitiveValidString(*MAPPINGS)(name, value)


def contradiction(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """A key whose value does not go with others, and why; None if there is none."""
    given = {name for name in ("table.whitelist", "table.blacklist", "query") if properties.get(name)}
    if {"table.whitelist", "table.blacklist"} <= given:
        return "table.whitelist", "table.whitelist and table.blacklist are exclusive."
    if "query" in given and len(given) > 1:
        return "query", "query may not be combined with whole-table copying settings."
    mode = properties.get("mode", "")
    if TIMESTAMP in mode and not properties.get("timestamp.column.name"):
        return "timestamp.column.name", f"mode={mode} needs timestamp.column.name."
    if "query" in given and INCREMENTING in mode and not properties.get("incrementing.column.name"):
        return "incrementing.column.name", f"mode={mode} with a query needs incrementing.column.name."
    return None


@dataclass(frozen=True)
class SourceSettings:
    """The configuration of a source, as its parts use it."""

    database: DatabaseSettings
    isolation: str | None
    mode: str
    query: str
    query_suffix: str
    topic_prefix: str
    incrementing: str | None
    """The column that grows; empty if it has to be found, None if the mode needs none."""
    timestamps: tuple[str, ...]
    whitelist: frozenset[str]
    blacklist: frozenset[str]
    types: tuple[str, ...]
    catalog_pattern: str | None
    schema_pattern: str | None
    poll_s: float
    table_poll_s: float
    delay_ms: int
    timestamp_initial: int | None
    incrementing_initial: int
    validates: bool
    numeric_mapping: str
    rows_max: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Read the parsed configuration.

        Raises:
            ConfigInvalid: settings do not go together.
        """
        texts = {name: ",".join(each) if isinstance(each, list) else each for name, each in config.items()}
        if (found := contradiction(texts)) is not None:
            raise ConfigInvalid(found[1])
        mode = config["mode"]
        isolation = config["transaction.isolation.mode"].upper().replace("_", " ")
        former = PRECISION_ONLY if config["numeric.precision.mapping"] else NONE
        return cls(
            database=DatabaseSettings.of(config),
            isolation=None if isolation == "DEFAULT" else isolation,
            mode=mode,
            query=config["query"].strip().rstrip(";"),
            query_suffix=config["query.suffix"].strip(),
            topic_prefix=config["topic.prefix"],
            incrementing=config["incrementing.column.name"] if INCREMENTING in mode else None,
            timestamps=tuple(config["timestamp.column.name"]) if TIMESTAMP in mode else (),
            whitelist=frozenset(config["table.whitelist"]),
            blacklist=frozenset(config["table.blacklist"]),
            types=tuple(each.upper() for each in config["table.types"]),
            catalog_pattern=config["catalog.pattern"],
            schema_pattern=config["schema.pattern"],
            poll_s=config["poll.interval.ms"] / 1000,
            table_poll_s=config["table.poll.interval.ms"] / 1000,
            delay_ms=config["timestamp.delay.interval.ms"],
            timestamp_initial=config["timestamp.initial"],
            incrementing_initial=config["incrementing.initial"],
            validates=config["validate.non.null"],
            numeric_mapping=(config["numeric.mapping"] or former).lower(),
            rows_max=config["batch.max.rows"],
        )
