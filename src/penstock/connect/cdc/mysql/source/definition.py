"""The configuration of the connectors for MySQL and MariaDB, with Debezium's names and defaults."""

from __future__ import annotations

from typing import Final

from penstock.connect.cdc.configuration import define_keys
from penstock.connect.definitions.config_def import ConfigDef

_TEXTS: Final = {
    "database.hostname": "Address of the server.",
    "topic.prefix": "The first part of all topics' names; it also names the stored offset.",
}
_OPTIONAL_TEXTS: Final = {
    "database.user": ("", "The user, who needs REPLICATION SLAVE, REPLICATION CLIENT and SELECT."),
    "database.server.id": (
        "",
        "The id that the server knows this reader by, of which each reader has another one. "
        "Unless set, it follows from topic.prefix.",
    ),
    "database.initial.statements": ("", "SQL that each session runs first, separated by semicolons."),
    "database.ssl.ca": ("", "File with the certificates of authorities."),
    "database.include.list": ("", "Regular expressions of the databases to capture, separated by commas."),
    "database.exclude.list": ("", "Regular expressions of the databases not to capture."),
    "table.include.list": ("", "Regular expressions of the tables to capture, as database.table."),
    "table.exclude.list": ("", "Regular expressions of the tables not to capture."),
    "column.include.list": ("", "Regular expressions of the columns to capture, as database.table.column."),
    "column.exclude.list": ("", "Regular expressions of the columns not to capture."),
    "message.key.columns": (
        "",
        "Columns of keys instead of the primary key: database.table:column,column;…",
    ),
    "snapshot.include.collection.list": (
        "",
        "Regular expressions of the captured tables that snapshots read.",
    ),
    "snapshot.select.statement.overrides": ("", "Tables with a SELECT statement of their own in snapshots."),
    "skipped.operations": ("t", "Operations without records: c, u, d, t, or none."),
    "heartbeat.action.query": ("", "SQL that runs before each heartbeat."),
}
_CHOICES: Final = {
    "snapshot.mode": (
        ("always", "initial", "initial_only", "no_data", "never", "recovery", "when_needed"),
        "initial",
        "When rows are read before changes are streamed.",
    ),
    "snapshot.locking.mode": (
        ("extended", "minimal", "minimal_percona", "none"),
        "minimal",
        "Whether MySQL is locked until a snapshot has begun. MariaDB never is.",
    ),
    "decimal.handling.mode": (("precise", "double", "string"), "precise", "What DECIMAL becomes."),
    "bigint.unsigned.handling.mode": (("long", "precise"), "long", "What BIGINT UNSIGNED becomes."),
    "time.precision.mode": (
        (
            *("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds"),
            "nanoseconds",
        ),
        "adaptive_time_microseconds",
        "What DATE, TIME and DATETIME become.",
    ),
    "binary.handling.mode": (
        ("bytes", "base64", "base64-url-safe", "hex"),
        "bytes",
        "What BINARY, VARBINARY and BLOB become.",
    ),
    "database.ssl.mode": (
        (
            *("disabled", "preferred", "required", "verify_ca", "verify_identity"),
            *("disable", "trust", "verify-ca", "verify-full"),
        ),
        "preferred",
        "How TLS is used, as Debezium's connectors for MySQL and for MariaDB name it.",
    ),
    "event.processing.failure.handling.mode": (
        ("fail", "warn", "skip", "ignore"),
        "fail",
        "Whether the task fails if a captured table was changed by a statement instead of rows.",
    ),
    "schema.name.adjustment.mode": (
        ("none", "avro", "avro_unicode"),
        "none",
        "How names of schemas are changed to be valid elsewhere.",
    ),
    "field.name.adjustment.mode": (
        ("none", "avro", "avro_unicode"),
        "none",
        "How names of fields are changed to be valid elsewhere.",
    ),
}
_SWITCHES: Final = {
    "tombstones.on.delete": (True, "Whether a record without a value follows each delete."),
    "provide.transaction.metadata": (False, "Whether records tell the begin and end of transactions."),
    "include.schema.changes": (True, "Whether DDL becomes records of the topic named topic.prefix."),
    "include.query": (False, "Whether records have the statement that made them."),
    "gtid.ignore.on.recovery": (False, "Whether the stream resumes by file and position instead of GTIDs."),
}
_NUMBERS: Final = {
    "database.port": (3306, 1, "Port of the server."),
    "connect.timeout.ms": (30_000, 1, "Milliseconds that connecting may take."),
    "max.batch.size": (2048, 1, "Records that one poll returns, about."),
    "max.queue.size": (8192, 1, "Records that are read ahead, about."),
    "poll.interval.ms": (500, 1, "Milliseconds that a poll waits for records."),
    "heartbeat.interval.ms": (0, 0, "Milliseconds between heartbeat records; 0 for none."),
    "errors.max.retries": (-1, -1, "Attempts to connect again after one failed; -1 for no limit."),
    "errors.retry.delay.initial.ms": (300, 1, "Milliseconds before the first attempt to connect again."),
    "errors.retry.delay.max.ms": (10_000, 1, "Longest time in milliseconds between attempts."),
}

WITHOUT_EFFECT: Final = frozenset(
    {
        *("binlog.buffer.size", "column.propagate.source.type", "converters", "enable.time.adjuster"),
        *("datatype.propagate.source.type", "event.deserialization.failure.handling.mode"),
        *("gtid.source.excludes", "gtid.source.filter.dml.events", "gtid.source.includes"),
        *("inconsistent.schema.handling.mode", "incremental.snapshot.chunk.size", "include.schema.comments"),
        *("notification.enabled.channels", "post.processors", "read.only", "schema.history.internal"),
        *("signal.data.collection", "signal.enabled.channels", "snapshot.max.threads"),
        *("schema.history.internal.kafka.topic", "sourceinfo.struct.maker", "topic.naming.strategy"),
    }
)
"""Keys of Debezium's that change what it does and have no effect here; the task warns of each that is set."""


def definition() -> ConfigDef:
    """The keys of the configuration, besides those with a part of their own such as column.mask.…"""
    made = ConfigDef()
    define_keys(made, _TEXTS, _OPTIONAL_TEXTS, _CHOICES, _SWITCHES, _NUMBERS)
    return made
