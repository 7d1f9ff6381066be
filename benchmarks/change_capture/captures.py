"""One run of each side in a process of its own: the task and the converters, without worker and broker.

`python -m change_capture.captures` is our side; it reads the task's properties from its input, as
DebeziumCapture.java does, and prints records, CPU seconds and seconds in the same way.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Final

from penstock.connect.cdc.postgres.source import PostgresTask
from penstock.connect.connector.connector import parsed
from penstock.connect.converters.headers import SimpleHeaderConverter
from penstock.connect.converters.json.converter import JsonConverter
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks.conversion import SourceConversion
from penstock.connect.tasks.metrics import ErrorMetrics
from penstock.connect.tasks.parts import TaskParts
from penstock.connect.tasks.settings import ErrorSettings
from penstock.connect.tasks.tolerance import Attempt, Tolerance

KIB: Final = 1024


class _Context:
    """The part of a worker that the task asks for: no offsets are stored."""

    transaction = None

    def configs(self) -> dict[str, str]:
        return {}

    def offset(self, partition: object) -> None:
        return None

    def offsets(self, partitions: list[object]) -> list[None]:
        return [None for _ in partitions]


def main() -> None:
    """Read as many records as asked for, and convert them."""
    properties: dict[str, str] = json.loads(sys.stdin.read())
    expected, enabled = int(properties.pop("records")), properties.pop("schemas.enable")
    task = PostgresTask()
    task.context = _Context()  # type: ignore[assignment]
    keys, values = JsonConverter(), JsonConverter()
    keys.configure({"schemas.enable": enabled}, True)
    values.configure({"schemas.enable": enabled}, False)
    parts = TaskParts(
        task_id=ConnectorTaskId("bench", 0),
        task=task,
        properties=properties,
        key_converter=keys,
        value_converter=values,
        header_converter=SimpleHeaderConverter(),
    )
    conversion = SourceConversion(parts, Tolerance(ErrorSettings(), ErrorMetrics()))
    task.start(parsed(task.definition, properties))
    count, began, cpu = 0, 0.0, 0.0
    while count < expected:
        records = task.poll() or ()
        if records and not count:
            began, cpu = time.monotonic(), time.process_time()
        for record in records:
            conversion.convert(Attempt(record))
            task.commit_record(record, None)
        count += len(records)
    print(count, time.process_time() - cpu, time.monotonic() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    print(f"peak memory of ours: {peak >> 20} MiB", file=sys.stderr)
    task.stop()


if __name__ == "__main__":
    main()
