"""The keys of the search sink: Aiven's names, with Confluent's beside them."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.connectors.http.exchange.settings import define_tls, http_url
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.config_types import invalid
from penstock.connect.definitions.validators import (
    CaseInsensitiveValidString,
    DescribedValidator,
    NonEmptyString,
    Range,
    ValidString,
)

ID_STRATEGIES: Final = ("none", "record.key", "topic.partition.offset")
_UNUSED: Final = "Accepted, but without effect: "


def sink_definition() -> ConfigDef:
    """The keys of the sink."""
    definition = ConfigDef().define(
        "connection.url",
        ConfigType.LIST,
        validator=DescribedValidator(_urls, "URLs of HTTP"),
        importance=Importance.HIGH,
        doc="The URLs of the nodes, separated by commas.",
    )
    definition.define("connection.username", ConfigType.STRING, None, doc="The user, if there is one.")
    definition.define("connection.password", ConfigType.PASSWORD, None, doc="The user's password.")
    _define_delivery(definition)
    _define_documents(definition)
    _define_behavior(definition)
    _define_data_streams(definition)
    return define_tls(definition)


def _define_delivery(definition: ConfigDef) -> None:
    for name, type_, default, least, doc in (
        ("batch.size", ConfigType.INT, 2000, 1, "Documents in one request."),
        ("bulk.size.bytes", ConfigType.LONG, 5 << 20, 1, "Bytes of a request; one document may have more."),
        ("max.in.flight.requests", ConfigType.INT, 5, 1, "Requests of a task at the same time."),
        ("max.retries", ConfigType.INT, 5, 0, "Retries without progress before the task fails."),
        ("retry.backoff.ms", ConfigType.LONG, 100, 0, "The wait before the first retry."),
        ("connection.timeout.ms", ConfigType.INT, 1000, 1, "The wait for a connection."),
        ("read.timeout.ms", ConfigType.INT, 3000, 1, "The wait for an answer."),
        ("linger.ms", ConfigType.LONG, 1, 0, f"{_UNUSED}a task sends what it gets at once."),
        ("max.buffered.records", ConfigType.INT, 20_000, 1, f"{_UNUSED}a task keeps no records."),
        ("flush.timeout.ms", ConfigType.LONG, 10_000, 1, f"{_UNUSED}a task keeps no records."),
    ):
        definition.define(name, type_, default, Range(least), Importance.LOW, doc)


def _define_documents(definition: ConfigDef) -> None:
    for name, default, doc in (
        ("key.ignore", False, "Whether ids of documents are not made of keys."),
        ("schema.ignore", False, "Whether indices get no mapping of the records' schema."),
        ("compact.map.entries", True, "Whether maps with texts as keys become objects, and not lists."),
        ("drop.invalid.message", False, "Whether records that cannot become documents are dropped."),
    ):
        definition.define(name, ConfigType.BOOLEAN, default, doc=doc)
    for name, doc in (
        ("topic.key.ignore", "The topics to which key.ignore applies."),
        ("topic.schema.ignore", "The topics to which schema.ignore applies."),
    ):
        definition.define(name, ConfigType.LIST, "", importance=Importance.LOW, doc=doc)
    definition.define(
        "topic.index.map",
        ConfigType.LIST,
        "",
        DescribedValidator(_pairs, "a list of topic:index"),
        Importance.LOW,
        "The indices of topics that do not have an index of their own name, as topic:index.",
    )
    definition.define(
        "key.ignore.id.strategy",
        ConfigType.STRING,
        "topic.partition.offset",
        ValidString(*ID_STRATEGIES),
        Importance.LOW,
        "The ids of documents whose keys are ignored.",
    )
    definition.define(
        "write.method",
        ConfigType.STRING,
        "insert",
        CaseInsensitiveValidString("insert", "upsert"),
        Importance.LOW,
        "Whether a document replaces the one before it, or changes the fields that it has.",
    )
    definition.define(
        "index.write.method",
        ConfigType.STRING,
        None,
        DescribedValidator(_write_method, "null, insert or upsert"),
        Importance.LOW,
        "Aiven's name for write.method.",
    )
    definition.define("type.name", ConfigType.STRING, None, doc=f"{_UNUSED}there are no types any more.")


def _define_behavior(definition: ConfigDef) -> None:
    for name, default, values, doc in (
        ("behavior.on.null.values", "ignore", ("ignore", "delete", "fail"), "records without a value"),
        (
            "behavior.on.malformed.documents",
            "fail",
            ("ignore", "warn", "report", "fail"),
            "documents that the engine refuses; report sends them to the dead letters",
        ),
        (
            "behavior.on.version.conflict",
            "ignore",
            ("ignore", "warn", "report", "fail"),
            "documents of which the engine has this version or a later one",
        ),
    ):
        definition.define(
            name, ConfigType.STRING, default, ValidString(*values), Importance.LOW, f"The treatment of {doc}."
        )


def _define_data_streams(definition: ConfigDef) -> None:
    definition.define(
        "data.stream.enabled",
        ConfigType.BOOLEAN,
        False,
        doc="Whether records are appended to data streams.",
    )
    definition.define(
        "data.stream.prefix",
        ConfigType.STRING,
        None,
        NonEmptyString(),
        Importance.LOW,
        "If set, the data stream of a topic is PREFIX-TOPIC.",
    )
    definition.define(
        "data.stream.timestamp.field",
        ConfigType.STRING,
        "@timestamp",
        NonEmptyString(),
        Importance.LOW,
        "The field with the time; a document without it gets the record's timestamp.",
    )


def _write_method(name: str, value: Any) -> None:
    if value is not None:
        CaseInsensitiveValidString("insert", "upsert")(name, value)


def _urls(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, value, "expected a URL")
    http_url(name, value)


def _pairs(name: str, value: Any) -> None:
    for each in value:
        topic, _, index = each.partition(":")
        if not topic or not index:
            raise invalid(name, each, "expected topic:index")
