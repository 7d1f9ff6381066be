"""The configuration keys of the objects source; names for S3 are those of Aiven's connector."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connect.connectors.formats.bad_records import define_bad_records
from penstock.connect.connectors.formats.settings import define_formats
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import DescribedValidator, NonEmptyString, Range, ValidString
from penstock.connect.errors import ConfigInvalid

URL: Final = "store.url"
OPTION_PREFIX: Final = "store.option."
BUCKET: Final = "aws.s3.bucket.name"
PREFIX: Final = "aws.s3.prefix"
REGION: Final = "aws.s3.region"
ENDPOINT: Final = "aws.s3.endpoint"
ACCESS_KEY: Final = "aws.access.key.id"
SECRET_KEY: Final = "aws.secret.access.key"
TOPIC: Final = "topic"
FILE_PATTERN: Final = "input.file.pattern"
START_KEY: Final = "native.start.key"
SORT: Final = "files.sort.attributes"
BY_NAME: Final = "NameAsc"
BY_TIME: Final = "LastModifiedAsc"
INTERVAL: Final = "store.poll.interval.ms"
METADATA: Final = "metadata.location"
NONE: Final = "NONE"
HEADERS: Final = "HEADERS"
TASK_INDEX: Final = "task.index"
TASK_COUNT: Final = "task.count"


def _check_pattern(name: str, value: Any) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise ConfigInvalid(f"Invalid value {value} for configuration {name}: {error}") from None


def _define_store(definition: ConfigDef) -> ConfigDef:
    return (
        definition.define(
            URL,
            ConfigType.STRING,
            "",
            importance=Importance.HIGH,
            doc="The store and the prefix of the objects: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,"
            " az://ACCOUNT/CONTAINER/PREFIX or file:///DIRECTORY. Without it, the bucket is"
            f" {BUCKET}. Options of the client are {OPTION_PREFIX}NAME, such as"
            f" {OPTION_PREFIX}google_service_account.",
        )
        .define(BUCKET, ConfigType.STRING, "", importance=Importance.HIGH, doc="The bucket in S3.")
        .define(PREFIX, ConfigType.STRING, "", importance=Importance.MEDIUM, doc="The prefix in the bucket.")
        .define(REGION, ConfigType.STRING, "", importance=Importance.MEDIUM, doc="The region of S3.")
        .define(
            ENDPOINT,
            ConfigType.STRING,
            "",
            importance=Importance.LOW,
            doc="The URL of a store that speaks S3's protocol.",
        )
        .define(ACCESS_KEY, ConfigType.STRING, "", importance=Importance.MEDIUM, doc="The access key of S3.")
        .define(
            SECRET_KEY,
            ConfigType.PASSWORD,
            None,
            importance=Importance.MEDIUM,
            doc="The secret key of S3. Without keys, those of the environment or of the machine are used.",
        )
    )


def _define_reading(definition: ConfigDef) -> ConfigDef:
    return (
        definition.define(
            TOPIC, ConfigType.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic."
        )
        .define(
            FILE_PATTERN,
            ConfigType.STRING,
            ".*",
            DescribedValidator(_check_pattern, "a regular expression"),
            Importance.MEDIUM,
            "The regular expression that an object's name, behind the last slash, must match.",
        )
        .define(
            START_KEY,
            ConfigType.STRING,
            "",
            importance=Importance.MEDIUM,
            doc="Only objects whose names, below the prefix, come after this one are listed and read.",
        )
        .define(
            SORT,
            ConfigType.STRING,
            BY_NAME,
            ValidString(BY_NAME, BY_TIME),
            Importance.MEDIUM,
            "The order in which objects are read.",
        )
        .define(
            INTERVAL,
            ConfigType.LONG,
            10_000,
            Range(1),
            Importance.LOW,
            "The time between two lists of the store, in ms.",
        )
        .define(
            METADATA,
            ConfigType.STRING,
            NONE,
            ValidString(NONE, HEADERS),
            Importance.LOW,
            "HEADERS adds the headers file.path, file.name and file.offset to each record.",
        )
        .define(
            TASK_INDEX, ConfigType.INT, 0, Range(0), Importance.LOW, "Set by the connector.", internal=True
        )
        .define(
            TASK_COUNT, ConfigType.INT, 1, Range(1), Importance.LOW, "Set by the connector.", internal=True
        )
    )


DEFINITION: Final = define_bad_records(define_formats(_define_reading(_define_store(ConfigDef()))))
