"""The commands of scripts about groups; see `coordinator_script` for the format of scripts.

The output of a command is every answer (`a <- …`), every appended record (`log …`) and every action of a
timer, in order.

Clients name the members; a script contains member ids only to send wrong ones:

    join g a topics=t1,t2 protocols=range,sticky session=10s rebalance=60s version=9 instance=i fresh
    sync g a assign a=p0 b=p1            heartbeat g a            leave g a b
    commit g a t1:0=5 metadata=x         commit g - t1:0=5        (by nobody: a simple consumer)
    fetch g t1:0 t1:1                    fetch g all              fetch g t1:0 stable
    txn-commit g a t1:0=5 producer=7     end-txn 7 commit|abort   (the marker is in the log)
    advance 3s      fail NOT_ENOUGH_REPLICAS     restart      config group.max.size=2
"""

import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator_script import Options, duration_ms

from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.coordinator import GroupCoordinator
from penstock.coordinators.group.results import PARKED
from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.batch import NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ZERO_UUID,
    GroupMetadataKey,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)

CONFIG_FIELDS = {name.replace("_", "."): name for name in GroupCoordinatorConfig.__dataclass_fields__}


def subscription(topics: list[str]) -> bytes:
    """A consumer's metadata in version 0: topics and no user data."""
    encoded = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + encoded + struct.pack(">i", -1)


def topics_of(metadata: bytes) -> str:
    count, position, names = struct.unpack_from(">i", metadata, 2)[0], 6, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", metadata, position)
        names.append(metadata[position + 2 : position + 2 + length].decode())
        position += 2 + length
    return ",".join(names)


@dataclass(eq=False)
class Client:
    """A client, which serves as the broker's request context and as the key of its delayed requests."""

    name: str
    client_id: str
    api_version: int = 9
    client_host: str = "10.0.0.1"
    member_id: str = ""
    generation_id: int = -1
    instance: str | None = None


class GroupDriver:
    """One coordinator, its log and its clients."""

    def __init__(self) -> None:
        self.config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0)
        self.now_ms = 0
        self.log: list[tuple[CoordinatorRecord | bool, int]] = []
        """Records, or for markers whether they commit; each with the producer id of the transaction."""
        self.clients: dict[tuple[str, str], Client] = {}
        self.failures: list[ErrorCode] = []
        self.out: list[str] = []
        self._uuids = itertools.count(1)
        self._names: dict[str, str] = {}
        self._start()

    def run(self, command: str) -> list[str]:
        self.out = []
        verb, *words = command.split()
        handler: Callable[[list[str]], None] = getattr(self, f"do_{verb.replace('-', '_')}")
        handler(words)
        return self.out

    # -- the owner's tasks ---------------------------------------------------------------------------

    def _start(self) -> None:
        self.coordinator = GroupCoordinator(self.config, lambda: str(next(self._uuids)))
        for offset, (entry, producer_id) in enumerate(self.log):
            if isinstance(entry, bool):
                self.coordinator.replay_end_transaction(producer_id, committed=entry)
            else:
                self.coordinator.replay(entry, offset, self.now_ms, producer_id)
        self.settle(self.coordinator.on_loaded(self.now_ms))

    def settle(self, records: list[CoordinatorRecord]) -> ErrorCode:
        """Append, replay and deliver, as the broker does after every call."""
        error = ErrorCode.NONE
        if records and self.failures:
            error = self.failures.pop(0)
            self.say(f"log refused: {error.name}")
            self.settle(self.coordinator.fail_append(records, error, self.now_ms))
        elif records:
            for record in records:
                self.log.append((record, NO_PRODUCER_ID))
                self.say(f"log {self.show_record(record)}")
                self.coordinator.replay(record, len(self.log) - 1, self.now_ms)
        for ticket, response in self.coordinator.take_replies():
            assert isinstance(ticket, Client)
            self.answer(ticket, response)
        return error

    def say(self, line: str) -> None:
        self.out.append(line)

    def answer(self, client: Client, response: object) -> None:
        self.say(f"{client.name} <- {self.show(response)}")
        if isinstance(response, JoinGroupResponse):
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                client.member_id = response.member_id
                client.generation_id = response.generation_id
            self._names[response.member_id] = client.name

    def client(self, group_id: str, name: str) -> Client:
        """The client of this name; each group has its own."""
        return self.clients.setdefault((group_id, name), Client(name, name.rstrip("'")))

    # -- requests ------------------------------------------------------------------------------------

    def do_join(self, words: list[str]) -> None:
        options = Options(words)
        group_id, name, *flags = options.words
        client = self.client(group_id, name)
        client.api_version = int(options.get("version", "9"))
        client.instance = options.get("instance", client.instance or "") or None
        if "fresh" in flags:
            client.member_id = ""
        metadata = subscription(options.get("topics", "t1").split(","))
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=duration_ms(options.get("session", "10s")),
            rebalance_timeout_ms=duration_ms(options.get("rebalance", "60s")),
            member_id=options.get("id", client.member_id),
            group_instance_id=client.instance,
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=protocol, metadata=metadata)
                for protocol in filter(None, options.get("protocols", "range").split(","))
            ],
        )
        records, response = self.coordinator.handle_join_group(request, client, client, self.now_ms)
        error = self.settle(records)
        if response is not PARKED:
            self.answer(client, JoinGroupResponse(error_code=error, member_id="") if error else response)

    def do_sync(self, words: list[str]) -> None:
        options = Options(words)
        group_id, name, *_ = options.words
        client = self.client(group_id, name)
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=int(options.get("generation", str(client.generation_id))),
            member_id=options.get("id", client.member_id),
            group_instance_id=client.instance,
            protocol_type=options.get("type", "") or None,
            protocol_name=options.get("protocol", "") or None,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=self.client(group_id, other).member_id, assignment=part.encode()
                )
                for other, part in options.pairs.items()
            ],
        )
        records, response = self.coordinator.handle_sync_group(request, client)
        self.settle(records)
        if response is not PARKED:
            self.answer(client, response)

    def do_heartbeat(self, words: list[str]) -> None:
        options = Options(words)
        group_id, name = options.words
        client = self.client(group_id, name)
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=int(options.get("generation", str(client.generation_id))),
            member_id=options.get("id", client.member_id),
            group_instance_id=client.instance,
        )
        self.answer(client, self.coordinator.handle_heartbeat(request, self.now_ms))

    def do_leave(self, words: list[str]) -> None:
        options = Options(words)
        group_id, *names = options.words
        leavers = [
            LeaveGroupRequest.MemberIdentity(member_id=client.member_id, group_instance_id=client.instance)
            for client in (self.client(group_id, name) for name in names)
        ]
        if "instance" in options.pairs:
            instance = options.get("instance", "")
            leavers.append(LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id=instance))
        request = LeaveGroupRequest(group_id=group_id, members=leavers)
        records, response = self.coordinator.handle_leave_group(request, self.now_ms)
        if error := self.settle(records):
            self.say(f"-> {error.name}")
            return
        shown = [
            f"{self._names.get(m.member_id) or m.group_instance_id}: {ErrorCode(m.error_code).name}"
            for m in response.members
        ]
        self.say(f"-> {', '.join(shown)}")

    def do_commit(self, words: list[str]) -> None:
        options = Options(words)
        group_id, name = options.words
        client = Client("-", "admin") if name == "-" else self.client(group_id, name)
        metadata = options.get("metadata", "")
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=int(options.get("generation", str(client.generation_id))),
            member_id=options.get("id", client.member_id),
            group_instance_id=client.instance,
            retention_time_ms=duration_ms(options.get("retention", "-1")),
            topics=[],
        )
        version = int(options.get("version", "9"))
        for where, offset in options.pairs.items():
            topic, index = where.split(":")
            partition = OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=int(index), committed_offset=int(offset), committed_metadata=metadata
            )
            request.topics.append(
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic, topic_id=ZERO_UUID, partitions=[partition]
                )
            )
        caller = replace(client, api_version=version)
        records, response = self.coordinator.handle_offset_commit(request, caller, self.now_ms)
        refused = self.settle(records)
        errors = {ErrorCode(refused or p.error_code).name for t in response.topics for p in t.partitions}
        self.say(f"{name} <- {' '.join(sorted(errors))}")

    def do_txn_commit(self, words: list[str]) -> None:
        options = Options(words)
        group_id, name = options.words
        client = Client("-", "admin") if name == "-" else self.client(group_id, name)
        producer_id = int(options.get("producer", "7"))
        request = TxnOffsetCommitRequest(
            group_id=group_id,
            producer_id=producer_id,
            generation_id=int(options.get("generation", str(client.generation_id))),
            member_id=options.get("id", client.member_id),
            group_instance_id=client.instance,
            topics=[],
        )
        metadata = options.get("metadata", "")
        for where, offset in options.pairs.items():
            topic, index = where.split(":")
            partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                partition_index=int(index), committed_offset=int(offset), committed_metadata=metadata
            )
            request.topics.append(
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])
            )
        records, response = self.coordinator.handle_txn_offset_commit(request, self.now_ms)
        for record in records:
            self.log.append((record, producer_id))
            self.say(f"log {self.show_record(record)} in the transaction of {producer_id}")
            self.coordinator.replay(record, len(self.log) - 1, self.now_ms, producer_id)
        errors = {ErrorCode(p.error_code).name for t in response.topics for p in t.partitions}
        self.say(f"{name} <- {' '.join(sorted(errors))}")

    def do_end_txn(self, words: list[str]) -> None:
        producer_id, outcome = int(words[0]), words[1] == "commit"
        self.log.append((outcome, producer_id))
        self.coordinator.replay_end_transaction(producer_id, committed=outcome)

    def do_fetch(self, words: list[str]) -> None:
        group_id, *wanted = words
        require_stable = "stable" in wanted
        wanted = [word for word in wanted if word != "stable"]
        topics = None
        if wanted != ["all"]:
            topics = [
                OffsetFetchRequest.OffsetFetchRequestTopics(
                    name=where.split(":")[0], partition_indexes=[int(where.split(":")[1])]
                )
                for where in wanted
            ]
        request = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        group = self.coordinator.handle_offset_fetch(request, require_stable=require_stable)
        shown = [
            f"{topic.name}:{p.partition_index}={p.committed_offset}"
            + (f" {p.metadata!r}" if p.metadata else "")
            + (f" {ErrorCode(p.error_code).name}" if p.error_code else "")
            for topic in group.topics
            for p in topic.partitions
        ]
        self.say(f"-> {', '.join(shown) or 'nothing'}")

    def do_delete_offsets(self, words: list[str]) -> None:
        group_id, *wanted = words
        topics = [
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=where.split(":")[0],
                partitions=[
                    OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=int(where.split(":")[1]))
                ],
            )
            for where in wanted
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)
        records, response = self.coordinator.handle_offset_delete(request)
        self.settle(records)
        if response.error_code:
            self.say(f"-> {ErrorCode(response.error_code).name}")
            return
        shown = [
            f"{topic.name}:{p.partition_index} {ErrorCode(p.error_code).name}"
            for topic in response.topics
            for p in topic.partitions
        ]
        self.say(f"-> {', '.join(shown)}")

    # -- administration ------------------------------------------------------------------------------

    def do_describe(self, words: list[str]) -> None:
        options = Options(words)
        caller = Client("-", "admin", api_version=int(options.get("version", "6")))
        group = self.coordinator.handle_describe_group(options.words[0], caller)
        error = f" {ErrorCode(group.error_code).name}" if group.error_code else ""
        kind = f"{group.protocol_type or '-'}/{group.protocol_data or '-'}"
        self.say(f"-> {group.group_id} {group.group_state} {kind}{error}")
        for m in group.members:
            instance = f" instance={m.group_instance_id}" if m.group_instance_id else ""
            topics = f" topics={topics_of(m.member_metadata)}" if m.member_metadata else ""
            self.say(
                f"   {self._names.get(m.member_id, '?')} ({m.member_id}) {m.client_id}@{m.client_host}"
                f"{instance}{topics} has {m.member_assignment.decode() or 'nothing'}"
            )

    def do_list(self, words: list[str]) -> None:
        options = Options(words)
        states = [s for s in options.get("states", "").split(",") if s]
        types = [t for t in options.get("types", "").split(",") if t]
        groups = self.coordinator.handle_list_groups(states, types)
        shown = [f"{g.group_id} {g.group_state} {g.protocol_type or '-'} {g.group_type}" for g in groups]
        self.say(f"-> {', '.join(sorted(shown)) or 'nothing'}")

    def do_delete(self, words: list[str]) -> None:
        records, error = self.coordinator.handle_delete_group(words[0])
        self.say(f"-> {(self.settle(records) or error).name}")

    def do_delete_topic(self, words: list[str]) -> None:
        self.settle(self.coordinator.handle_topic_deleted(words[0], ZERO_UUID))

    # -- environment ---------------------------------------------------------------------------------

    def do_advance(self, words: list[str]) -> None:
        end_ms = self.now_ms + duration_ms(words[0])
        while True:
            deadline_ms = self.coordinator.next_deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            before = len(self.out)
            self.settle(self.coordinator.on_timeout(self.now_ms))
            if len(self.out) > before:
                self.out.insert(before, f"[{self.now_ms / 1000:g}s]")
        self.now_ms = end_ms

    def do_fail(self, words: list[str]) -> None:
        self.failures += [ErrorCode[word] for word in words]

    def do_restart(self, words: list[str]) -> None:
        self._start()

    def do_config(self, words: list[str]) -> None:
        changes = {CONFIG_FIELDS[k]: duration_ms(v) for k, v in (word.split("=") for word in words)}
        self.config = replace(self.config, **changes)
        self._start()

    def do_resign(self, words: list[str]) -> None:
        self.coordinator.on_unloaded()
        self.settle([])

    # -- output --------------------------------------------------------------------------------------

    def show(self, response: object) -> str:
        if isinstance(response, ErrorCode):
            return response.name
        error = ErrorCode(response.error_code)
        if isinstance(response, JoinGroupResponse):
            return self.show_join(response, error)
        if error is not ErrorCode.NONE:
            return f"sync {error.name}"
        part = response.assignment.decode() or "nothing"
        return f"sync {response.protocol_type}/{response.protocol_name} {part}"

    def show_join(self, response: JoinGroupResponse, error: ErrorCode) -> str:
        if error is not ErrorCode.NONE:
            return f"join {error.name}" + (f" id={response.member_id}" if response.member_id else "")
        members = ", ".join(f"{m.member_id}: {topics_of(m.metadata)}" for m in response.members)
        return (
            f"join generation={response.generation_id} {response.protocol_type}/{response.protocol_name}"
            f" id={response.member_id} leader={response.leader}"
            + (f" members=[{members}]" if members else "")
            + (" skip-assignment" if response.skip_assignment else "")
        )

    def show_record(self, record: CoordinatorRecord) -> str:
        key, value = record.key, record.value
        if isinstance(key, GroupMetadataKey):
            if value is None:
                return f"group {key.group} gone"
            members = ", ".join(
                f"{m.member_id} has {m.assignment.decode() or 'nothing'}" for m in value.members
            )
            kind = f"{value.protocol_type or '-'}/{value.protocol or '-'}"
            return f"group {key.group} generation={value.generation} {kind} [{members}]"
        where = f"{key.group} {key.topic}:{key.partition}"
        if value is None:
            return f"offset {where} gone"
        expiry = f" until {value.expire_timestamp / 1000:g}s" if record.value_version == 1 else ""
        return f"offset {where}={value.offset}{expiry}"
