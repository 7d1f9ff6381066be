"""Streams that break off: at any event of the session, or within a transaction of the log. Pure."""

import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pymysql")

from test_mariadb_records import Catalogs

from penstock.connect.cdc.batches import Batch
from penstock.connect.cdc.mysql.events import (
    FORMAT,
    QUERY,
    ROTATE,
    Begin,
    Event,
    EventHeader,
    Query,
    Rotate,
    Rows,
    read_event,
)
from penstock.connect.cdc.mysql.positions import ResumePoint
from penstock.connect.cdc.mysql.reading.settings import CaptureSettings
from penstock.connect.cdc.mysql.reading.streaming import Stream
from penstock.connect.cdc.mysql.records import RecordWriter
from penstock.connect.cdc.mysql.row_images import RowReader
from penstock.connect.cdc.mysql.schema_changes import SchemaChanges
from penstock.connect.cdc.mysql.schemas import TableSchema, table_schema
from penstock.connect.cdc.mysql.table_maps import BinlogColumn, TableMap
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ReplicationProtocolError

HERE = Path(__file__).parent
FILE = "binlog.000001"
PROPERTIES = {"topic.prefix": "pre", "database.hostname": "h", "database.include.list": "cases"}
FILE_BEGINS: tuple[EventHeader, Event] = (EventHeader(0, FORMAT, 1, 100, 256), None)
Log = Sequence[tuple[EventHeader, Event]]


class Replay:
    """A session that gives recorded events."""

    def __init__(self, events: Log) -> None:
        self.events = list(events)

    def read(self) -> tuple[EventHeader, Event]:
        return self.events.pop(0)

    def has_more(self) -> bool:
        return False


class Capture:
    """The sessions of one task, one after another, and what they hand over."""

    def __init__(self, case: dict[str, Any], place: ResumePoint, **more: str) -> None:
        self._settings = CaptureSettings.of({**PROPERTIES, **more}, "mariadb", "3.6.1.Final", "run")
        self._catalogs = Catalogs(case["catalogs"], self._settings.filters)
        self._catalogs.position = 1 << 40
        self.place, self.is_half = place, False
        self.batches: list[Batch] = []

    def session(self, events: Log) -> RecordWriter:
        """Read these events after those that each session begins with."""
        naming, values = self._settings.events.naming, self._settings.events.values

        def schema_of(table: TableMap) -> TableSchema | None:
            return table_schema(table, {}, values, naming)

        changes = SchemaChanges(
            *("pre", "mariadb", naming.source, self._catalogs.of),
            lambda catalog: table_schema(catalog.table_map(), {}, values, naming),
        )
        writer = RecordWriter(
            *(self._settings.events, schema_of, changes, lambda: 0, self.place, True, self.is_half)
        )
        stream = Stream(
            *(self._settings, writer, self.place, self._take, lambda: None),
            is_half_handed_over=self.is_half,
        )
        begin: Log = [
            (EventHeader(0, ROTATE, 1, 40, 0), Rotate(self.place.file, self.place.position)),
            (EventHeader(0, FORMAT, 1, 100, 0), None),
        ]
        session: Any = Replay([*begin, *events])
        while session.events:
            stream.step(session)
        self.place, self.is_half = stream.resume_point, stream.is_half_handed_over
        return writer

    def _take(self, batch: Batch) -> bool:
        self.batches.append(batch)
        return True

    def records(self) -> list[SourceRecord]:
        return [record for batch in self.batches for record in batch.records]

    def committed(self) -> list[SourceRecord]:
        """What a worker commits that ends its transactions as the batches say."""
        done: list[SourceRecord] = []
        open_ones: list[SourceRecord] = []
        for batch in self.batches:
            for record in batch.records:
                open_ones.append(record)
                if record is batch.boundary:
                    done, open_ones = done + open_ones, []
            if batch.aborts:
                open_ones = []
        return done


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    text = lzma.decompress((HERE / "mariadb_cases.json.xz").read_bytes()).decode().partition("\n")[2]
    found: dict[str, Any] = json.loads(text)["defaults"]
    return found


@pytest.fixture(scope="module")
def log(case: dict[str, Any]) -> Log:
    """The events after the first transaction, which has all types and is long."""
    events = [read_event(bytes.fromhex(each), has_checksum=True) for each in case["events"]]
    begins = [place for place, (_, event) in enumerate(events) if isinstance(event, Begin)]
    return events[begins[1] :]


def begin_of(log: Log) -> ResumePoint:
    return ResumePoint(FILE, log[0][0].start)


def after(log: Log, place: ResumePoint) -> Log:
    """What a server sends from a place on."""
    return [each for each in log if each[0].start >= place.position]


def shown(records: Sequence[SourceRecord]) -> list[tuple[str, str, str]]:
    return [(each.topic, str(each.key), str(each.value)) for each in records]


@pytest.mark.parametrize("size", ["1", "3"])
def test_a_session_may_break_after_any_event(case: dict[str, Any], log: Log, size: str) -> None:
    whole = Capture(case, begin_of(log))
    whole.session(log)
    broken = Capture(case, begin_of(log), **{"max.batch.size": size})
    for last in range(len(log)):
        broken.session([])  # lost before the transaction begins
        broken.session([each for each in after(log, broken.place) if each[0].end <= log[last][0].end])
    assert shown(broken.records()) == shown(whole.records())
    assert shown(broken.committed()) == shown(whole.committed())


def test_heartbeats_wait_for_the_rest_of_a_transaction(case: dict[str, Any], log: Log) -> None:
    largest = largest_of(log)
    capture = Capture(case, begin_of(largest), **{"max.batch.size": "1", "heartbeat.interval.ms": "1"})
    capture.session(largest[: len(largest) // 2])
    assert capture.place.events
    place, count = capture.place, len(capture.records())
    capture.session([])
    assert (capture.place, len(capture.records())) == (place, count)


def largest_of(log: Log) -> Log:
    """The transaction with the most rows."""
    begins = [place for place, (_, event) in enumerate(log) if isinstance(event, Begin)]
    parts = [log[left:right] for left, right in zip(begins, [*begins[1:], len(log)], strict=True)]
    return max(parts, key=lambda part: sum(isinstance(event, Rows) for _, event in part))


@pytest.mark.parametrize("size", ["1", "1000000"])
def test_half_a_transaction_is_left_out(case: dict[str, Any], log: Log, size: str) -> None:
    largest = largest_of(log)
    whole = Capture(case, begin_of(largest))
    whole.session(largest)
    torn = Capture(case, begin_of(largest), **{"max.batch.size": size})
    torn.session([*largest[:-2], FILE_BEGINS, *largest])
    assert any(batch.aborts for batch in torn.batches) == (size == "1")
    assert shown(torn.committed()) == shown(whole.committed())


@pytest.mark.parametrize("size", ["1", "1000000"])
def test_a_transaction_that_is_rolled_back_is_left_out(case: dict[str, Any], log: Log, size: str) -> None:
    """It is in the log if it made a temporary table."""
    largest = largest_of(log)
    end = largest[-1][0]
    rollback = (EventHeader(1, QUERY, 1, end.size, end.end), Query(1, "cases", "ROLLBACK"))
    capture = Capture(case, begin_of(largest), **{"max.batch.size": size})
    capture.session([*largest[:-1], rollback])
    assert not capture.committed()
    assert capture.place == ResumePoint(FILE, end.end)


def test_another_transaction_in_place_of_half_a_one(case: dict[str, Any], log: Log) -> None:
    """The server lost a transaction that it had sent in part; the next one has its GTID."""
    largest = largest_of(log)
    whole = Capture(case, begin_of(largest))
    whole.session(largest)
    half = Capture(case, begin_of(largest), **{"max.batch.size": "1"})
    half.session(largest[:-2])
    assert half.is_half
    elsewhere: Log = [(EventHeader(0, ROTATE, 1, 40, 0), Rotate("binlog.000002", 4)), *largest]
    with pytest.raises(ReplicationProtocolError, match=r"at binlog\.000002:\d+; expected .* in the middle"):
        half.session(elsewhere)
    restarted = Capture(case, half.place)
    restarted.session(elsewhere)
    assert len(restarted.committed()) == len(whole.committed()), "no row is skipped"


def test_rows_changed_by_a_statement_are_noticed(case: dict[str, Any], log: Log) -> None:
    begin = next(each for each in log if isinstance(each[1], Begin) and not each[1].is_standalone)
    table = next(row[1] for row in case["catalogs"][-1][1])
    statement = Query(1, "cases", f"insert into {table} values (1)")
    events = [begin, (EventHeader(1, QUERY, 1, 10, begin[0].end + 10), statement)]
    with pytest.raises(ReplicationProtocolError, match=rf"cases\.{table} were changed by a statement"):
        Capture(case, begin_of(events)).session(events)
    Capture(case, begin_of(events), **{"event.processing.failure.handling.mode": "warn"}).session(events)
    other = [begin, (events[1][0], Query(1, "other", f"insert into {table} values (1)"))]
    Capture(case, begin_of(other)).session(other)


def test_rows_that_end_early() -> None:
    reader = RowReader(TableMap("d", "t", (BinlogColumn("id", 3, b"", False),), ()))
    assert list(reader.rows(bytes.fromhex("01ff0007000000"), False)) == [(None, [7])]
    with pytest.raises(ReplicationProtocolError, match=r"a row of d\.t ends at byte 7 of an event with 6"):
        list(reader.rows(bytes.fromhex("01ff00070000"), False))
    with pytest.raises(ReplicationProtocolError, match="has 0 columns"):
        list(reader.rows(bytes.fromhex("0000"), False))
    with pytest.raises(ReplicationProtocolError, match="lacks columns; set binlog_row_image=FULL"):
        list(reader.rows(bytes.fromhex("01fe00"), False))
