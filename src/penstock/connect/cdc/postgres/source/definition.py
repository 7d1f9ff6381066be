"""The configuration of the connector for PostgreSQL, with Debezium's names and defaults."""

from __future__ import annotations

from typing import Final

from penstock.connect.cdc.configuration import define_keys
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Password
from penstock.connect.definitions.validators import Range

_TEXTS: Final = {
    "database.hostname": "Address of the server.",
    "database.dbname": "The database to capture.",
    "topic.prefix": "The first part of all topics' names; it also names the stored offset.",
}
_REQUIRED: Final = tuple(_TEXTS)
_OPTIONAL_TEXTS: Final = {
    "database.user": ("", "The user, who needs the attribute REPLICATION."),
    "database.initial.statements": ("", "SQL that each session runs first, separated by semicolons."),
    "database.sslmode": ("prefer", "How TLS is used, as libpq's sslmode."),
    "database.sslcert": ("", "File with the client's certificate."),
    "database.sslkey": ("", "File with the key of the client's certificate."),
    "database.sslrootcert": ("", "File with the certificates of authorities."),
    "slot.name": ("debezium", "The replication slot. It is made if it does not exist."),
    "slot.stream.params": ("", "More parameters of pgoutput, as name=value;name=value."),
    "publication.name": ("dbz_publication", "The publication whose changes are captured."),
    "schema.include.list": ("", "Regular expressions of the schemas to capture, separated by commas."),
    "schema.exclude.list": ("", "Regular expressions of the schemas not to capture."),
    "table.include.list": ("", "Regular expressions of the tables to capture, as schema.table."),
    "table.exclude.list": ("", "Regular expressions of the tables not to capture."),
    "column.include.list": ("", "Regular expressions of the columns to capture, as schema.table.column."),
    "column.exclude.list": ("", "Regular expressions of the columns not to capture."),
    "message.prefix.include.list": (
        "",
        "Regular expressions of the prefixes of logical messages to capture.",
    ),
    "message.prefix.exclude.list": (
        "",
        "Regular expressions of the prefixes of logical messages to leave out.",
    ),
    "message.key.columns": ("", "Columns of keys instead of the primary key: schema.table:column,column;…"),
    "snapshot.include.collection.list": (
        "",
        "Regular expressions of the captured tables that snapshots read.",
    ),
    "snapshot.select.statement.overrides": ("", "Tables with a SELECT statement of their own in snapshots."),
    "skipped.operations": (
        None,  # not "t", which would also keep a new publication from having truncates
        "Operations without records: c, u, d, t, m, or none. Unless set, truncates have none.",
    ),
    "unavailable.value.placeholder": (
        "__debezium_unavailable_value",
        "The text in place of a value that the server did not send because it did not change.",
    ),
    "heartbeat.action.query": ("", "SQL that runs before each heartbeat."),
    "signal.data.collection": ("", "The table of signals, as schema.table."),
    "signal.enabled.channels": ("source", "Where signals are read: source, kafka, file."),
    "signal.kafka.topic": (None, "The topic of signals; by default the topic prefix and -signal."),
    "signal.kafka.bootstrap.servers": ("", "Addresses of the brokers of the topic of signals."),
    "signal.kafka.groupId": ("kafka-signal", "The consumer group that reads the topic of signals."),
    "signal.file": ("file-signals.txt", "The file of signals, with a JSON object per line."),
    "notification.enabled.channels": ("", "Where notifications are sent: sink, log."),
    "notification.sink.topic.name": (None, "The topic of notifications."),
}
_CHOICES: Final = {
    "plugin.name": (("pgoutput",), "pgoutput", "The plugin of the slot."),
    "snapshot.mode": (
        ("always", "initial", "initial_only", "no_data", "never", "when_needed"),
        "initial",
        "When rows are read before changes are streamed.",
    ),
    "snapshot.isolation.mode": (
        ("serializable", "repeatable_read", "read_committed", "read_uncommitted"),
        "serializable",
        "The isolation of snapshots without a slot; others are always consistent.",
    ),
    "publication.autocreate.mode": (
        ("all_tables", "filtered", "no_tables", "disabled"),
        "all_tables",
        "The tables of the publication if it has to be made.",
    ),
    "offset.mismatch.strategy": (
        ("no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"),
        "no_validation",
        "With trust_offset, a slot beyond the stored offset fails the task; heartbeats let the slot advance.",
    ),
    "slot.lag.action": (
        ("warn", "fail"),
        "warn",
        "What a slot that keeps more than slot.lag.max.bytes does to the task.",
    ),
    "lsn.flush.mode": (
        ("connector", "connector_and_driver", "manual"),
        "connector",
        "With manual, the slot does not advance while nothing is captured.",
    ),
    "decimal.handling.mode": (("precise", "double", "string"), "precise", "What numeric becomes."),
    "time.precision.mode": (
        (
            *("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds"),
            "nanoseconds",
        ),
        "adaptive",
        "What date, time and timestamp become.",
    ),
    "binary.handling.mode": (
        ("bytes", "base64", "base64-url-safe", "hex"),
        "bytes",
        "What bytea becomes.",
    ),
    "incremental.snapshot.watermarking.strategy": (
        ("insert_insert", "insert_delete"),
        "insert_insert",
        "Whether the row that marks a chunk's end is inserted, or that of its begin deleted.",
    ),
    "interval.handling.mode": (("numeric", "string"), "numeric", "What interval becomes."),
    "hstore.handling.mode": (("json", "map"), "json", "What hstore becomes."),
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
    "database.tcpKeepAlive": (True, "Whether TCP notices a server that is gone."),
    "read.only": (False, "Whether incremental snapshots write nothing into the database."),
    "slot.failover": (False, "Whether a new slot is kept in step on standbys (PostgreSQL 17)."),
    "slot.drop.on.stop": (False, "Whether the slot is dropped when the task stops; changes then get lost."),
    "publish.via.partition.root": (
        False,
        "Whether a new publication gives changes of partitions the name of the partitioned table.",
    ),
    "tombstones.on.delete": (True, "Whether a record without a value follows each delete."),
    "provide.transaction.metadata": (False, "Whether records tell the begin and end of transactions."),
    "include.unknown.datatypes": (False, "Whether columns of types without a schema are captured as bytes."),
}
_NUMBERS: Final = {
    "database.port": (5432, 1, "Port of the server."),
    "max.batch.size": (2048, 1, "Records that one poll returns, about."),
    "incremental.snapshot.chunk.size": (1024, 1, "Rows that an incremental snapshot reads at once."),
    "signal.poll.interval.ms": (5000, 1, "Milliseconds between looks for signals in files and topics."),
    "max.queue.size": (8192, 1, "Records that are read ahead, about."),
    "poll.interval.ms": (500, 1, "Milliseconds that a poll waits for records."),
    "status.update.interval.ms": (10_000, 1, "Milliseconds between status replies to the server."),
    "heartbeat.interval.ms": (0, 0, "Milliseconds between heartbeat records; 0 for none."),
    "slot.max.retries": (6, 0, "Attempts to read a slot that another session uses."),
    "errors.max.retries": (-1, -1, "Attempts to connect again after one failed; -1 for no limit."),
    "errors.retry.delay.initial.ms": (300, 1, "Milliseconds before the first attempt to connect again."),
    "errors.retry.delay.max.ms": (10_000, 1, "Longest time in milliseconds between attempts."),
    "slot.lag.check.interval.ms": (60_000, 1, "Milliseconds between looks at the lag of the slot."),
    "money.fraction.digits": (2, 0, "Digits after the point in values of money."),
}

WITHOUT_EFFECT: Final = frozenset(
    {
        *("column.propagate.source.type", "converters", "datatype.propagate.source.type"),
        *(
            "event.processing.failure.handling.mode",
            "incremental.snapshot.allow.schema.changes",
            "max.queue.size.in.bytes",
        ),
        "post.processors",
        *("replica.identity.autoset.values",),
        *("snapshot.lock.timeout.ms", "snapshot.locking.mode", "snapshot.max.threads"),
        *("sourceinfo.struct.maker", "topic.naming.strategy", "xmin.fetch.interval.ms"),
    }
)
"""Keys of Debezium's that change what it does and have no effect here; the task warns of each that is set."""


def definition() -> ConfigDef:
    """The keys of the configuration, besides those with a part of their own such as column.mask.…"""
    made = ConfigDef()
    define_keys(made, _TEXTS, _OPTIONAL_TEXTS, _CHOICES, _SWITCHES, _NUMBERS)
    made.define(
        "database.sslpassword", ConfigType.PASSWORD, Password(""), doc="Password of the client's key."
    )
    made.define(
        "slot.lag.max.bytes",
        ConfigType.LONG,
        0,
        Range(0),
        doc="Bytes of WAL that the slot may keep on the server's disk; 0 for no limit.",
    )
    made.define(
        "heartbeat.emit.message",
        ConfigType.BOOLEAN,
        False,
        doc="Whether each heartbeat writes a logical message into the WAL, so that quiet databases move on.",
    )
    return made
