"""The configuration of the sink of object stores: the names and defaults of Confluent's S3 sink."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.connectors.lake.objects.files import CODECS
from penstock.connect.connectors.lake.objects.open_files import COMPATIBILITIES
from penstock.connect.connectors.lake.objects.places.partitioners import DEFAULT
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import Range, ValidString

FLUSH_SIZE: Final = "flush.size"
INTERVAL: Final = "rotate.interval.ms"
SCHEDULE: Final = "rotate.schedule.interval.ms"
FORMAT: Final = "format.class"
PARTITIONER: Final = "partitioner.class"
COMPATIBILITY: Final = "schema.compatibility"
NULLS: Final = "behavior.on.null.values"
BYTES_MAX: Final = "buffer.max.bytes"
EXTRACTOR: Final = "timestamp.extractor"


def objects_definition() -> ConfigDef:
    """Return all keys of the sink."""
    definition = ConfigDef()
    for define in (_define_store, _define_files, _define_places):
        define(definition)
    return definition


def _define_store(definition: ConfigDef) -> None:
    text = ConfigType.STRING
    high: dict[str, Any] = {"importance": Importance.HIGH}
    definition.define("s3.bucket.name", text, None, doc="The bucket of S3.", **high).define(
        "store.url",
        text,
        None,
        doc="The place of the files, as s3://bucket/folder, gs://bucket/folder, az://container/folder or "
        "file:///folder; or the http(s) endpoint of the bucket that s3.bucket.name names. Other settings of "
        "the store follow store.option, under the names of obstore.",
        **high,
    ).define("s3.region", text, "us-west-2", doc="The region of S3.").define(
        "s3.path.style.access.enabled",
        ConfigType.BOOLEAN,
        True,
        doc="Whether the bucket is in the path of requests, and not in the name of the host.",
    ).define(
        "aws.access.key.id",
        text,
        None,
        doc="The id of an access key; by default, from the environment.",
        **high,
    ).define(
        "aws.secret.access.key", ConfigType.PASSWORD, None, doc="The secret of that key.", **high
    ).define("topics.dir", text, "topics", doc="The folder of all files.", **high)


def _define_files(definition: ConfigDef) -> None:
    text, count = ConfigType.STRING, ConfigType.INT
    definition.define(
        FLUSH_SIZE,
        count,
        validator=Range(1),
        importance=Importance.HIGH,
        doc="The number of records of a partition after which its files end.",
    ).define(
        INTERVAL,
        ConfigType.LONG,
        -1,
        doc="The span of the records' times, by the timestamp extractor, after which files end; -1 for none.",
    ).define(
        SCHEDULE,
        ConfigType.LONG,
        -1,
        doc="The time after which files end, whether records arrive or not; -1 for never. Files that end "
        "by this are not the same if they are written again.",
    ).define(
        BYTES_MAX,
        ConfigType.LONG,
        128 * 1024 * 1024,
        Range(1),
        Importance.LOW,
        "The size of a partition's open files in memory, in bytes, after which they end.",
    ).define(
        FORMAT,
        text,
        "ParquetFormat",
        importance=Importance.HIGH,
        doc="ParquetFormat or JsonFormat, also with the packages of Confluent's classes.",
    ).define("parquet.codec", text, "snappy", ValidString(*CODECS), doc="The compression of Parquet.").define(
        "s3.compression.type", text, "none", ValidString("none", "gzip"), doc="The compression of JSON."
    ).define(
        COMPATIBILITY,
        text,
        "NONE",
        ValidString(*COMPATIBILITIES),
        doc="Whether records with another version of the schema are written to the same files, with the "
        "schema of those: older ones (BACKWARD, FULL), newer ones (FORWARD), or none.",
    ).define(
        NULLS,
        text,
        "fail",
        ValidString("fail", "ignore"),
        Importance.LOW,
        "Whether a record without a value is an error or is left out.",
    ).define(
        "file.delim", text, "+", doc="The text between topic, partition and offset in names of files."
    ).define(
        "filename.offset.zero.pad.width",
        count,
        10,
        Range(0),
        doc="The least number of digits of offsets there.",
    )


def _define_places(definition: ConfigDef) -> None:
    text = ConfigType.STRING
    definition.define(
        PARTITIONER,
        text,
        DEFAULT,
        importance=Importance.HIGH,
        doc="DefaultPartitioner, FieldPartitioner, TimeBasedPartitioner, DailyPartitioner or "
        "HourlyPartitioner, also with the packages of Confluent's classes.",
    ).define("partition.field.name", ConfigType.LIST, "", doc="The fields that name folders.").define(
        "path.format", text, "", doc="The folder of a time, such as 'year'=YYYY/'month'=MM."
    ).define(
        "partition.duration.ms", ConfigType.LONG, -1, doc="The length of the periods that share a folder."
    ).define(
        EXTRACTOR,
        text,
        "Wallclock",
        doc="The time of a record: Wallclock, Record (its timestamp) or RecordField (timestamp.field).",
    ).define("timestamp.field", text, "timestamp", doc="The field with the time.").define(
        "timezone", text, "UTC", doc="The time zone of folders."
    ).define("locale", text, "en", doc="Has no effect: names of months are in English.")
