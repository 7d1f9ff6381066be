"""The plugins of ConnectValidation.java in Python, and stand-ins for those of Kafka."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from penstock.connect.connector.sink import SinkTask
from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.data.records import SinkRecord, SourceRecord
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance, Width
from penstock.connect.definitions.validators import NonEmptyString, Range, ValidList, ValidString

JAVA = "org.apache.kafka.connect.runtime.ConnectValidation$"
LOW, MEDIUM, HIGH = Importance.LOW, Importance.MEDIUM, Importance.HIGH


class Modes:
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return ["a", "null" if parsed.get("topic") is None else parsed["topic"]]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return parsed.get("topic") != "hidden"


class OracleTask(SourceTask):
    version = "1.2.0"
    definition = (
        ConfigDef()
        .define(
            "topic",
            ConfigType.STRING,
            validator=NonEmptyString(),
            importance=HIGH,
            group="Oracle",
            order=1,
            width=Width.LONG,
            display_name="Topic",
            dependents=["mode"],
        )
        .define(
            "mode",
            ConfigType.STRING,
            "a",
            ValidString("a", "b", "c", "d"),
            LOW,
            group="Oracle",
            order=2,
            width=Width.SHORT,
            display_name="Mode",
            recommender=Modes(),
        )
        .define("secret", ConfigType.PASSWORD, None, importance=MEDIUM)
        .define("batch.size", ConfigType.INT, 2000, Range(1, 5000), LOW)
        .define("errors.tolerance", ConfigType.STRING, "some", importance=LOW)
        .define("ratio", ConfigType.DOUBLE, 0.5, importance=LOW, group="Other", order=1, display_name="Ratio")
        .define("names", ConfigType.LIST, "x,y", ValidList(), LOW)
    )

    def poll(self) -> list[SourceRecord]:
        return []


class OracleSource(SourceConnector):
    task_class = OracleTask

    def exactly_once_support(self, properties: Mapping[str, str]) -> bool | None:
        mode = properties.get("mode")
        if mode == "d":
            raise RuntimeError("no idea")
        return {"b": True, "c": False}.get(mode or "")

    def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
        return properties.get("mode") == "b"


class FileStreamSourceTask(SourceTask):
    version = "4.3.1"
    definition = (
        ConfigDef()
        .define("file", ConfigType.STRING, None, importance=HIGH)
        .define("topic", ConfigType.STRING, validator=NonEmptyString(), importance=HIGH)
        .define("batch.size", ConfigType.INT, 2000, importance=LOW)
    )

    def poll(self) -> list[SourceRecord]:
        return []


class FileStreamSource(SourceConnector):
    task_class = FileStreamSourceTask

    def exactly_once_support(self, properties: Mapping[str, str]) -> bool | None:
        return bool(self.definition.parse(properties)["file"])


class FileStreamSink(SinkTask):
    version = "4.3.1"
    definition = ConfigDef().define("file", ConfigType.STRING, None, importance=HIGH)

    def put(self, records: Sequence[SinkRecord]) -> None:
        pass


class OracleTransform:
    definition: ClassVar[ConfigDef] = (
        ConfigDef()
        .define("field", ConfigType.STRING, validator=NonEmptyString(), importance=HIGH)
        .define("negate", ConfigType.STRING, "hidden", importance=LOW)
        .define(
            "count",
            ConfigType.INT,
            3,
            Range(1),
            LOW,
            group="Counts",
            order=1,
            width=Width.SHORT,
            display_name="Count",
        )
    )


class OraclePredicate:
    definition: ClassVar[ConfigDef] = ConfigDef().define("pattern", ConfigType.STRING, ".*")


class OracleConverter:
    definition: ClassVar[ConfigDef] = (
        ConfigDef()
        .define(
            "converter.type",
            ConfigType.STRING,
            validator=ValidString("key", "value"),
            importance=LOW,
            group="Oracle",
            order=1,
            width=Width.SHORT,
            display_name="Type",
        )
        .define(
            "schemas.enable",
            ConfigType.BOOLEAN,
            True,
            importance=HIGH,
            group="Schemas",
            order=0,
            width=Width.MEDIUM,
            display_name="Enable schemas",
        )
        .define("size", ConfigType.INT, 1000, Range(0), LOW)
    )

    def close(self) -> None:
        pass


class StandIn:
    """A plugin of Kafka that no configuration of the test names itself."""

    definition: ClassVar[ConfigDef] = ConfigDef()


CLASSES: dict[str, type[Any]] = {
    **{
        JAVA + each.__name__: each
        for each in (OracleSource, OracleTransform, OraclePredicate, OracleConverter)
    },
    "org.apache.kafka.connect.file.FileStreamSourceConnector": FileStreamSource,
    "org.apache.kafka.connect.file.FileStreamSinkConnector": FileStreamSink,
}


def loader(name: str) -> Callable[[], type[Any]]:
    return lambda: CLASSES.get(name, StandIn)
