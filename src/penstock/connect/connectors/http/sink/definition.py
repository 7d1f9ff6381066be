"""The keys of the HTTP sink: Aiven's names and defaults, and some of Confluent's."""

from __future__ import annotations

from typing import Final

from penstock.connect.connectors.http.exchange.settings import (
    define_authorization,
    define_tls,
    http_url,
    named_headers,
)
from penstock.connect.connectors.http.templates import known_roots
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import (
    CaseInsensitiveValidString,
    CompositeValidator,
    DescribedValidator,
    Range,
    ValidString,
)

URL: Final = "http.url"
AUTHORIZATION: Final = "http.authorization.type"
PLACES: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "header")
_DAY_MS: Final = 24 * 60 * 60 * 1000


def sink_definition() -> ConfigDef:
    """The keys of the sink."""
    definition = ConfigDef().define(
        URL,
        ConfigType.STRING,
        validator=CompositeValidator(
            DescribedValidator(http_url, "a URL"), DescribedValidator(known_roots(*PLACES), "with places")
        ),
        importance=Importance.HIGH,
        doc="Where requests go. It may have places for ${topic}, ${partition}, ${offset}, ${timestamp}, "
        "${key}, ${key.FIELD}, ${value.FIELD} and ${header.NAME}.",
    )
    define_authorization(definition, AUTHORIZATION, "none")
    _define_requests(definition)
    _define_batches(definition)
    _define_delivery(definition)
    return define_tls(definition)


def _define_requests(definition: ConfigDef) -> None:
    (
        definition.define(
            "request.method",
            ConfigType.STRING,
            "POST",
            CaseInsensitiveValidString("POST", "PUT", "PATCH"),
            doc="The method of requests.",
        )
        .define("http.headers.content.type", ConfigType.STRING, None, doc="The Content-Type header.")
        .define(
            "http.headers.additional",
            ConfigType.LIST,
            "",
            DescribedValidator(named_headers, "a list of header:value"),
            Importance.LOW,
            "More headers, as header:value, separated by commas.",
        )
        .define(
            "http.idempotency.header",
            ConfigType.STRING,
            "Idempotency-Key",
            importance=Importance.LOW,
            doc="The header that names the records of a request by topic, partition and offset, so that the "
            "receiver can discard a request that it gets again. An empty text sends none.",
        )
        .define(
            "behavior.on.null.values",
            ConfigType.STRING,
            "ignore",
            ValidString("ignore", "delete", "fail"),
            Importance.LOW,
            "The treatment of records without a value: none, a DELETE request to their URL, or an error.",
        )
    )


def _define_batches(definition: ConfigDef) -> None:
    (
        definition.define(
            "batching.enabled",
            ConfigType.BOOLEAN,
            False,
            importance=Importance.HIGH,
            doc="Whether a request carries several records.",
        )
        .define("batch.max.size", ConfigType.INT, 500, Range(1, 1_000_000), doc="Records in one request.")
        .define("batch.prefix", ConfigType.STRING, "", doc="The text before the first record of a batch.")
        .define("batch.suffix", ConfigType.STRING, None, doc="The text behind the last; by default \\n.")
        .define("batch.separator", ConfigType.STRING, None, doc="The text between two; by default \\n.")
    )


def _define_delivery(definition: ConfigDef) -> None:
    (
        definition.define(
            "max.retries",
            ConfigType.INT,
            1,
            Range(0),
            doc="How often a request that fails for a passing reason is repeated before the task fails.",
        )
        .define("retry.backoff.ms", ConfigType.INT, 3000, Range(0), doc="The wait before the first retry.")
        .define(
            "kafka.retry.backoff.ms",
            ConfigType.LONG,
            None,
            DescribedValidator(_no_or_short_wait, f"null,[0, {_DAY_MS}]"),
            doc="If set, the task does not fail after max.retries, but repeats without end at this interval.",
        )
        .define(
            "http.timeout", ConfigType.INT, 30, Range(1), Importance.LOW, "Seconds to wait for an answer."
        )
        .define(
            "max.in.flight.requests",
            ConfigType.INT,
            1,
            Range(1, 1000),
            Importance.LOW,
            "Requests of a task at the same time. Records with the same key stay in order.",
        )
    )


def _no_or_short_wait(name: str, value: int | None) -> None:
    if value is not None:
        Range(0, _DAY_MS)(name, value)
