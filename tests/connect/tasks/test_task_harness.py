"""The harness for users' tests: sources and sinks step by step, without a broker."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running_tasks import Text

from penstock.connect import (
    ConfigDef,
    ConfigInvalid,
    ConfigType,
    ConnectError,
    DataError,
    RetriableError,
    SinkRecord,
    SinkTask,
    SinkTaskTest,
    SourceRecord,
    SourceTask,
    SourceTaskTest,
    TopicPartition,
)
from penstock.connect.data.schema import STRING


class LinesOfFile(SourceTask):
    """Sends each line of a file, with its position as the offset."""

    definition = ConfigDef().define("file", ConfigType.STRING).define("topic", ConfigType.STRING)

    def start(self, config: Mapping[str, Any]) -> None:
        self.topic = config["topic"]
        self.partition = {"file": config["file"]}
        self.file = Path(config["file"]).open("rb")  # noqa: SIM115  # stop() closes it
        stored = self.context.offset(self.partition)
        self.file.seek(stored["position"] if stored else 0)

    def poll(self) -> Sequence[SourceRecord]:
        return [self.record(line) for line in iter(self.file.readline, b"")]

    def record(self, line: bytes) -> SourceRecord:
        record = SourceRecord(
            topic=self.topic,
            value=line.decode().strip(),
            value_schema=STRING,
            source_partition=self.partition,
            source_offset={"position": self.file.tell()},
        )
        if self.context.transaction is not None and record.value == "abort":
            self.context.transaction.abort(record)
        elif self.context.transaction is not None and record.value == "commit":
            self.context.transaction.commit(record)
        return record

    def stop(self) -> None:
        self.file.close()


def config_of(file: Path, **more: str) -> dict[str, str]:
    return {"file": str(file), "topic": "lines", **{key.replace("_", "."): more[key] for key in more}}


def test_a_source_is_polled_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    with SourceTaskTest(LinesOfFile(), config_of(file)) as test:
        assert [(r.topic, r.value, r.value_schema) for r in test.poll()] == [
            ("lines", "one", STRING),
            ("lines", "two", STRING),
        ]
        assert test.offset({"file": str(file)}) == {"position": 8}
        file.write_text("one\ntwo\nthree\n")
        test.restart(LinesOfFile())
        assert [record.value for record in test.take(1)] == ["three"]
    assert len(test.records) == 3


def test_after_a_crash_the_last_records_come_again_unless_the_source_is_exactly_once(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    for exactly_once in (False, True):
        file.write_text("one\n")
        with SourceTaskTest(LinesOfFile(), config_of(file), exactly_once=exactly_once) as test:
            test.poll()
            with file.open("a") as more:
                more.write("two\n")
            test.poll()
            test.crash(LinesOfFile())
            again = [record.value for record in test.poll()]
        assert again == ([] if exactly_once else ["two"])


def test_a_record_in_place_of_a_list_is_an_error_that_names_the_task(tmp_path: Path) -> None:
    class Single(LinesOfFile):
        def poll(self) -> Any:
            return self.record(b"one\n")

    file = tmp_path / "lines"
    file.touch()
    with (
        SourceTaskTest(Single(), config_of(file)) as test,
        pytest.raises(TypeError, match=r"Single\.poll returned a SourceRecord, expected a list"),
    ):
        test.poll()


def test_offsets_of_an_earlier_run_can_be_given(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    offsets = [({"file": str(file)}, {"position": 4})]
    with SourceTaskTest(LinesOfFile(), config_of(file), offsets=offsets) as test:
        assert [record.value for record in test.poll()] == ["two"]


def test_the_configuration_is_checked(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigInvalid, match='"topic" which has no default'),
        SourceTaskTest(LinesOfFile(), {"file": str(tmp_path / "none")}),
    ):
        pass


def test_a_task_that_defines_transactions(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\nabort\nb\ncommit\nc\n")
    config = config_of(file, transaction_boundary="connector")
    with SourceTaskTest(LinesOfFile(), config, exactly_once=True) as test:
        assert [record.value for record in test.poll()] == ["b", "commit"]
        assert test.offset({"file": str(file)}) == {"position": 17}
        test.restart(LinesOfFile())
        test.poll()
    assert [record.value for record in test.records] == ["b", "commit"]


def test_a_source_with_a_converter_gives_bytes_and_shows_failures(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("good\nbad\n")
    config = config_of(file, errors_tolerance="all")
    with SourceTaskTest(LinesOfFile(), config, value_converter=Text()) as test:
        assert [record.value for record in test.poll()] == [b"good"]
        [failed] = test.failed
        assert (failed.value, failed.stage) == ("bad", "VALUE_CONVERTER")
    with (
        SourceTaskTest(LinesOfFile(), config_of(file), value_converter=Text()) as test,
        pytest.raises(DataError, match="this value is bad"),
    ):
        test.poll()


class Collecting(SinkTask):
    """Writes values into a list when it is flushed."""

    definition = ConfigDef().define("limit", ConfigType.INT, 100)

    def __init__(self, written: list[Any]) -> None:
        self.written, self.kept, self.is_busy = written, list[SinkRecord](), False
        self.opened: list[list[TopicPartition]] = []

    def start(self, config: Mapping[str, Any]) -> None:
        self.limit = config["limit"]

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.opened.append(list(partitions))

    def put(self, records: Sequence[SinkRecord]) -> None:
        if self.is_busy and records:
            raise RetriableError("busy")
        for record in records:
            if record.value == "refused":
                assert self.context.reporter is not None
                self.context.reporter.report(record, ValueError("refused"))
            elif record.value == "broken":
                raise ValueError("broken")
            else:
                self.kept.append(record)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.written += [record.value for record in self.kept]
        self.kept.clear()


def test_a_sink_is_fed_committed_and_restarted() -> None:
    written: list[Any] = []
    with SinkTaskTest(Collecting(written), {"limit": "7"}) as test:
        test.put("a", {"id": 1}, key="k")
        assert test.committed("a") is None
        test.commit()
        assert (written, test.committed("a")) == ([{"id": 1}], 1)
        test.put("a", {"id": 2})
        test.restart(Collecting(written))  # the second record was not flushed
        test.step()
    assert written == [{"id": 1}, {"id": 2}]
    assert test.committed("a") == 2


def test_a_sink_that_is_busy_gets_its_records_again() -> None:
    written: list[Any] = []
    task = Collecting(written)
    with SinkTaskTest(task, {}, partitions=[TopicPartition("a", 0), TopicPartition("a", 1)]) as test:
        task.is_busy = True
        test.put("a", 1)
        assert test.must_redeliver
        task.is_busy = False
        test.step()
        test.put("a", 2, partition=1)
        test.assign([TopicPartition("a", 1)])
        assert task.opened == [[("a", 0), ("a", 1)], [("a", 1)]]
    assert written == [1, 2]


def test_after_a_flush_that_fails_a_busy_sink_gets_its_records_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    task = Collecting(written)

    def fail(offsets: Mapping[TopicPartition, int]) -> None:
        raise OSError("full")

    with SinkTaskTest(task, {}) as test:
        task.is_busy = True
        test.put("a", 1)
        with monkeypatch.context() as patch:
            patch.setattr(task, "flush", fail)
            test.commit()
        assert not test.must_redeliver
        task.is_busy = False
        test.step()
        test.put("a", 2)
    assert written == [1, 2]
    assert test.committed("a") == 2


def test_reported_records_are_shown_and_errors_are_the_tasks_own() -> None:
    with SinkTaskTest(Collecting([]), {"errors.tolerance": "all"}) as test:
        test.put("a", "refused")
        [failed] = test.failed
        assert (failed.value, failed.stage, str(failed.error)) == ("refused", "TASK_PUT", "refused")
        with pytest.raises(ValueError, match="broken"):
            test.put("a", "broken")


class StoringOffsets(SinkTask):
    """Keeps values and offsets in one place outside, and reads partitions from the offsets there."""

    def __init__(self, outside: dict[TopicPartition, int], values: list[Any]) -> None:
        self.outside, self.values = outside, values

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self.context.seek({tp: self.outside.get(tp, 0) for tp in partitions})

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            tp = TopicPartition(record.topic, record.partition or 0)
            self.values.append(record.value)
            self.outside[tp] = record.offset + 1
            if record.value == "pause":
                self.context.pause(tp)
            elif record.value == "resume":
                self.context.resume(*self.context.assignment())
            elif record.value == "commit":
                self.context.request_commit()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {}


def test_a_sink_can_keep_its_offsets_outside() -> None:
    outside: dict[TopicPartition, int] = {}
    values: list[Any] = []
    with SinkTaskTest(StoringOffsets(outside, values), {}) as test:
        test.put("a", 1)
        test.put("a", 2)
        test.commit()
        assert test.committed("a") is None
        test.restart(StoringOffsets(outside, values))
        test.put("a", 3)
    assert values == [1, 2, 3]


def test_a_sink_pauses_partitions_and_asks_for_commits() -> None:
    values: list[Any] = []
    partitions = [TopicPartition("a", 0), TopicPartition("a", 1)]
    with SinkTaskTest(StoringOffsets({}, values), {}, partitions=partitions) as test:
        test.put("a", "pause")
        test.put("a", "later")
        test.put("a", "other", partition=1)
        assert values == ["pause", "other"]
        test.put("a", "resume", partition=1)
        test.step()
        assert values == ["pause", "other", "resume", "later"]
    written: list[Any] = []

    class Asking(Collecting):
        def put(self, records: Sequence[SinkRecord]) -> None:
            super().put(records)
            self.context.request_commit()

    with SinkTaskTest(Asking(written), {}) as test:
        test.put("a", 1)
        test.step()
        assert (written, test.committed("a")) == ([1], 1)


def test_a_sink_may_not_pause_partitions_of_others() -> None:
    class Greedy(Collecting):
        def put(self, records: Sequence[SinkRecord]) -> None:
            self.context.pause(TopicPartition("other", 0))

    with SinkTaskTest(Greedy([]), {}) as test, pytest.raises(ConnectError, match="SinkTasks may not pause"):
        test.put("a", 1)


def test_transforms_run_and_their_failures_are_shown() -> None:
    class Doubling:
        transform_class = dict

        def apply(self, record: Any) -> Any:
            if record.value == "odd":
                raise DataError("no number")
            return replace(record, topic="doubled", value=record.value * 2) if record.value else None

        def close(self) -> None: ...

    task = Collecting([])
    with SinkTaskTest(task, {"errors.tolerance": "all"}, transforms=[Doubling()]) as test:
        for value in (1, 0, "odd", 4):
            test.put("a", value)
        assert [(record.topic, record.original_topic, record.value) for record in task.kept] == [
            ("doubled", "a", 2),
            ("doubled", "a", 8),
        ]
        assert [(each.value, each.stage) for each in test.failed] == [("odd", "TRANSFORMATION")]
        test.commit()
        assert test.committed("a") == 4
