"""Connectors as users write them: the example in the docstring, and the defaults of the classes."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock.connect.connector
from penstock.connect import (
    ConfigDef,
    ConfigType,
    SinkConnector,
    SinkRecord,
    SinkTask,
    TopicPartition,
    TransactionContext,
)
from penstock.connect.connector.connector import parsed
from penstock.connect.data.records import Offset, Partition

EXAMPLE_LINES_MAX = 40


class StoredOffsets:
    """A source task's context with the offsets that were stored before."""

    transaction: TransactionContext | None = None

    def __init__(self, stored: Offset | None) -> None:
        self.stored = stored

    def configs(self) -> Mapping[str, str]:
        return {}

    def offset(self, partition: Partition) -> Offset | None:
        return self.stored

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        return [self.stored for _ in partitions]


class Configured:
    """A connector's context with its configuration."""

    def configs(self) -> Mapping[str, str]:
        return {"name": "printer"}

    def request_task_reconfiguration(self) -> None:
        raise AssertionError("no connector here asks for it")

    def raise_error(self, error: Exception) -> None:
        raise error


class Printer(SinkTask):
    definition = ConfigDef().define("width", ConfigType.INT, 80)
    version = "1.2"

    def put(self, records: Sequence[SinkRecord]) -> None:
        print(*records)


class PrinterConnector(SinkConnector):
    task_class = Printer


def example() -> str:
    """The code in the docstring of the package."""
    doc = inspect.getdoc(penstock.connect.connector) or ""
    _, _, rest = doc.partition("A complete source:\n\n")
    return inspect.cleandoc(rest.partition("\n\nNothing here")[0])


def test_the_example_reads_whole_lines_and_resumes(tmp_path: Path) -> None:
    assert len(example().splitlines()) < EXAMPLE_LINES_MAX
    names: dict[str, Any] = {}
    exec(example(), names)  # documentation is run as it stands
    file = tmp_path / "log"
    file.write_text("one\ntwo\nunfinis")
    task = names["LinesOfFile"]()
    config = parsed(task.definition, {"file": str(file), "topic": "lines"})

    task.context = StoredOffsets(None)
    task.start(config)
    assert [record.value for record in task.poll()] == ["one", "two"]
    with file.open("a") as more:
        more.write("hed\n")
    assert [record.value for record in task.poll()] == ["unfinished"]
    assert task.poll() == []
    task.stop()

    task.context = StoredOffsets({"position": len("one\n")})
    task.start(config)
    assert [record.value for record in task.poll()] == ["two", "unfinished"]
    task.stop()


def test_a_connector_takes_definition_and_version_from_its_task() -> None:
    connector = PrinterConnector()
    assert connector.version == "1.2"
    assert [(value.name, value.value) for value in connector.validate({"width": "7"})] == [("width", 7)]


def test_a_sink_copies_its_configuration_for_each_task() -> None:
    connector = PrinterConnector()
    connector.context = Configured()
    assert connector.task_configs(2) == [{"name": "printer"}, {"name": "printer"}]


def test_a_sink_that_keeps_nothing_commits_all_offsets() -> None:
    offsets = {TopicPartition("lines", 0): 5}
    assert Printer().pre_commit(offsets) == offsets


def test_what_is_not_defined_stays_text() -> None:
    assert parsed(Printer.definition, {"width": "7", "tables": "a,b"}) == {"width": 7, "tables": "a,b"}
