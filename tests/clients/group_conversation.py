"""A sequence of group requests, compared field by field, for any broker with Kafka's protocol.

`converse` plays it and returns the transcript. `group_conversation.txt` has the answers of Apache Kafka
4.3.1; the tests compare Penstock with it, and Kafka too if its jars are available.

Values that differ between runs get names: member ids are counted per prefix, topic ids are named by their
topics.
"""

import re
import socket
import struct
import time
from collections.abc import Iterator

from penstock.protocol import api_keys
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import MessageStruct
from penstock.protocol.errors import ErrorCode

TIMEOUT_S = 60
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


def subscription(*topics: str) -> bytes:
    encoded = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + encoded + struct.pack(">i", -1)


class Wire:
    """One connection; its name is the client id."""

    def __init__(self, bootstrap: str, name: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.name = name
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.correlation_id = 0
        self.waiting: list[tuple[ApiKey, int]] = []

    def send(self, request: m.Message, version: int) -> None:
        api_key = ApiKey(request.ID)
        self.correlation_id += 1
        header = m.RequestHeader(
            request_api_key=api_key,
            request_api_version=version,
            correlation_id=self.correlation_id,
            client_id=self.name,
        ).encode(api_keys.request_header_version(api_key, version))
        frame = header + request.encode(version)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        self.waiting.append((api_key, version))

    def receive(self) -> m.Message:
        api_key, version = self.waiting.pop(0)
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        _, position = m.ResponseHeader.decode(api_keys.response_header_version(api_key, version), frame)
        return api_keys.response_class(api_key).decode(version, frame, position)[0]

    def is_silent(self) -> bool:
        """Whether no answer arrives for a moment, so the request is delayed."""
        self.socket.settimeout(0.2)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(TIMEOUT_S)

    def ask(self, request: m.Message, version: int) -> m.Message:
        self.send(request, version)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            assert chunk, f"{self.name}: connection closed"
            data += chunk
        return data


class Conversation:
    """A conversation with one broker, and its transcript."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.lines: list[str] = []
        self.wires: dict[str, Wire] = {}
        self.topic_ids: dict[bytes, str] = {}
        self._names: dict[str, str] = {}

    def wire(self, name: str) -> Wire:
        if name not in self.wires:
            self.wires[name] = Wire(self.bootstrap, name)
        return self.wires[name]

    def title(self, text: str) -> None:
        self.lines += ["", f"# {text}"]

    def ask(self, name: str, request: m.Message, version: int) -> m.Message:
        response = self.wire(name).ask(request, version)
        self._write(name, response, version)
        return response

    def park(self, name: str, request: m.Message, version: int) -> None:
        """Send a request whose answer is delayed."""
        self.wire(name).send(request, version)
        assert self.wire(name).is_silent(), self.wire(name).receive()
        self.lines.append(f"{name}: {type(request).__name__} v{version} waits")

    def answer(self, name: str) -> m.Message:
        """The answer to a delayed request."""
        version = self.wire(name).waiting[0][1]
        response = self.wire(name).receive()
        self._write(name, response, version)
        return response

    def close(self) -> None:
        for wire in self.wires.values():
            wire.socket.close()

    def _write(self, name: str, response: m.Message, version: int) -> None:
        text = UUID.sub(self._name_of, f"{type(response).__name__} v{version} {self._render(response)}")
        self.lines.append(f"{name}: {text}")

    def _render(self, value: object) -> str:
        """All fields of a message, with lists of structs sorted, because Kafka orders them by hash."""
        if isinstance(value, MessageStruct):
            shown = {field: self._render(getattr(value, field)) for field in type(value).FIELDS}
            shown.pop("throttle_time_ms", None)
            if "port" in shown and shown["port"] != "-1":
                shown["port"] = "PORT"
            if "error_code" in shown:
                shown["error_code"] = ErrorCode(value.error_code).name
            return f"({', '.join(f'{field}={text}' for field, text in shown.items())})"
        if isinstance(value, list):
            return f"[{', '.join(sorted(map(self._render, value)))}]"
        if isinstance(value, bytes):
            return f"id({self.topic_ids[value]})" if value in self.topic_ids else value.hex() or "-"
        if isinstance(value, str) and len(value) > 1000:
            return f"{value[0]!r}*{len(value)}"
        return repr(value)

    def _name_of(self, match: re.Match[str]) -> str:
        return self._names.setdefault(match.group(), f"uuid{len(self._names) + 1}")


# -- preparation -------------------------------------------------------------------------------------


def create_topics(talk: Conversation, *names: str) -> None:
    request = m.CreateTopicsRequest(
        topics=[
            m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in names
        ],
        timeout_ms=10_000,
    )
    talk.wire("setup").ask(request, 7)
    asked = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=n) for n in names])
    for _ in attempts():
        metadata = talk.wire("setup").ask(asked, 12)
        if all(len(t.partitions) == 2 and not t.error_code for t in metadata.topics):
            break
    for topic in metadata.topics:
        talk.topic_ids[topic.topic_id] = topic.name


def await_coordinator(talk: Conversation, *group_ids: str) -> None:
    """Wait until the coordinators of these groups exist and are loaded."""
    find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=list(group_ids))
    for _ in attempts():
        found = talk.wire("setup").ask(find, 4)
        if not any(c.error_code for c in found.coordinators):
            break
    fetch = m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=g, topics=None) for g in group_ids]
    )
    for _ in attempts():
        fetched = talk.wire("setup").ask(fetch, 8)
        if not any(group.error_code in RETRIED for group in fetched.groups):
            return


def attempts() -> Iterator[int]:
    for attempt in range(600):
        yield attempt
        time.sleep(0.1)
    raise AssertionError("the broker is not ready after a minute")


# -- the requests ------------------------------------------------------------------------------------


def join(group_id: str, member_id: str = "", *topics: str, **fields: object) -> m.JoinGroupRequest:
    names = fields.pop("protocols", ("range",))
    defaults = {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": [
            m.JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=subscription(*topics))
            for name in names
        ],
    }
    return m.JoinGroupRequest(group_id=group_id, member_id=member_id, **{**defaults, **fields})


def sync(group_id: str, member_id: str, generation_id: int, parts: dict[str, bytes], **fields: object):
    return m.SyncGroupRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id=generation_id,
        assignments=[
            m.SyncGroupRequest.SyncGroupRequestAssignment(member_id=other, assignment=part)
            for other, part in parts.items()
        ],
        **fields,
    )


def heartbeat(group_id: str, member_id: str, generation_id: int, instance: str | None = None):
    return m.HeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id=generation_id,
        group_instance_id=instance,
    )


def leave(group_id: str, *members: tuple[str, str | None]) -> m.LeaveGroupRequest:
    identities = [
        m.LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
        for member_id, instance in members
    ]
    return m.LeaveGroupRequest(group_id=group_id, members=identities)


def commit(
    group_id: str,
    where: dict[tuple[str, int], int],
    *,
    member_id: str = "",
    generation_id: int = -1,
    metadata: str | None = "",
    ids: dict[str, bytes] | None = None,
    **fields: object,
) -> m.OffsetCommitRequest:
    topics: dict[str, m.OffsetCommitRequest.OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in where.items():
        named = {"topic_id": ids[topic]} if ids is not None else {"name": topic}
        entry = topics.setdefault(
            topic, m.OffsetCommitRequest.OffsetCommitRequestTopic(**named, partitions=[])
        )
        entry.partitions.append(
            m.OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
        )
    return m.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=list(topics.values()),
        **fields,
    )


def fetch_one(group_id: str, topic: str, *partitions: int) -> m.OffsetFetchRequest:
    """Fetch the offsets of one group, here of one topic, in versions up to 7."""
    topics = [m.OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))]
    return m.OffsetFetchRequest(group_id=group_id, topics=topics)


def fetch_many(*groups: m.OffsetFetchRequest.OffsetFetchRequestGroup) -> m.OffsetFetchRequest:
    return m.OffsetFetchRequest(groups=list(groups))


def fetch_group(group_id: str, topics: dict[str | bytes, list[int]] | None):
    wanted = None
    if topics is not None:
        wanted = [
            m.OffsetFetchRequest.OffsetFetchRequestTopics(
                **({"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}),
                partition_indexes=indexes,
            )
            for topic, indexes in topics.items()
        ]
    return m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=wanted)


def delete_offsets(group_id: str, **topics: list[int]) -> m.OffsetDeleteRequest:
    return m.OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            m.OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    m.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for topic, indexes in topics.items()
        ],
    )


# -- the conversation --------------------------------------------------------------------------------


def converse(bootstrap: str) -> str:
    talk = Conversation(bootstrap)
    try:
        create_topics(talk, "t1", "t2")
        await_coordinator(talk, "g", "s", "simple", "none", "k", "old", "")
        for part in (
            talk_of_coordinators,
            talk_of_two_members,
            talk_of_errors,
            talk_of_static_members,
            talk_of_old_versions,
            talk_of_commits,
            talk_of_fetches,
            talk_of_administration,
        ):
            part(talk)
    finally:
        talk.close()
    return "\n".join(talk.lines).strip() + "\n"


def talk_of_coordinators(talk: Conversation) -> None:
    talk.title("Who coordinates a group; what is no key at all.")
    for version in range(7):
        if version < 4:
            talk.ask("x", m.FindCoordinatorRequest(key="g", key_type=0), version)
        else:
            talk.ask("x", m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "k"]), version)
    talk.ask("x", m.FindCoordinatorRequest(key_type=2, coordinator_keys=["g:x:0"]), 5)
    talk.ask("x", m.FindCoordinatorRequest(key_type=2, coordinator_keys=["no-share-key"]), 6)


def talk_of_two_members(talk: Conversation) -> None:
    talk.title("One member, then two; the second leaves and the first is alone again.")
    a = talk.ask("a", join("g", "", "t1"), 9).member_id
    first = talk.ask("a", join("g", a, "t1"), 9)
    talk.ask("a", commit("g", {("t1", 0): 1}, member_id=a, generation_id=1), 8)
    talk.ask("a", heartbeat("g", a, 1), 4)
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    talk.ask("a", sync("g", a, first.generation_id, {a: b"all"}, **protocol), 5)
    talk.ask("a", sync("g", a, first.generation_id, {a: b"ignored"}, **protocol), 5)
    b = talk.ask("b", join("g", "", "t2"), 9).member_id
    talk.park("b", join("g", b, "t2"), 9)
    talk.ask("a", heartbeat("g", a, 1), 4)
    talk.ask("a", commit("g", {("t1", 0): 2}, member_id=a, generation_id=1), 8)
    talk.ask("a", sync("g", a, 1, {}, **protocol), 5)
    talk.ask("a", join("g", a, "t1"), 9)
    talk.answer("b")
    talk.ask("x", m.DescribeGroupsRequest(groups=["g"]), 6)
    talk.park("b", sync("g", b, 2, {}, **protocol), 5)
    talk.ask("a", sync("g", a, 2, {a: b"left", b: b"right"}, **protocol), 5)
    talk.answer("b")
    talk.ask("x", m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 6)
    talk.ask("b", join("g", b, "t2"), 9)
    talk.ask("b", leave("g", (b, None), ("stranger", None)), 5)
    talk.ask("a", heartbeat("g", a, 2), 4)
    talk.ask("a", join("g", a, "t1"), 9)
    talk.ask("a", sync("g", a, 3, {a: b"all"}, **protocol), 5)


def talk_of_errors(talk: Conversation) -> None:
    talk.title("Everything that can be wrong.")
    described = talk.ask("x", m.DescribeGroupsRequest(groups=["g"]), 6)
    a = described.groups[0].members[0].member_id
    talk.ask("x", join("", "", "t1"), 9)
    talk.ask("x", join("g", "", "t1", session_timeout_ms=1), 9)
    talk.ask("x", join("g", "stranger", "t1"), 9)
    talk.ask("x", join("none", "stranger", "t1"), 9)
    talk.ask("x", join("g", "", "t1", protocols=("other",)), 9)
    talk.ask("x", join("g", "", "t1", protocols=()), 9)
    talk.ask("x", join("g", "", "t1", protocol_type="connect"), 5)
    talk.ask("x", heartbeat("", a, 3), 4)
    talk.ask("x", heartbeat("none", a, 3), 4)
    talk.ask("x", heartbeat("g", "stranger", 3), 4)
    talk.ask("x", heartbeat("g", a, 2), 4)
    talk.ask("x", heartbeat("g", a, 3, "instance"), 4)
    talk.ask("x", sync("", a, 3, {}), 4)
    talk.ask("x", sync("none", a, 3, {}), 4)
    talk.ask("x", sync("g", "stranger", 3, {}), 4)
    talk.ask("x", sync("g", a, 2, {}), 4)
    talk.ask("x", sync("g", a, 3, {}), 5)
    talk.ask("x", sync("g", a, 3, {}, protocol_type="consumer", protocol_name="other"), 5)
    talk.ask("x", leave("", (a, None)), 5)
    talk.ask("x", leave("none", (a, None)), 5)
    talk.ask("x", leave("g", ("", "instance")), 5)
    talk.ask("x", leave("g", (a, "instance")), 5)


def talk_of_static_members(talk: Conversation) -> None:
    talk.title("Static members come back, fence their old selves, and leave by their instance id.")
    first = talk.ask("a", join("s", "", "t1", group_instance_id="i1"), 9)
    talk.ask("a", sync("s", first.member_id, 1, {first.member_id: b"all"}), 4)
    second = talk.ask("a2", join("s", "", "t1", group_instance_id="i1"), 9)
    talk.ask("a2", sync("s", second.member_id, 1, {}), 4)
    talk.ask("a", heartbeat("s", first.member_id, 1, "i1"), 4)
    talk.ask("a", sync("s", first.member_id, 1, {}, group_instance_id="i1"), 4)
    talk.ask("a", join("s", first.member_id, "t1", group_instance_id="i1"), 9)
    fenced = commit("s", {("t1", 0): 1}, member_id=first.member_id, generation_id=1, group_instance_id="i1")
    talk.ask("a", fenced, 8)
    talk.ask("a", leave("s", (first.member_id, "i1")), 5)
    third = talk.ask("a3", join("s", "", "t1", group_instance_id="i1"), 8)
    talk.ask("x", m.DescribeGroupsRequest(groups=["s"]), 5)
    talk.ask("a3", heartbeat("s", third.member_id, 1, "i1"), 4)
    talk.ask("x", leave("s", ("", "i1"), ("", "i2")), 5)
    talk.ask("x", m.DescribeGroupsRequest(groups=["s"]), 4)


def talk_of_old_versions(talk: Conversation) -> None:
    talk.title("Every version of the old requests.")
    for version in range(9):
        name = f"old{version}"
        joined = talk.ask(name, join("old", "", "t1"), version)
        if version >= 4:
            joined = talk.ask(name, join("old", joined.member_id, "t1"), version)
        member_id, generation_id = joined.member_id, joined.generation_id
        talk.ask(name, sync("old", member_id, generation_id, {member_id: b"all"}), min(version, 4))
        talk.ask(name, heartbeat("old", member_id, generation_id), min(version, 4))
        if version < 3:
            talk.ask(name, m.LeaveGroupRequest(group_id="old", member_id=member_id), version)
            talk.ask(name, m.LeaveGroupRequest(group_id="old", member_id=member_id), version)
        else:
            talk.ask(name, leave("old", (member_id, None)), min(version, 5))
        talk.ask("x", m.DescribeGroupsRequest(groups=["old", "none"]), min(version, 6))


def talk_of_commits(talk: Conversation) -> None:
    talk.title("Commits by nobody in particular, in every version.")
    ids = {name: topic_id for topic_id, name in talk.topic_ids.items()}
    for version in range(2, 10):
        talk.ask("x", commit("simple", {("t1", 0): version, ("t2", 1): version}), version)
    talk.ask("x", commit("simple", {("t1", 0): 10}, ids=ids, metadata=None), 10)
    talk.ask("x", commit("simple", {("t1", 1): 1}, ids={"t1": bytes(range(16))}), 10)
    talk.ask("x", commit("simple", {("t1", 1): 1, ("t1", 7): 1, ("nowhere", 0): 1}), 9)
    talk.ask("x", commit("simple", {("t1", 1): 1}, metadata="m" * 4097), 9)
    talk.ask("x", commit("simple", {("t1", 1): 2}, metadata="m" * 4096), 9)
    talk.ask("x", commit("", {("t1", 0): 3}), 9)
    talk.ask("x", commit("simple", {("t1", 0): 3}, member_id="stranger", generation_id=1), 9)
    talk.ask("x", commit("none", {("t1", 0): 3}, member_id="stranger", generation_id=1), 8)
    talk.ask("x", commit("none", {("t1", 0): 3}, member_id="stranger", generation_id=1), 9)
    talk.ask("x", commit("g", {("t1", 0): 3}), 9)
    talk.ask("x", commit("g", {("t1", 0): 3}, member_id="stranger", generation_id=3), 9)


def talk_of_fetches(talk: Conversation) -> None:
    talk.title("Fetches, in every version; groups that do not exist have no offsets, and that is no error.")
    ids = {name: topic_id for topic_id, name in talk.topic_ids.items()}
    for version in range(1, 8):
        talk.ask("x", fetch_one("simple", "t1", 0, 1, 7), version)
        talk.ask("x", fetch_one("none", "t1", 0), version)
    talk.ask("x", m.OffsetFetchRequest(group_id="simple", topics=None), 2)
    talk.ask("x", m.OffsetFetchRequest(group_id="none", topics=None), 7)
    for version in (8, 9):
        groups = [fetch_group("simple", {"t2": [0, 1]}), fetch_group("none", {"t1": [0]})]
        talk.ask("x", fetch_many(*groups), version)
    talk.ask("x", fetch_many(fetch_group("simple", None), fetch_group("none", None)), 8)
    groups = [fetch_group("simple", {ids["t1"]: [0], bytes(range(16)): [0]}), fetch_group("none", None)]
    talk.ask("x", fetch_many(*groups), 10)
    talk.ask("x", fetch_many(fetch_group("", {"t1": [0]})), 8)


def talk_of_administration(talk: Conversation) -> None:
    talk.title("Lists and deletions.")
    talk.ask("x", delete_offsets("g", t1=[0, 1], t2=[0], nowhere=[0]), 0)
    talk.ask("x", delete_offsets("simple", t2=[0, 1, 9]), 0)
    talk.ask("x", delete_offsets("none", t2=[0]), 0)
    talk.ask("x", delete_offsets("", t2=[0]), 0)
    for states, types in ((["stable"], []), (["EMPTY"], ["Classic"]), ([], ["share"]), (["odd"], ["odd"])):
        request = m.ListGroupsRequest(states_filter=states, types_filter=types)
        talk.ask("x", request, 5)
    talk.ask("x", m.DeleteGroupsRequest(groups_names=["g", "none", "simple", "old"]), 2)
    talk.ask("x", m.DescribeGroupsRequest(groups=["simple"]), 5)
    talk.ask("x", m.DescribeGroupsRequest(groups=["simple"]), 6)
    talk.ask("x", fetch_many(fetch_group("simple", None)), 8)
