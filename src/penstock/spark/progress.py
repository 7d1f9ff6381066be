"""The progress of a streaming query: its lag, its throughput and its state.

    from penstock.spark import lag, read_progress

    behind = lag(query.lastProgress)
    behind.total, behind.partitions["orders", 0]
    read_progress(query.lastProgress).records_per_second

`lag` also reads the progress of Spark's own Kafka source.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from penstock.client.connections.metadata import TopicPartition
from penstock.client.settings import ConfigError
from penstock.spark.source.offsets import Offsets, from_json

_WHOLE_BATCH: Final = "triggerExecution"
STREAMS_CLOCK: Final = "@clock"
"""A key that only the offsets of an application of `penstock.streams` have."""
HOST_MEMBERS: Final = "@members"
"""A key that only the offsets of a host (`penstock.spark.hosting`) have."""


class HasJson(Protocol):
    """The interface of pyspark's ``StreamingQueryProgress``."""

    @property
    def json(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Lag:
    """Offsets between the end of a batch and the end of each partition when the batch was planned.

    The number exceeds that of the records if offsets have gaps (compaction, transaction markers). It is 0 for
    a partition that the batch has read to its end.
    """

    partitions: Mapping[TopicPartition, int]

    @property
    def total(self) -> int:
        return sum(self.partitions.values())

    def __str__(self) -> str:
        behind = {tp: lag for tp, lag in self.partitions.items() if lag}
        shown = ", ".join(f"{tp}: {lag}" for tp, lag in sorted(behind.items()))
        return f"{self.total}" + (f" ({shown})" if shown else "")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one batch of a query.

    ``records`` is the number of records that the batch read. For an application of `penstock.streams` it is
    computed from offsets, because Spark sees only blocks of records; it then includes transaction markers and
    records removed by compaction. For a host, it leaves out members that the batch before did not have.
    ``state_rows`` and ``state_bytes`` (in memory and on disk) describe Spark's state store; an application
    keeps its own stores there, with many records in a row. ``late_rows`` were behind the watermark and were
    dropped. ``phases_ms`` has Spark's names: ``latestOffset``, ``addBatch``, ``walCommit``, ….
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    records: int
    records_per_second: float
    batch_ms: int
    state_rows: int
    state_bytes: int
    late_rows: int
    lag: Lag
    phases_ms: Mapping[str, int]


def read_progress(progress: HasJson | Mapping[str, Any] | str) -> Progress:
    """Return the progress of a batch; it accepts the same values as `lag`. Raises ConfigError."""
    fields = _fields(progress)
    phases: dict[str, int] = dict(fields.get("durationMs") or {})
    batch_ms = int(phases.pop(_WHOLE_BATCH, 0))
    records = sum(_records(source) for source in fields["sources"])
    operators = fields.get("stateOperators") or []
    return Progress(
        query_id=str(fields.get("id", "")),
        run_id=str(fields.get("runId", "")),
        name=fields.get("name"),
        batch_id=int(fields.get("batchId", 0)),
        records=records,
        records_per_second=1000 * records / batch_ms if batch_ms else 0.0,
        batch_ms=batch_ms,
        state_rows=sum(int(operator.get("numRowsTotal") or 0) for operator in operators),
        state_bytes=sum(_state_bytes(operator) for operator in operators),
        late_rows=sum(int(operator.get("numRowsDroppedByWatermark") or 0) for operator in operators),
        lag=lag(fields),
        phases_ms=phases,
    )


def lag(progress: HasJson | Mapping[str, Any] | str) -> Lag:
    """Return the lag of every partition that the query reads with ``penstock`` or Spark's own Kafka source.

    ``progress``: ``query.lastProgress``, an element of ``query.recentProgress``, the progress that Spark
    passes to a ``StreamingQueryListener``, or its JSON. If several sources read one partition, the largest
    lag counts. Sources of other kinds are skipped. Raises ConfigError for anything else.
    """
    partitions: dict[TopicPartition, int] = {}
    for end, latest in _sources(_fields(progress)):
        for tp, offset in latest.items():
            behind = max(0, offset - end.get(tp, 0))
            partitions[tp] = max(behind, partitions.get(tp, 0))
    return Lag(partitions)


def _fields(progress: HasJson | Mapping[str, Any] | str) -> Mapping[str, Any]:
    given: object = progress if isinstance(progress, str | Mapping) else getattr(progress, "json", progress)
    if isinstance(given, str):
        text = given
        try:
            given = json.loads(text)
        except ValueError:
            raise ConfigError(
                f"expected the progress of a streaming query or its JSON, found {text[:80]!r}"
            ) from None
    if not isinstance(given, Mapping) or "sources" not in given:
        raise ConfigError(
            f"expected the progress of a streaming query, with 'sources', found {type(given).__name__}"
        )
    return given


def _sources(progress: Mapping[str, Any]) -> Iterator[tuple[Offsets, Offsets]]:
    """Yield the batch's end offsets and the latest offsets of each source that reports both as offsets."""
    for source in progress["sources"]:
        end = _offsets(source.get("endOffset"))
        latest = _offsets(source.get("latestOffset"))
        if end is not None and latest is not None:
            yield end, latest


def _offsets(value: object) -> Offsets | None:
    """The offsets of partitions in ``value``, or None if it holds anything else."""
    found = _object(value)
    try:
        return None if found is None else from_json(found)
    except (ValueError, TypeError, AttributeError):
        return None


def _object(value: object) -> dict[str, Any] | None:
    """The offsets in a progress as an object; they are JSON within JSON, or already an object."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _records(source: Mapping[str, Any]) -> int:
    start, end = (_object(source.get(name)) or {} for name in ("startOffset", "endOffset"))
    if STREAMS_CLOCK in end:
        return _moved(start, end)
    if HOST_MEMBERS not in end:
        return int(source.get("numInputRows") or 0)
    before, after = start.get(HOST_MEMBERS, {}), end[HOST_MEMBERS]
    return sum(
        _moved(before[number]["at"], member["at"])
        for number, member in after.items()
        if number in before and before[number]["starts"] == member["starts"]
    )


def _moved(start: Mapping[str, Any], end: Mapping[str, Any]) -> int:
    """The number of offsets from start to end, of the partitions that both have."""
    begin = from_json(start)
    return sum(offset - begin[tp] for tp, offset in from_json(end).items() if tp in begin)


def _state_bytes(operator: Mapping[str, Any]) -> int:
    metrics = operator.get("customMetrics") or {}
    return int(operator.get("memoryUsedBytes") or 0) + int(metrics.get("rocksdbSstFileSize") or 0)
