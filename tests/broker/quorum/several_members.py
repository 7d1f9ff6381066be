"""Members of a quorum in one process, each with its own directory; frames pass from one to the other.

They run in virtual time (`virtual_time.run_virtually`), so no member is too slow for its timeouts.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from penstock.broker.api_table import apis
from penstock.broker.network.context import RequestContext
from penstock.broker.peers import Buffer, Link, LinkEnd
from penstock.broker.quorum.listener import CommittedBatch, FrozenState
from penstock.broker.quorum.quorum import Quorum
from penstock.broker.setup.environment import Environment
from penstock.consensus.log import SnapshotId
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.snapshot import QuorumRecords, encode_snapshot, file_name
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import (
    ApiVersionsResponse,
    ConfigRecord,
    Message,
    RequestHeader,
    ResponseHeader,
    VotersRecord,
)
from penstock.protocol.uuids import uuid_from_text
from penstock.security.permissions import UNRESTRICTED
from penstock.storage.directories import meta_properties
from penstock.testing.simulator.loop import VirtualLoop
from virtual_time import VirtualMachine
from waiting import until

P = ParamSpec("P")
T = TypeVar("T")

CLUSTER_ID = "iWKQh-fZRQyPCSDH4Og5Gw"
LISTENER = "CONTROLLER"
QUICK = {
    "controller.quorum.election.timeout.ms": "150",
    "controller.quorum.fetch.timeout.ms": "300",
    "controller.quorum.request.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "100",
}


class Follower:
    """A listener that keeps the names of the records it receives."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.heard: list[str] = []
        self.end_offset = 0

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.end_offset, f"{batch.base_offset} after {self.end_offset}"
            self.end_offset = batch.last_offset + 1
            self.names += names(batch.records)
            what = ",".join(names(batch.records)) or "control"
            self.heard.append(f"{batch.base_offset} {batch.epoch} {what}")

    def handle_snapshot(self, snapshot_id: SnapshotId, records: Sequence[Message]) -> None:
        self.names, self.end_offset = names(records), snapshot_id.end_offset
        self.heard.append(f"snapshot {snapshot_id.end_offset} {snapshot_id.epoch}")

    def handle_leader_change(self, leader_id: int | None, epoch: int) -> None:
        self.heard.append(f"leader {leader_id} in {epoch}")

    def handle_failure(self, reason: str) -> None:
        self.heard.append(f"failed {reason}")

    def freeze(self) -> FrozenState | None:
        kept = [record(name) for name in self.names]
        return FrozenState(lambda: kept, 30)


def names(records: Sequence[Message]) -> list[str]:
    return [found.resource_name for found in records if isinstance(found, ConfigRecord)]


def record(name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name=name, name="retention.ms", value="1")


class MemberEnvironment(VirtualMachine):
    """A virtual machine on the network of the members."""

    def __init__(self, members: "Members", node_id: int, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.rng = random.Random(node_id)
        self.dial = lambda host, port, end: members.dial(node_id, port, end)


class Member:
    """A node that runs only its part of the quorum."""

    def __init__(self, members: "Members", node_id: int, directory: Path, config: BrokerConfig) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.node_id = node_id
        self.cluster_id = CLUSTER_ID
        self.config = config
        self.environment: Environment = MemberEnvironment(members, node_id, loop)
        self.dial_broker = self.dial_controller = self.environment.dial
        self._workers = self.environment.workers(1, "member")
        self.died: asyncio.Future[str] = self.loop.create_future()
        self.directory = directory
        self.follower = Follower()
        self.quorum = Quorum(self)

    def clock_ms(self) -> int:
        return 1_700_000_000_000

    def advertised(self, listener_name: str) -> tuple[str, int]:
        raise KeyError(listener_name)

    def run_in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self.loop.run_in_executor(self._workers, lambda: function(*args, **kwargs))

    async def answer(self, frame: memoryview) -> bytes:
        """Answer a frame, without its size, as a controller's listener does."""
        key, version = ApiKey(int.from_bytes(frame[:2])), int.from_bytes(frame[2:4])
        header, position = RequestHeader.decode(api_keys.request_header_version(key, version), frame)
        response: Message
        if key is ApiKey.API_VERSIONS:
            feature = ApiVersionsResponse.SupportedFeatureKey(
                name="kraft.version", min_version=0, max_version=1
            )
            response = ApiVersionsResponse(
                api_keys=[_served(each) for each in apis()], supported_features=[feature]
            )
        else:
            request, _ = api_keys.request_class(key).decode(version, frame, position)
            context = RequestContext(version, "test", "127.0.0.1", "User:ANONYMOUS", LISTENER, UNRESTRICTED)
            response = await self.quorum.handle(request, context)
        head = ResponseHeader(correlation_id=header.correlation_id)
        head_version = api_keys.response_header_version(key, version)
        return head.encode(head_version) + b"".join(bytes(part) for part in response.encode_parts(version))


def _served(key: ApiKey) -> ApiVersionsResponse.ApiVersion:
    lowest, highest = apis()[key].advertised
    return ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)


class MemoryLink:
    """A connection that carries frames to a member, which answers them in order."""

    def __init__(self, members: "Members", source: int, target: Member, end: LinkEnd) -> None:
        self._members = members
        self._route = (source, target.node_id)
        self._target = target
        self._end = end
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._serve())
        members.tasks.add(self._task)

    def send(self, frame: Sequence[Buffer]) -> None:
        self._frames.put_nowait(b"".join(bytes(part) for part in frame))

    async def _serve(self) -> None:
        while True:
            frame = await self._frames.get()
            if self._members.is_cut(self._route):
                continue
            if self._members.running.get(self._target.node_id) is not self._target:
                self._end.link_lost("the other side is gone")
                return
            answer = await self._target.answer(memoryview(frame)[4:])
            if not self._members.is_cut(self._route[::-1]):
                self._end.frame_received(memoryview(bytearray(answer)))

    def close(self) -> None:
        self._task.cancel()


class Members:
    """The members of a quorum. ``voters`` of them vote at first; the port of each is its id."""

    def __init__(self, root: Path, count: int, *, dynamic: bool = True, **properties: str) -> None:
        self.root = root
        self.ids = range(1, count + 1)
        self.dynamic = dynamic
        self.properties = {name.replace("_", "."): value for name, value in properties.items()}
        self.running: dict[int, Member] = {}
        self.cut: set[int] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    def is_cut(self, route: tuple[int, int]) -> bool:
        return bool(self.cut & set(route))

    async def dial(self, source: int, port: int, end: LinkEnd) -> Link:
        target = self.running.get(port)
        if target is None or self.is_cut((source, port)):
            raise ConnectionRefusedError(f"nobody listens on {port}")
        return MemoryLink(self, source, target, end)

    def config(self, node_id: int, **properties: str) -> BrokerConfig:
        addresses = ",".join(f"127.0.0.1:{i}" for i in self.ids)
        members = (
            {"controller.quorum.bootstrap.servers": addresses}
            if self.dynamic
            else {"controller.quorum.voters": ",".join(f"{i}@127.0.0.1:{i}" for i in self.ids)}
        )
        return BrokerConfig.from_properties(
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "log.dirs": str(self.root / str(node_id)),
                "controller.listener.names": LISTENER,
                "listeners": f"{LISTENER}://127.0.0.1:{node_id}",
                "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
                **members,
                **QUICK,
                **self.properties,
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )

    def format(self, voters: Sequence[int]) -> None:
        """Format the directories of a quorum as `kafka-storage format` does."""
        keys = []
        for node_id in self.ids:
            directory = self.root / str(node_id)
            directory.mkdir(parents=True, exist_ok=True)
            (properties,) = meta_properties.claim(Environment().files, [directory], node_id, CLUSTER_ID)
            keys.append((node_id, uuid_from_text(properties.directory_id)))
        if not self.dynamic:
            return
        record = VotersRecord(
            version=0,
            voters=[
                VotersRecord.Voter(
                    voter_id=node_id,
                    voter_directory_id=directory_id,
                    endpoints=[VotersRecord.Endpoint(name=LISTENER, host="127.0.0.1", port=node_id)],
                    kraft_version_feature=VotersRecord.KRaftVersionFeature(max_supported_version=1),
                )
                for node_id, directory_id in keys
                if node_id in voters
            ],
        )
        content = encode_snapshot(
            [],
            epoch=0,
            metadata_version=30,
            last_timestamp_ms=0,
            now_ms=0,
            quorum=QuorumRecords(kraft_version=1, voters=record),
        )
        data = b"".join(content)
        for node_id in voters:
            log_dir = self.root / str(node_id) / "__cluster_metadata-0"
            log_dir.mkdir()
            (log_dir / file_name(0, 0)).write_bytes(data)

    async def start(self, node_id: int, **properties: str) -> Member:
        config = self.config(node_id, **properties)
        member = Member(self, node_id, self.root / str(node_id), config)
        await member.quorum.open()
        member.quorum.listen(member.follower)
        self.running[node_id] = member
        await member.quorum.start()
        return member

    async def stop(self, node_id: int) -> None:
        await self.running[node_id].quorum.close()
        del self.running[node_id]

    async def close(self) -> None:
        while self.running:
            await self.stop(max(self.running))
        for task in self.tasks:
            task.cancel()

    # The state of the quorum

    @property
    def leader(self) -> Member | None:
        leaders = [member for member in self.running.values() if member.quorum.is_leader]
        return max(leaders, key=lambda member: member.quorum.epoch, default=None)

    async def elected(self, *, other_than: int | None = None) -> Member:
        """Wait for an elected leader that accepts decisions, and return it."""

        def found() -> bool:
            leader = self.leader
            return (
                leader is not None
                and leader.node_id != other_than
                and f"leader {leader.node_id} in {leader.quorum.epoch}" in leader.follower.heard
            )

        await until(found)
        assert self.leader is not None
        return self.leader

    async def commit(self, *batches: str) -> None:
        """Append batches of records (`a,b`: a batch of two) and wait until all running members have them."""
        leader = await self.elected()
        for batch in batches:
            leader.quorum.append([record(name) for name in batch.split(",")], 30)
        end_offset = leader.quorum.log_end_offset
        await until(lambda: all(member.follower.end_offset >= end_offset for member in self.running.values()))
