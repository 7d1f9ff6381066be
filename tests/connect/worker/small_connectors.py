"""A source that counts and a sink that writes lines, as users would write them, and a worker as a program.

As a program its arguments are the worker's properties as JSON. It prints its URL once it is ready.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.connect import (
    ConfigDef,
    ConfigType,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from penstock.connect.worker import start

BATCH = 10


class NumberTask(SourceTask):
    """Counts from 0 to ``limit``; its offset is the next number."""

    definition = (
        ConfigDef()
        .define("topic", ConfigType.STRING, doc="The topic of the numbers.")
        .define("limit", ConfigType.INT, doc="How many numbers there are.")
        .define("part", ConfigType.STRING, "0", doc="The name of this part.")
        .define("gate", ConfigType.STRING, "", doc="A file without which the second half waits.")
    )
    exactly_once = True
    version = "2.1"

    def start(self, config: Mapping[str, Any]) -> None:
        self.topic, self.limit = config["topic"], config["limit"]
        self.gate = Path(config["gate"]) if config["gate"] else None
        self.partition = {"part": config["part"]}
        stored = self.context.offset(self.partition)
        self.next = stored["next"] if stored else 0

    def poll(self) -> Sequence[SourceRecord]:
        is_open = self.gate is None or self.gate.exists()
        limit = self.limit if is_open else self.limit // 2
        batch = range(self.next, min(self.next + BATCH, limit))
        self.next = batch.stop if batch else self.next
        return [self.record(number) for number in batch]

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(
            topic=self.topic,
            value=f"{self.partition['part']}-{number}",
            source_partition=self.partition,
            source_offset={"next": number + 1},
        )


class NumberSource(SourceConnector):
    """Splits the counting into ``tasks.max`` parts."""

    task_class = NumberTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.context.configs(), "part": str(number)} for number in range(max_tasks)]


class GreedySource(NumberSource):
    """Makes one task more than it may."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return super().task_configs(max_tasks + 1)


class LineSink(SinkTask):
    """Appends each value to a file as a line; a value of ``bad`` is an error."""

    definition = ConfigDef().define("file", ConfigType.STRING, doc="The file to write.")

    def start(self, config: Mapping[str, Any]) -> None:
        self.path = Path(config["file"])

    def put(self, records: Sequence[SinkRecord]) -> None:
        if any(record.value == "bad" for record in records):
            raise ValueError("a bad line")
        with self.path.open("a") as file:
            file.writelines(f"{record.value}\n" for record in records)


if __name__ == "__main__":
    worker = start(json.loads(sys.argv[1]))
    worker.wait_until_ready()
    print(worker.advertised_url, flush=True)
    worker.join()
