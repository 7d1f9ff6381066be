"""The configuration keys of the generator: those of Confluent's Datagen."""

from __future__ import annotations

from typing import Final

from penstock.connect.connectors.generator.quickstarts import QUICKSTARTS
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import NonEmptyString, ValidString

TOPIC: Final = "kafka.topic"
INTERVAL: Final = "max.interval"
ITERATIONS: Final = "iterations"
SCHEMA: Final = "schema.string"
SCHEMA_FILE: Final = "schema.filename"
KEY_FIELD: Final = "schema.keyfield"
QUICKSTART: Final = "quickstart"
SEED: Final = "random.seed"
TASK: Final = "task.id"
BATCH: Final = 500
"""Records in a batch if there is no time between them."""

DEFINITION: Final = (
    ConfigDef()
    .define(
        TOPIC, ConfigType.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic."
    )
    .define(
        INTERVAL,
        ConfigType.LONG,
        500,
        None,
        Importance.HIGH,
        "The longest time between two records, in ms; each time is random. Without time (0 or less), records"
        " come as fast as they can be written.",
    )
    .define(
        ITERATIONS,
        ConfigType.INT,
        -1,
        None,
        Importance.HIGH,
        "The number of records of each task; -1 for no end.",
    )
    .define(
        SCHEMA,
        ConfigType.STRING,
        "",
        None,
        Importance.HIGH,
        "The Avro schema of the values as JSON, with arg.properties that say how to make them.",
    )
    .define(SCHEMA_FILE, ConfigType.STRING, "", None, Importance.HIGH, "The file of such a schema.")
    .define(
        KEY_FIELD,
        ConfigType.STRING,
        "",
        None,
        Importance.HIGH,
        "The field of the values that is the key too; the quickstarts have one of their own.",
    )
    .define(
        QUICKSTART,
        ConfigType.STRING,
        "",
        ValidString("", *QUICKSTARTS),
        Importance.HIGH,
        "The name of a schema that comes with the connector.",
    )
    .define(
        SEED,
        ConfigType.LONG,
        None,
        None,
        Importance.LOW,
        "The seed: the same seed and schema give the same records. By default each task chooses one at its"
        " first start.",
    )
    .define(TASK, ConfigType.INT, 0, None, Importance.LOW, "Set by the connector.", internal=True)
)
