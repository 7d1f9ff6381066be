"""The configuration keys of the files source; most names are those of SpoolDir."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connect.connectors.formats.bad_records import define_bad_records
from penstock.connect.connectors.formats.settings import define_formats
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import (
    DescribedValidator,
    ListSize,
    NonEmptyString,
    Range,
    ValidString,
)
from penstock.connect.errors import ConfigInvalid

INPUT_PATH: Final = "input.path"
FILE_PATTERN: Final = "input.file.pattern"
RECURSIVE: Final = "input.path.walk.recursively"
MODE: Final = "mode"
COMPLETE: Final = "complete"
TAIL: Final = "tail"
TOPIC: Final = "topic"
SORT: Final = "files.sort.attributes"
MINIMUM_AGE: Final = "file.minimum.age.ms"
WAIT: Final = "empty.poll.wait.ms"
ROTATION_WAIT: Final = "rotation.wait.ms"
CLEANUP: Final = "cleanup.policy"
NONE: Final = "NONE"
DELETE: Final = "DELETE"
MOVE: Final = "MOVE"
FINISHED_PATH: Final = "finished.path"
ERROR_PATH: Final = "error.path"
METADATA: Final = "metadata.location"
HEADERS: Final = "HEADERS"
TASK_INDEX: Final = "task.index"
TASK_COUNT: Final = "task.count"
SORTS: Final = ("NameAsc", "NameDesc", "LastModifiedAsc", "LastModifiedDesc", "LengthAsc", "LengthDesc")


def _check_pattern(name: str, value: Any) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise ConfigInvalid(f"Invalid value {value} for configuration {name}: {error}") from None


def _define_places(definition: ConfigDef) -> ConfigDef:
    return (
        definition.define(
            INPUT_PATH,
            ConfigType.LIST,
            validator=ListSize(1000),
            importance=Importance.HIGH,
            doc="Files, directories and glob patterns, separated by commas; ** stands for any directories.",
        )
        .define(
            TOPIC, ConfigType.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic."
        )
        .define(
            FILE_PATTERN,
            ConfigType.STRING,
            ".*",
            DescribedValidator(_check_pattern, "a regular expression"),
            Importance.MEDIUM,
            "The regular expression that the whole name of a file must match.",
        )
        .define(
            RECURSIVE,
            ConfigType.BOOLEAN,
            False,
            importance=Importance.MEDIUM,
            doc="Whether files in subdirectories of directories are read too.",
        )
        .define(
            MODE,
            ConfigType.STRING,
            COMPLETE,
            ValidString(COMPLETE, TAIL),
            Importance.HIGH,
            "complete: files do not change any more. tail: files grow, and are rotated.",
        )
    )


def _define_reading(definition: ConfigDef) -> ConfigDef:
    return (
        definition.define(
            SORT,
            ConfigType.STRING,
            "NameAsc",
            ValidString(*SORTS),
            Importance.LOW,
            "The order in which complete files are read.",
        )
        .define(
            MINIMUM_AGE,
            ConfigType.LONG,
            0,
            Range(0),
            Importance.LOW,
            "Complete files are read once they were not modified for this time, in ms.",
        )
        .define(
            WAIT,
            ConfigType.LONG,
            500,
            Range(1),
            Importance.LOW,
            "The time between two searches for new files, in ms.",
        )
        .define(
            ROTATION_WAIT,
            ConfigType.LONG,
            5000,
            Range(0),
            Importance.LOW,
            "The time without new lines after which a renamed log is complete, in ms: a program may"
            " write to it until it opens the new one.",
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
            CLEANUP,
            ConfigType.STRING,
            NONE,
            ValidString(NONE, DELETE, MOVE),
            Importance.MEDIUM,
            "What happens to complete files whose records are all in the topic.",
        )
        .define(
            FINISHED_PATH,
            ConfigType.STRING,
            "",
            importance=Importance.MEDIUM,
            doc="The directory to which MOVE moves files.",
        )
        .define(
            ERROR_PATH,
            ConfigType.STRING,
            "",
            importance=Importance.MEDIUM,
            doc="The directory for files of which a part cannot be read, if errors are tolerated; by"
            " default they are cleaned up like others.",
        )
        .define(
            TASK_INDEX, ConfigType.INT, 0, Range(0), Importance.LOW, "Set by the connector.", internal=True
        )
        .define(
            TASK_COUNT, ConfigType.INT, 1, Range(1), Importance.LOW, "Set by the connector.", internal=True
        )
    )


DEFINITION: Final = define_bad_records(_define_reading(define_formats(_define_places(ConfigDef()))))
