"""The configuration keys of the files sink; those of rotation are Confluent's for object stores."""

from __future__ import annotations

from typing import Final

from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import NonEmptyString, Range, ValidString

OUTPUT_PATH: Final = "output.path"
FORMAT: Final = "output.format"
LINES: Final = "lines"
JSON_LINES: Final = "jsonl"
CSV: Final = "csv"
AVRO: Final = "avro"
COMPRESSION: Final = "compression.type"
CODEC: Final = "avro.codec"
FLUSH_SIZE: Final = "flush.size"
ROTATE_BYTES: Final = "rotate.file.size"
ROTATE_INTERVAL: Final = "rotate.interval.ms"
ROTATE_SCHEDULE: Final = "rotate.schedule.interval.ms"
NULL_VALUES: Final = "behavior.on.null.values"
FAIL: Final = "fail"
IGNORE: Final = "ignore"

DEFINITION: Final = (
    ConfigDef()
    .define(
        OUTPUT_PATH,
        ConfigType.STRING,
        validator=NonEmptyString(),
        importance=Importance.HIGH,
        doc="The directory for files, which are TOPIC/partition=P/TOPIC+P+OFFSET.jsonl and so on.",
    )
    .define(
        FORMAT,
        ConfigType.STRING,
        JSON_LINES,
        ValidString(LINES, JSON_LINES, CSV, AVRO),
        Importance.HIGH,
        "The format of files: lines of text, a JSON value on each line (jsonl), csv, or avro.",
    )
    .define(
        COMPRESSION,
        ConfigType.STRING,
        "none",
        ValidString("none", "gzip", "zstd"),
        Importance.LOW,
        f"How files of text are compressed; files of Avro have {CODEC}.",
    )
    .define(
        CODEC,
        ConfigType.STRING,
        "null",
        ValidString("null", "deflate", "snappy", "zstandard"),
        Importance.LOW,
        "How the blocks of Avro files are compressed.",
    )
    .define(
        FLUSH_SIZE,
        ConfigType.INT,
        10_000,
        Range(1),
        Importance.HIGH,
        "The number of records after which a file is complete.",
    )
    .define(
        ROTATE_BYTES,
        ConfigType.LONG,
        128 << 20,
        Range(1),
        Importance.MEDIUM,
        "The number of bytes, before compression, after which a file is complete.",
    )
    .define(
        ROTATE_INTERVAL,
        ConfigType.LONG,
        -1,
        Range(-1),
        Importance.MEDIUM,
        "The time between the timestamps of a file's first record and of one that belongs to the next file,"
        " in ms; -1 for any time.",
    )
    .define(
        ROTATE_SCHEDULE,
        ConfigType.LONG,
        60_000,
        Range(-1),
        Importance.MEDIUM,
        "The time after which a file with records is complete though no more come, in ms; -1 for any time.",
    )
    .define(
        NULL_VALUES,
        ConfigType.STRING,
        FAIL,
        ValidString(FAIL, IGNORE),
        Importance.LOW,
        "Whether records without a value are errors, or are left out.",
    )
)
