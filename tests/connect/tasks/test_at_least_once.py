"""Offsets of an at-least-once source: those of records that are not in their topics are never stored."""

from typing import Any

import pytest
from running_tasks import source_parts

from penstock.connect import ConnectError, SourceRecord, SourceTask
from penstock.connect.data.records import Offset, Partition
from penstock.connect.tasks.metrics import TaskMetrics
from penstock.connect.tasks.sending.delivery import Delivery, OutgoingRecord, SenderClosed
from penstock.connect.tasks.settings import ErrorSettings, OffsetSettings
from penstock.connect.tasks.sources.at_least_once import AtLeastOnceWork
from penstock.connect.tasks.sources.source_work import SourceContext
from penstock.connect.tasks.tolerance import Attempt, Tolerance


class Deliveries:
    """A sender whose deliveries the test decides."""

    def __init__(self) -> None:
        self.left: list[Delivery] = []

    def send(self, record: OutgoingRecord, delivery: Delivery) -> None:
        self.left.append(delivery)

    def flush(self, timeout_s: float) -> bool:
        return False

    def close(self) -> None:
        for delivery in self.left:
            delivery.failed(SenderClosed("closed"))


class Offsets:
    def __init__(self) -> None:
        self.added: list[Offset] = []
        self.flushed: list[Offset] = []

    def add(self, partition: Partition, offset: Offset) -> None:
        self.added.append(offset)

    def flush(self) -> bool:
        self.flushed, self.added = self.flushed + self.added, []
        return True

    def offset(self, partition: Partition) -> Offset | None:
        return None

    def offsets(self, partitions: Any) -> list[Offset | None]:
        return []


class Idle(SourceTask):
    def poll(self) -> None: ...


class Working:
    """Work that tolerates all errors, with its sender and offsets; one record is sent."""

    def __init__(self) -> None:
        parts = source_parts(Idle(), "working")
        metrics = TaskMetrics(parts.task_id, is_source=True)
        tolerance = Tolerance[SourceRecord](ErrorSettings(tolerance="all"), metrics.errors)
        self.sender, self.offsets = Deliveries(), Offsets()
        context = SourceContext(parts, self.offsets, None)
        self.work = AtLeastOnceWork(
            parts, metrics, tolerance, context, self.sender, self.offsets, OffsetSettings()
        )
        record = SourceRecord(topic="t", source_partition={"p": 1}, source_offset={"o": 1})
        self.work.send(Attempt(record), OutgoingRecord("t", None, None, b"1"))


def test_a_cancelled_task_stores_no_offsets() -> None:
    working = Working()
    working.sender.left.pop().acknowledged("t", 0, 0, 0)
    working.work.cancel()
    working.work.finish(failed=False)
    assert working.offsets.flushed == []


def test_a_record_left_by_a_dead_sender_fails_the_task_though_errors_are_tolerated() -> None:
    working = Working()
    working.sender.close()
    with pytest.raises(ConnectError, match="closed"):
        working.work.finish(failed=False)
    assert working.offsets.flushed == []


def test_acknowledged_records_are_forgotten_before_their_offsets_are_stored() -> None:
    working = Working()
    working.sender.left.pop().acknowledged("t", 0, 0, 0)
    working.work.begin_step()
    assert working.offsets.added == [{"o": 1}]
    assert working.offsets.flushed == []
