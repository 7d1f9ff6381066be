"""The source of a host's query: the sources of its members side by side.

Its offsets hold those of each member (`penstock.spark.streams.query.source`) under its number:

    {"@members": {"3": {"starts": 1, "at": {"orders": {"0": 12}, …}, "group": {"id": …, "cluster": …}}, …},
     "host_start": {"id": "5d0c…"}}

``starts`` is the roster's: offsets that were planned for an earlier start are not run. ``group`` is present
if the batch that ends here moves the member: its consumer group's offsets then join the transaction.
``host_start`` identifies the start of the host that planned the batch. It makes a host that has just started
run a batch at once, an empty one if need be, so that the first batch with records finds processes that run
and code that is compiled.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from penstock.client.connections.cluster import Cluster
from penstock.client.reading.fetcher import PartitionRange
from penstock.client.reading.offsets import IsolationLevel
from penstock.spark.hosting.ends import CommonEnds, EndsOfMember
from penstock.spark.hosting.failures import blaming
from penstock.spark.hosting.plan import HostPlan, host_from_text, read_plan, worker_of
from penstock.spark.hosting.positions import Members, position_in
from penstock.spark.hosting.roster import Member, Roster, RosterFile
from penstock.spark.sink.checkpoint import MEMBERS_KEY
from penstock.spark.source.checkpointed import JsonOffsets
from penstock.spark.source.offsets import from_json
from penstock.spark.source.read import read_ranges
from penstock.spark.streams.blocks.layout import block_of
from penstock.spark.streams.blocks.packing import Block, Kind, tick
from penstock.spark.streams.blocks.rows import PackedRow, row_batches
from penstock.spark.streams.planning.plan import StreamsPlan
from penstock.spark.streams.query.source import SourceDriver, Work, rows_of, stores_of
from penstock.spark.streams.tasks.map_side import Common, MapSide

_SCHEMA: Final = pa.schema(
    [
        pa.field("group", pa.int64(), False),
        pa.field("plan", pa.string(), False),
        pa.field("block", pa.binary(), False),
    ]
)
_HOST_START_KEY: Final = "host_start"
_IDLE_S: Final = 1.0
"""How long idle members are not polled; no longer, because some have timers on wall-clock time."""

HostRow = tuple[int, str, bytes]
"""The group, the name of the member's plan, and a packed block."""


class Share(NamedTuple):
    """The part of a task for one member, or the groups to clear of a removed member."""

    number: int
    plan: str
    work: Work | None = None
    cleared: tuple[int, ...] = ()


class SharesPartition(InputPartition):
    value: tuple[Share, ...]


class HostReader(DataSourceStreamReader):
    """The reader of a host's query; ``host`` is a `HostPlan` as text."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._driver: _Driver | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_host": self._host, "_driver": None}

    @property
    def _here(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(host_from_text(self._host))
        return self._driver

    def initialOffset(self) -> JsonOffsets:
        return {MEMBERS_KEY: {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Impose no limit here: each member has its own."""
        return ReadAllAvailable()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:
        host = host_from_text(self._host).driver
        return {MEMBERS_KEY: self._here.latest(start[MEMBERS_KEY]), _HOST_START_KEY: {"id": host.start_id}}

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        return [SharesPartition(task) for task in self._here.plan(start[MEMBERS_KEY], end[MEMBERS_KEY])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return row_batches(_rows(host_from_text(self._host), partition.value), _SCHEMA)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class _Idle(NamedTuple):
    """The state in which no member has work, assumed for a while as long as no topic grows."""

    start: Members
    roster: Roster
    until_s: float

    def lasts(self, start: Members, roster: Roster) -> bool:
        return roster is self.roster and time.monotonic() < self.until_s and start == self.start


class _Driver:
    """The reader's part in the driver's process that Spark asks for offsets."""

    def __init__(self, host: HostPlan) -> None:
        self._host = host
        self._where = host.location
        self._file = RosterFile(self._where)
        self._sources: dict[str, SourceDriver] = {}
        self._cluster = Cluster(host.sink.client)
        self._cluster_id = self._cluster.refresh([]).cluster_id or ""
        self._ends = CommonEnds(self._cluster, IsolationLevel.READ_COMMITTED)
        self._idle: _Idle | None = None
        self._acknowledged: Roster | None = None

    def close(self) -> None:
        for source in self._sources.values():
            source.close()
        self._ends.close()
        self._cluster.close()

    def latest(self, start: Members) -> Members:
        """Return the end of the next batch, always ordered by number, since Spark compares offsets as text.

        Raises MemberFailed.
        """
        roster = self._file.follow()
        if roster is not self._acknowledged:  # Spark asks for the next batch only while none is running
            self._file.acknowledge(roster)
            self._acknowledged = roster
        if self._idle is not None and self._idle.lasts(start, roster) and not self._ends.have_grown():
            return start
        self._idle = None
        self._forget_others(roster)
        self._look(roster, start)
        found = {str(member.number): self._latest_of(member, start) for member in roster.members}
        if _positions(found) != _positions(start):
            return found
        self._idle = _Idle(start, roster, time.monotonic() + _IDLE_S)
        return start

    def _look(self, roster: Roster, start: Members) -> None:
        running = [member for member in roster.members if member.is_running]
        topics: set[str] = set()
        for member in running:
            with blaming(member.number):
                topics |= topics_read(self._source(member).plan)
        self._ends.look(topics, (from_json(position_in(start, member)) for member in running))

    def _latest_of(self, member: Member, start: Members) -> dict[str, Any]:
        before = position_in(start, member)
        if not member.is_running:
            return {"starts": member.starts, "at": before}
        with blaming(member.number):
            source = self._source(member)
            at = source.latest(before, source.inner.getDefaultReadLimit())
        entry = {"starts": member.starts, "at": at}
        if at == before:
            return entry
        return entry | {"group": {"id": source.plan.topology.application, "cluster": self._cluster_id}}

    def plan(self, start: Members, end: Members) -> list[tuple[Share, ...]]:
        """Return the shares of each task of a batch. Raises MemberFailed."""
        roster = self._file.follow()
        known = roster.by_number
        shares: list[Share] = []
        for number, entry in end.items():
            member = known.get(int(number))
            if member is None or member.starts != entry["starts"]:
                continue  # removed in the meantime, or failed in this very batch
            before = position_in(start, member)
            if before == entry["at"]:
                continue
            with blaming(member.number):
                works = self._source(member).plan_batch(before, entry["at"])
            shares += [Share(member.number, member.plan, work) for work in works]
        for member in roster.removed:
            if str(member.number) in start and str(member.number) not in end:
                shares.append(Share(member.number, member.plan, cleared=member.groups))
        return share_out(shares, self._host.tasks_max)

    def _source(self, member: Member) -> SourceDriver:
        source = self._sources.get(member.plan)
        if source is None:
            plan = read_plan(self._where, member.plan, self._host.credentials)
            source = SourceDriver(plan, EndsOfMember(self._ends, topics_read(plan)))
            self._sources[member.plan] = source
        return source

    def _forget_others(self, roster: Roster) -> None:
        needed = {member.plan for member in roster.members}
        for name in self._sources.keys() - needed:
            self._sources.pop(name).close()


def topics_read(plan: StreamsPlan) -> set[str]:
    """Return the names, on the cluster, of the topics that the query reads for an application.

    Changelogs and global tables are not among them.
    """
    return set(plan.topology.source_topics()) - plan.shuffled_topics


def _positions(members: Members) -> dict[str, tuple[int, JsonOffsets]]:
    return {number: (entry["starts"], entry["at"]) for number, entry in members.items()}


def share_out(shares: Iterable[Share], tasks_max: int) -> list[tuple[Share, ...]]:
    """Distribute the shares over at most ``tasks_max`` tasks with similar numbers of offsets.

    One task reads each partition, so that members at the same offset share the fetched records.
    """
    together: dict[object, list[Share]] = defaultdict(list)
    for share in shares:
        work = share.work
        first = work.ranges[0] if work is not None and work.ranges else None
        together[share.number if first is None else first[:2]].append(share)
    tasks: list[list[Share]] = [[] for _ in range(min(tasks_max, len(together)))]
    sizes = [0] * len(tasks)
    for some in sorted(together.values(), key=_size, reverse=True):
        least = sizes.index(min(sizes))
        tasks[least] += some
        sizes[least] += _size(some)
    return [tuple(task) for task in tasks]


def _size(shares: Sequence[Share]) -> int:
    """The number of offsets, plus one for each share."""
    ranges = (part for share in shares if share.work for part in (*share.work.ranges, *share.work.restored))
    return sum(part.end - part.start for part in ranges) + len(shares)


# Code that runs in the tasks


def _rows(host: HostPlan, shares: Sequence[Share]) -> Iterator[HostRow]:
    """Yield the rows of one task's shares. Raises MemberFailed, ClientError."""
    read_alike: dict[tuple[PartitionRange, ...], list[Share]] = defaultdict(list)
    for share in shares:
        for group in share.cleared:
            yield group, share.plan, tick(0, 0)._replace(kind=Kind.CLEAR).pack()
        if share.work is None:
            continue
        if share.work.ranges:
            read_alike[share.work.ranges].append(share)
        alone = share.work._replace(ranges=())
        with blaming(share.number):
            for row in rows_of(worker_of(host, share.plan), alone):
                yield _named(row, share)
    for ranges, readers in read_alike.items():
        yield from _read_together(host, ranges, readers)


def _read_together(
    host: HostPlan, ranges: tuple[PartitionRange, ...], shares: Sequence[Share]
) -> Iterator[HostRow]:
    readers = []
    for share in shares:
        assert share.work is not None
        with blaming(share.number):
            worker = worker_of(host, share.plan)
            readers.append(_Reader(share, share.work, worker.map_side, stores_of(worker, share.work)))
    with blaming(shares[0].number):
        for batch in read_ranges(worker_of(host, shares[0].plan).plan.source, ranges):
            block = block_of(batch, Kind.RECORDS, 0)
            common: dict[bytes, Common] = {}
            for reader in readers:
                with blaming(reader.share.number):
                    yield from reader.rows(block, common, is_alone=len(readers) == 1)


class _Reader(NamedTuple):
    share: Share
    work: Work
    map_side: MapSide
    tables: Mapping[str, Any] | None

    def rows(self, block: Block, common: dict[bytes, Common], *, is_alone: bool) -> Iterator[HostRow]:
        """Yield the rows that this member makes of a block.

        ``common`` holds what earlier members have decoded from the block, for later ones that decode it
        alike.
        """
        mine = block._replace(clock_ms=self.work.clock_ms, note=self.work.note)
        reading = None if is_alone else self.map_side.reading(block.topic)
        read: Common | None = None
        if reading is not None:
            read = common.get(reading.made_of)
            if read is None:
                inputs = next((known[0] for known in common.values()), None) or block.inputs()
                read = common[reading.made_of] = inputs, reading.read(inputs)
        for row in self.map_side.block_rows(mine, self.tables, read):
            yield _named(row, self.share)


def _named(row: PackedRow, share: Share) -> HostRow:
    group, block = row
    return group, share.plan, block
