"""The parts of a host without Spark: its members, their standing, their work, and the blame for failures."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import (
    ClientError,
    DeliveryFailed,
    RecordTooLarge,
    ServerError,
    ServerUnreachable,
    UnknownPartition,
)
from penstock.client.reading.fetcher import PartitionRange
from penstock.protocol.errors import ErrorCode
from penstock.spark.hosting.counting import OutputsSeen, StagedByMembers, WrittenFile, blaming_owner
from penstock.spark.hosting.failures import MemberFailed, blaming, read_failure
from penstock.spark.hosting.groups import PASSING, member_group, number_of, partition_of
from penstock.spark.hosting.positions import last_completed, position_in
from penstock.spark.hosting.roster import Member, Roster, RosterDamaged, RosterFile, Standing
from penstock.spark.hosting.source import Share, share_out
from penstock.spark.hosting.troubles import KEPT_MAX, Troubles
from penstock.spark.sink.checkpoint import parse_offset_entry
from penstock.spark.sink.locations import Location
from penstock.spark.sink.partitioner import RowRefused
from penstock.spark.sink.staged import GroupNote, TaskStaged
from penstock.spark.streams.blocks.dropped import dropped_block
from penstock.spark.streams.blocks.packing import Position, outputs_by_topic
from penstock.spark.streams.planning.grouping import spark_hash_of_long
from penstock.spark.streams.query.source import Work

MEMBER = Member(3, "counts", "3-abc", Standing.RUNNING, {"orders": {"0": 5}}, (7, 8))


def location(path: Path) -> Location:
    return Location.open(str(path), "checkpoint")


# the roster


def test_a_roster_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = RosterFile(location(tmp_path))
    assert file.read() == Roster()
    failed = replace(MEMBER, number=4, name="other", standing=Standing.FAILED, error="it broke", starts=2)
    roster = Roster().with_member(failed).with_member(MEMBER).without(failed)
    file.write(roster)
    assert file.read() == roster
    assert [member.number for member in roster.members] == [3]
    assert roster.removed == (failed,)
    assert roster.next_number == 5, "no number is given twice"


def test_who_follows_a_roster_sees_what_was_written(tmp_path: Path) -> None:
    written, followed = RosterFile(location(tmp_path)), RosterFile(location(tmp_path))
    assert followed.follow() == Roster()
    for number in range(1, 4):
        roster = Roster().with_member(replace(MEMBER, number=number))
        written.write(roster)
        assert followed.follow() == roster
        assert followed.follow() is followed.follow()


def test_the_host_is_told_which_roster_batches_follow(tmp_path: Path) -> None:
    file = RosterFile(location(tmp_path))
    assert file.acknowledged() == -1
    RosterFile(location(tmp_path)).acknowledge(replace(Roster(), revision=7))
    assert file.acknowledged() == 7
    (tmp_path / "penstock" / "roster-seen.json").write_text("[]")
    with pytest.raises(OSError, match=r"roster-seen\.json is damaged"):
        file.acknowledged()


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"version": 1}', b'{"version": 1, "members": [{}]}'])
def test_a_damaged_roster_is_named(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "penstock" / "roster.json"
    file.parent.mkdir()
    file.write_bytes(damage)
    with pytest.raises(RosterDamaged, match=r"roster\.json is damaged"):
        RosterFile(location(tmp_path)).read()


def test_a_roster_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "penstock" / "roster.json"
    file.parent.mkdir()
    file.write_text('{"version": 2}')
    with pytest.raises(RosterDamaged, match="has version 2, expected at most 1"):
        RosterFile(location(tmp_path)).read()


# the standing of members


def entry(starts: int, offset: int, **more: object) -> dict[str, object]:
    return {"starts": starts, "at": {"orders": {"0": offset}}, **more}


def test_a_member_goes_on_where_its_last_batch_ended() -> None:
    assert position_in({"3": entry(1, 9)}, MEMBER) == {"orders": {"0": 9}}
    assert position_in({}, MEMBER) == MEMBER.begin
    again = replace(MEMBER, starts=2, begin={"orders": {"0": 6}})
    assert position_in({"3": entry(1, 9)}, again) == {"orders": {"0": 6}}, (
        "what was planned before is not run"
    )


def test_the_last_complete_batch_is_that_of_the_commit_log(tmp_path: Path) -> None:
    where = location(tmp_path)
    assert last_completed(where) == {}
    for batch in range(12):
        line = json.dumps({"@members": {"3": entry(1, batch)}}, separators=(",", ":"))
        where.child("offsets", str(batch)).write(f"v1\n{{}}\n{line}".encode())
        if batch < 11:
            where.child("commits", str(batch)).write(b"v1\n{}")
    assert last_completed(where) == {"3": entry(1, 10)}


def test_only_members_that_a_batch_moves_commit_their_groups_offsets() -> None:
    group = {"id": "of-counts", "cluster": "c"}
    members = {"3": entry(1, 9, group=group), "4": entry(1, 2)}
    line = json.dumps({"@members": members})
    for text in (f"v1\n{{}}\n{line}", f"v2\n{{}}\n0:{line}"):
        [found] = parse_offset_entry(text.encode()).groups
        assert (found.group_id, found.cluster_id, found.member) == ("of-counts", "c", (3, 1))
        assert [(tp.topic, tp.partition, offset) for tp, offset in found.offsets.items()] == [
            ("orders", 0, 9)
        ]


# how work is dealt out


def share(number: int, topic: str, partition: int, offsets: int) -> Share:
    return Share(number, f"{number}-x", Work(0, "", (PartitionRange(topic, partition, 0, offsets),)))


def test_members_that_read_a_partition_are_in_one_task_and_tasks_are_alike() -> None:
    shares = [share(n, "orders", p, 1000) for n in range(1, 6) for p in range(4)]
    shares += [share(9, "small", 0, 10), Share(8, "8-x", cleared=(1, 2))]
    tasks = share_out(shares, 2)
    assert sorted(map(repr, (one for task in tasks for one in task))) == sorted(map(repr, shares))
    assert len(tasks) == 2
    of_partition: dict[object, set[int]] = {}
    for at, task in enumerate(tasks):
        for one in task:
            if one.work is not None:
                of_partition.setdefault(one.work.ranges[0][:2], set()).add(at)
    assert all(len(found) == 1 for found in of_partition.values())
    sizes = [sum(one.work.ranges[0].end for one in task if one.work is not None) for task in tasks]
    assert max(sizes) - min(sizes) <= 10
    assert share_out([], 2) == []


def test_a_group_tells_member_and_partition_and_lands_where_it_is_wanted() -> None:
    rng = random.Random(1)
    for _ in range(200):
        number, partition = rng.randrange(PASSING, 1 << 24), rng.randrange(1 << 20)
        shuffle_partitions = rng.choice([1, 2, 7, 32])
        group = member_group(number, partition, shuffle_partitions)
        assert (number_of(group), partition_of(group)) == (number, partition)
        assert 0 <= group < 1 << 63
        assert spark_hash_of_long(group) % shuffle_partitions == (number + partition) % shuffle_partitions


# the member that caused a failure


def test_what_a_member_raises_says_whose_it_is() -> None:
    with pytest.raises(MemberFailed, match="member 7: ValueError: no number"), blaming(7):
        raise ValueError("no number")
    with pytest.raises(MemberFailed, match="member 7: KeyError"), blaming(8), blaming(7):
        raise KeyError("x")
    with pytest.raises(MemberFailed, match="member 7: ClientError: gone"), blaming(7):
        raise ClientError("gone")


def test_brokers_that_do_not_answer_are_no_members_fault() -> None:
    with pytest.raises(ServerUnreachable), blaming(7):
        raise ServerUnreachable("nobody there")


def test_one_that_fails_again_and_again_rests_longer_and_its_last_errors_are_known() -> None:
    asked: list[int] = []

    def rest_s(failures: int) -> float:
        asked.append(failures)
        return 3600.0

    troubles = Troubles(rest_s)
    assert troubles.of("x") == ()
    for number in range(KEPT_MAX + 2):
        troubles.add("x", f"error {number}")
    assert max(asked) == KEPT_MAX + 2
    assert troubles.due() == []
    assert [each.error for each in troubles.of("x")] == [f"error {n}" for n in range(2, KEPT_MAX + 2)]
    troubles.reset("x")
    asked.clear()
    troubles.add("x", "once more")
    assert asked == [1]


def test_who_has_rested_is_due_unless_somebody_else_decides() -> None:
    troubles = Troubles(lambda failures: 0.0)
    for name in ("x", "y", "z"):
        troubles.add(name, "it broke")
    troubles.settle("y")
    troubles.forget("z")
    assert (troubles.due(), troubles.of("z")) == (["x"], ())


SPARK_SAYS = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted SQLSTATE: XXKST
Traceback (most recent call last):
  File "worker.py", line 1, in main
{error} SQLSTATE: 39000
=== Streaming Query ===
Identifier: host
"""


def test_a_failure_is_read_from_what_spark_tells() -> None:
    module = "penstock.spark.hosting.failures"
    found = read_failure(
        SPARK_SAYS.format(error=f"{module}.MemberFailed: member 12: RecordFailed: bad\nvalue")
    )
    assert found == (12, "RecordFailed: bad\nvalue", False)
    found = read_failure(SPARK_SAYS.format(error="penstock.client.errors.ServerUnreachable: nobody there"))
    assert found == (None, "ServerUnreachable: nobody there", False)
    found = read_failure(SPARK_SAYS.format(error="penstock.spark.sink.ownership.RunFenced: replaced"))
    assert found == (None, "RunFenced: replaced", True)


# what members write


def outputs(number: int, topic: str, count: int) -> tuple[str, bytes]:
    written = [(topic, None, b"k", b"v", 0, ())] * count
    [block] = outputs_by_topic(written, None, Position("read", 0, 1), 0)
    return f"{number}-abc", block.pack()


@pytest.mark.parametrize(
    "error", [UnknownPartition("b", None, "servers", retriable=True), RowRefused("it has no partition 7")]
)
def test_a_member_gets_the_blame_for_a_row_that_its_topic_refuses(error: Exception) -> None:
    plans, blocks = zip(outputs(3, "a", 2), outputs(4, "b", 5), outputs(3, "a", 1), strict=True)
    batch = pa.record_batch({"plan": pa.array(plans), "block": pa.array(blocks, pa.binary())})
    seen = OutputsSeen()

    def write(failure: Exception) -> None:
        with seen.blaming_writer():
            for block in seen.blocks(iter([batch])):
                if block.targets[0] == "b":
                    raise failure

    with pytest.raises(MemberFailed, match=f"member 4: {type(error).__name__}: "):
        write(error)
    with pytest.raises(ServerUnreachable):
        write(ServerUnreachable("brokers are down"))


def refused(kind: type[RecordTooLarge | DeliveryFailed], code: ErrorCode, batch: int | None) -> Exception:
    error = kind("not written")
    error.batch = batch
    error.__cause__ = ServerError(code, "the broker's answer")
    return error


def staged(*blocks: tuple[str, bytes]) -> TaskStaged:
    """The report of a task in which each block becomes two record batches."""
    plans, packed = zip(*blocks, strict=True)
    batch = pa.record_batch({"plan": pa.array(plans), "block": pa.array(packed, pa.binary())})
    seen = OutputsSeen()
    for _ in seen.blocks(iter([batch])):
        seen.note_batch()
        seen.note_batch()
    report = seen.added_to(TaskStaged(None, 0, (), b"", None))
    assert isinstance(report, TaskStaged)
    return report


def test_a_member_gets_the_blame_for_a_record_that_a_broker_refuses() -> None:
    """The batches of all tasks count on, and members may write to the same topic."""
    messages = [
        staged(outputs(3, "a", 2), outputs(4, "a", 5)),
        TaskStaged(None, 0, (), b"", None),
        staged(outputs(5, "a", 1), outputs(3, "b", 1)),
    ]
    for batch, owner in enumerate([3, 3, 4, 4, 3, 3, 5, 5]):
        said = f"member {owner}: DeliveryFailed: not written"
        with pytest.raises(MemberFailed, match=said), blaming_owner(messages):
            raise refused(DeliveryFailed, ErrorCode.INVALID_RECORD, batch)
    with pytest.raises(MemberFailed, match="member 5: RecordTooLarge: "), blaming_owner(messages):
        raise refused(RecordTooLarge, ErrorCode.MESSAGE_TOO_LARGE, 6)


@pytest.mark.parametrize(
    ("code", "batch"),
    [(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 0), (ErrorCode.NOT_ENOUGH_REPLICAS, None)],
)
def test_no_member_gets_the_blame_for_what_concerns_them_all(code: ErrorCode, batch: int | None) -> None:
    with pytest.raises(DeliveryFailed), blaming_owner([staged(outputs(3, "a", 1))]):
        raise refused(DeliveryFailed, code, batch)


def test_what_members_write_is_counted_once_and_forgotten_with_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = location(tmp_path)
    RosterFile(where).write(Roster().with_member(MEMBER))
    late = "3-abc", dropped_block({"windows": 6}, 0, 0).pack()
    plans, blocks = zip(late, outputs(3, "a", 2), outputs(3, "log", 1), outputs(4, "b", 5), strict=True)
    seen = OutputsSeen()
    batch = pa.record_batch({"plan": pa.array(plans), "block": pa.array(blocks, pa.binary())})
    assert [block.pack() for block in seen.blocks(iter([batch]))] == list(blocks)
    note = GroupNote("group", TopicPartition("a", 0), "times")
    report = seen.added_to(TaskStaged(None, 8, (), b"", None, notes=(note,)))
    assert isinstance(report, StagedByMembers)
    assert report.notes == (note,)
    file = WrittenFile(where)
    file.add([report, None], 7)
    file.add([report], 7)  # the same batch again
    assert file.read() == ({3: {"a": 2, "log": 1}, 4: {"b": 5}}, {3: {"windows": 6}})
    assert f"application={MEMBER.name} batch=7 count=6 nodes=windows: 6" in caplog.text
    file.add([report], 100)
    assert file.read() == ({3: {"a": 4, "log": 2}}, {3: {"windows": 12}}), "there is no member 4"
    assert OutputsSeen().added_to(report) is report
    (tmp_path / "penstock" / "written.json").write_text("[]")
    with pytest.raises(OSError, match=r"written\.json is damaged"):
        file.read()
    file.add([report], 101)  # is only logged
