"""The sink's options, validated, as one picklable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from penstock.arrow.encoding import Encoding
from penstock.client.config import ClientConfig
from penstock.client.producing.producer import ProducerConfig
from penstock.client.settings import ConfigError, from_properties, one_of, setting, text, whole_number
from penstock.protocol.compression import LEVELS, Codec
from penstock.spark.options import Options
from penstock.spark.sink.formats import take_encodings

_VERSION_MAX = 2**63 - 2
"""The largest ``txnVersion``: the version after it is stored as an offset."""
# Options of the query itself, which Spark passes to the sink as well.
_OF_THE_QUERY = ("queryName",)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How rows are grouped into record batches.

    ``batch_bytes``, counted before compression, is larger than for a Kafka producer, which waits for single
    records; it stays below a topic's usual ``max.message.bytes``.
    """

    batch_bytes: int = setting("batch.size", 512 << 10, whole_number(1024))
    compression_type: str = setting(
        "compression.type", "none", one_of(*(codec.name.lower() for codec in Codec))
    )
    gzip_level: int = setting("compression.gzip.level", LEVELS[Codec.GZIP].default, whole_number(-1, 9))
    lz4_level: int = setting("compression.lz4.level", LEVELS[Codec.LZ4].default, whole_number(1, 17))
    zstd_level: int = setting("compression.zstd.level", LEVELS[Codec.ZSTD].default, whole_number(-131072, 22))

    @property
    def codec(self) -> Codec:
        return Codec[self.compression_type.upper()]

    @property
    def level(self) -> int | None:
        levels = {Codec.GZIP: self.gzip_level, Codec.LZ4: self.lz4_level, Codec.ZSTD: self.zstd_level}
        return levels.get(self.codec)


class Delivery(Enum):
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionConfig:
    timeout_ms: int = setting("transaction.timeout.ms", 60_000, whole_number(1))


class AppVersion(NamedTuple):
    """A batch write, by the program that may repeat it and the version that the program gave it."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of one write.

    ``checkpoint`` is the query's, or None in a batch write. ``staging`` is the directory in which a batch
    write puts data too large for a message to the driver. ``app_version`` identifies a batch write that may
    be repeated; it comes with a ``topic``.
    """

    client: ClientConfig
    producer: ProducerConfig
    batch: BatchConfig
    topic: str | None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    transaction: TransactionConfig = field(default_factory=TransactionConfig)
    checkpoint: str | None = None
    staging: str | None = None
    encodings: tuple[Encoding, ...] = ()
    app_version: AppVersion | None = None

    @property
    def encoded_parts(self) -> frozenset[str]:
        """Those of key and value that a format writes, and that may therefore have any type."""
        return frozenset(each.part for each in self.encodings)

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery is Delivery.EXACTLY_ONCE


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Parse the options that Spark passes. Raises ConfigError."""
    options = Options(given)
    topic = options.take("topic", text, None)
    delivery = Delivery(options.take("delivery", one_of(*(kind.value for kind in Delivery)), "at-least-once"))
    checkpoint = options.take("checkpointLocation", text, None)
    staging = options.take("stagingLocation", text, None)
    encodings = take_encodings(options)
    app_version = _take_app_version(options)
    options.ignore(*_OF_THE_QUERY)
    properties = options.finish(ProducerConfig, BatchConfig, TransactionConfig)
    sink = SinkOptions(
        client=ClientConfig.from_properties(properties),
        producer=from_properties(ProducerConfig, properties),
        batch=from_properties(BatchConfig, properties),
        topic=topic,
        delivery=delivery,
        transaction=from_properties(TransactionConfig, properties),
        checkpoint=checkpoint,
        staging=staging,
        encodings=encodings,
        app_version=app_version,
    )
    if sink.is_exactly_once and not sink.producer.idempotent:
        raise ConfigError(
            "'delivery' exactly-once needs 'kafka.acks' to be all and 'kafka.enable.idempotence' to be true"
        )
    if staging is not None and (checkpoint is not None or not sink.is_exactly_once):
        raise ConfigError(
            "option 'stagingLocation' is for batch writes with 'delivery' exactly-once: a stream stages in "
            "its checkpoint, and at-least-once writes stage nothing"
        )
    if (
        "enable.idempotence" in properties
        and sink.producer.enable_idempotence
        and not sink.producer.idempotent
    ):
        raise ConfigError("'kafka.enable.idempotence' needs 'kafka.acks' to be all")
    _check_app_version(sink)
    return sink


def _take_app_version(options: Options) -> AppVersion | None:
    app_id = options.take("txnAppId", text, None)
    version = options.take("txnVersion", whole_number(0, _VERSION_MAX), -1)
    if app_id is None and version < 0:
        return None
    if app_id is None or version < 0:
        given, missing = ("txnVersion", "txnAppId") if app_id is None else ("txnAppId", "txnVersion")
        raise ConfigError(f"found option '{given}' without '{missing}': set both or neither")
    return AppVersion(app_id, version)


def _check_app_version(sink: SinkOptions) -> None:
    if sink.app_version is None:
        return
    if sink.checkpoint is not None:
        raise ConfigError(
            "options 'txnAppId' and 'txnVersion' are for df.write: a streaming query has its checkpoint"
        )
    if not sink.is_exactly_once:
        raise ConfigError("options 'txnAppId' and 'txnVersion' need 'delivery' to be exactly-once")
    if sink.topic is None:
        raise ConfigError(
            "options 'txnAppId' and 'txnVersion' need the option 'topic': the cluster keeps the last version "
            "of each topic"
        )
