"""This node's member of the metadata quorum, a voter or an observer: the only access to the metadata log.

`consensus` decides, `driver` carries the decisions out, `delivery` notifies the listener. A `Quorum` is to
the rest of the node what Kafka's RaftClient is to a Kafka node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.broker.quorum import describing, members
from penstock.broker.quorum.delivery import Delivery
from penstock.broker.quorum.driver import Driver, QuorumStopped
from penstock.broker.quorum.foreign import ForeignNodes
from penstock.broker.quorum.listener import CommittedBatch, QuorumListener
from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.broker.quorum.metadata_partition import NotTheMetadataLog
from penstock.broker.quorum.requests import request_of
from penstock.broker.quorum.responses import refusal, response_to
from penstock.broker.quorum.retention import MetadataRetention
from penstock.broker.quorum.senders import Senders
from penstock.broker.quorum.snapshotting import Snapshotting
from penstock.consensus import membership
from penstock.consensus.leader import Leader
from penstock.consensus.raft import Raft
from penstock.consensus.roles import Follower
from penstock.consensus.settings import KRAFT_VERSIONS
from penstock.consensus.voters import Address
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.storage.errors import LogError, StorageFailed

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_MS: Final = 5000
"""The time that a stopping leader waits for the election of another, as Kafka's raft client does."""
_SHUTDOWN_STEP_S: Final = 0.01


class Quorum:
    """One member of the metadata quorum.

    `open` recovers the log, `listen` registers its listener, `start` joins the quorum; `close` shuts down
    cleanly.
    """

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        config = host.config
        self._log = MetadataLog(
            config.metadata_log_dir,
            config,
            host.clock_ms,
            host.environment.files,
            members.static_voters(config),
        )
        request_timeout_ms = config.get_int("controller.quorum.request.timeout.ms")
        self._foreign = ForeignNodes(host, request_timeout_ms)
        self._senders = Senders(host, members.listener_name(config), request_timeout_ms, self._foreign)
        self._driver: Driver | None = None
        self._listener: QuorumListener | None = None
        self._delivery: Delivery | None = None
        self._snapshotting: Snapshotting | None = None
        self._retention = MetadataRetention(host, self._log)
        self.failure: str | None = None
        """The reason why this node does not follow the metadata log any more."""
        self._is_started = False
        self._is_hurried = False
        self._notified_leader: tuple[int | None, int] = (None, -1)

    # Lifecycle

    async def open(self) -> None:
        """Recover the metadata log. Raises LogDirectoryError, OSError."""
        in_worker = self._host.run_in_worker
        await in_worker(self._log.open)
        election = self._log.read_election()
        members.check_alone(self._log, self._host.config, election)
        settings = members.raft_settings(self._host)
        if not self._log.history.voters.is_only_voter(settings.local):
            # A voter's Fetch states that its log is durable, but after a crash the log may be in memory only.
            await in_worker(self._log.flush)
        raft = Raft(settings, self._log, self._host.environment.rng, election)
        self._driver = Driver(self._host, raft, self._log, self._senders, self._settled, self._fail)

    def listen(self, listener: QuorumListener) -> None:
        """Register the listener, which gets all committed records. Call it once, before `start`."""
        assert self._listener is None, "the metadata log has one listener"
        self._listener = listener
        self._delivery = Delivery(self._host, self._log, listener, self._delivered, self._cannot_read)
        self._log.on_append = self._delivery.appended
        self._snapshotting = Snapshotting(self._host, self._log, listener, self._delivery, self._retention)

    async def start(self) -> None:
        """Join the quorum. A sole voter is elected, and its listener up to date, when this returns.

        Raises LogDirectoryError for a log that cannot be read, LogError, OSError.
        """
        driver, delivery = self._driver, self._delivery
        assert driver is not None, "call open first"
        assert delivery is not None, "call listen first"
        assert self._snapshotting is not None
        driver.feed(driver.raft.start)
        self._is_started = True
        self._snapshotting.start()
        self._retention.start()
        if driver.raft.voters.is_only_voter(driver.raft.settings.local):
            while not (self.failure or self._is_active()):
                await driver.finish()
                await delivery.finish()
                await asyncio.sleep(0)

    def _is_active(self) -> bool:
        return self._notified_leader == (self._host.node_id, self.epoch)

    async def bootstrap_records(self) -> list[m.Message]:
        """Return the records that the first leader of a new cluster appends.

        Raises LogDirectoryError, OSError.
        """
        return await self._host.run_in_worker(self._log.bootstrap)

    async def close(self) -> None:
        """Commit pending records, hand over the leadership, and close the log. Safe at any stage."""
        if self._snapshotting is not None:
            await self._snapshotting.stop()
        await self._retention.stop()
        if self._driver is not None:
            await self._driver.finish()
            await self._hand_over(self._driver)
            self._driver.stop("the node is stopping")
            await self._driver.finish()
        if self._delivery is not None:
            await self._delivery.stop()
        self._foreign.close()
        self._senders.close()
        try:
            await self._host.run_in_worker(self._log.close)
        except LogError as error:
            log.error("metadata log not closed cleanly error=%s", error)

    def hurry(self) -> None:
        """Do not wait for another member to lead, now or later in `close`."""
        self._is_hurried = True

    async def _hand_over(self, driver: Driver) -> None:
        """As the leader of others, wait until another member leads, at most until the timeout or `hurry`."""
        if not driver.raft.is_leader or driver.raft.is_shut_down or driver.is_stopped:
            return
        deadline_s = self._host.loop.time() + SHUTDOWN_TIMEOUT_MS / 1000
        driver.feed(lambda now_ms: driver.raft.shut_down(now_ms + SHUTDOWN_TIMEOUT_MS))
        while not (driver.raft.is_shut_down or driver.is_stopped or self._is_hurried):
            if self._host.loop.time() >= deadline_s:
                log.warning(
                    "no other leader of the metadata quorum elected timeout_ms=%d", SHUTDOWN_TIMEOUT_MS
                )
                return
            await asyncio.sleep(_SHUTDOWN_STEP_S)

    # State

    @property
    def _raft(self) -> Raft:
        assert self._driver is not None, "the quorum is not open"
        return self._driver.raft

    @property
    def leader_id(self) -> int | None:
        """The leader that this node knows; None on a node that has resigned."""
        if self._driver is None:
            return None
        leader_id = self._raft.leader_id
        return None if leader_id == self._host.node_id and not self._raft.is_leader else leader_id

    @property
    def leader_address(self) -> Address | None:
        """The leader's address on the controller listener; None while it is unknown."""
        if self.leader_id is None:
            return None
        return self._raft.role.leader_endpoints.get(self._raft.settings.listener_name)

    @property
    def problem(self) -> str | None:
        """The reason why no leader is found, if known: the named members belong to another cluster."""
        return self._foreign.problem

    @property
    def epoch(self) -> int:
        return 0 if self._driver is None else self._raft.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node may append. It is asked for decisions only after `handle_leader_change`."""
        return self._driver is not None and self._driver.can_append

    @property
    def voter_ids(self) -> frozenset[int]:
        """The voters at the log's end, committed or not."""
        return frozenset(self._log.history.voters.ids)

    @property
    def kraft_version(self) -> int:
        """The finalized version of the quorum's own protocol; 1 is KIP-853."""
        return self._log.history.kraft_version

    @property
    def high_watermark(self) -> int:
        """The offset below which all records are committed; 0 while this node does not know it."""
        return 0 if self._driver is None else self._raft.high_watermark or 0

    @property
    def leader_high_watermark(self) -> int | None:
        """The high watermark that the leader of this epoch reported; None before its first report."""
        if self._driver is None:
            return None
        match self._raft.role:
            case Leader(high_watermark=known) | Follower(leader_high_watermark=known):
                return known
        return None

    @property
    def log_end_offset(self) -> int:
        """The next record's offset, which is the broker epoch of a registration that is appended now.

        It is 0 before `open`.
        """
        return 0 if self._driver is None else self._log.end_offset

    # Appending

    def append(self, records: Sequence[m.Message], metadata_version: int) -> int:
        """Append records as one batch and return the log's end offset after it.

        The batch is committed completely or not at all. Each record is written in the version that
        ``metadata_version`` calls for. The records are committed when `QuorumListener.handle_commit` brings
        them.

        Raises KafkaError: NOT_CONTROLLER unless this node leads, UNKNOWN_SERVER_ERROR if the log cannot be
        written. A leader whose disk is full resigns in favor of a member that may have room; a sole voter
        raises KAFKA_STORAGE_ERROR until there is room.
        """
        if self.failure is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self.failure)
        if self._driver is None or not self._driver.can_append:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        try:
            self._log.append_records(self.epoch, records, metadata_version)
        except StorageFailed as error:
            if self._raft.voters.is_only_voter(self._raft.settings.local):
                raise
            self.resign(self.epoch, str(error))
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"this node has resigned: {error}") from error
        end_offset = self._log.end_offset
        self._driver.appended()
        return end_offset

    def resign(self, epoch: int, reason: str) -> None:
        """Resign if this node leads ``epoch``, because its controller cannot continue."""
        driver = self._driver
        if driver is not None and driver.raft.is_leader and driver.raft.epoch == epoch:
            log.warning("metadata quorum leader resigns epoch=%d reason=%s", epoch, reason)
            driver.feed(lambda now_ms: driver.raft.resign(epoch))

    def upgrade_kraft_version(self, kraft_version: int, *, validate_only: bool) -> None:
        """Finalize a ``kraft.version``. Raises KafkaError: NOT_CONTROLLER, INVALID_UPDATE_VERSION."""
        driver = self._driver
        if driver is None or not driver.can_append:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        if not KRAFT_VERSIONS[0] <= kraft_version <= KRAFT_VERSIONS[1]:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"kraft.version {kraft_version}: this node supports "
                f"{KRAFT_VERSIONS[0]} to {KRAFT_VERSIONS[1]}",
            )
        refused: list[str | None] = []
        driver.feed(
            lambda now_ms: refused.append(
                membership.upgrade(driver.raft, kraft_version, now_ms, validate_only=validate_only)
            )
        )
        if refused and refused[0] is not None:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, refused[0])

    # Requests

    async def handle(self, request: m.Message, context: RequestContext) -> m.Message:
        """Answer a request of another member or of an operator.

        These are Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata log, FetchSnapshot,
        DescribeQuorum, AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.
        """
        driver = self._driver
        if driver is None or driver.is_stopped or not self._is_started:
            return self._refuse(request)
        if isinstance(request, m.DescribeQuorumRequest):
            now_ms = int(self._host.loop.time() * 1000)
            return describing.describe(driver.raft, request, now_ms, self._host.clock_ms())
        try:
            asked = request_of(request, context.api_version)
        except NotTheMetadataLog:
            is_foreign = driver.raft.is_foreign(getattr(request, "cluster_id", None))
            return refusal(
                request, ErrorCode.INCONSISTENT_CLUSTER_ID if is_foreign else ErrorCode.INVALID_REQUEST
            )
        cluster_id = getattr(asked, "cluster_id", None)
        if cluster_id is not None and driver.raft.is_foreign(cluster_id):
            self._foreign.asked_by(cluster_id, context)
        try:
            answer = await driver.ask(asked)
        except QuorumStopped:
            return self._refuse(request)
        return response_to(request, answer, context.listener_name)

    def _refuse(self, request: m.Message) -> m.Message:
        """Refuse a request because this node does not take part in the quorum yet or any more."""
        if isinstance(request, m.DescribeQuorumRequest):
            return m.DescribeQuorumResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        return refusal(request, ErrorCode.BROKER_NOT_AVAILABLE)

    # Notifications of the driver

    def _settled(self) -> None:
        """Check for new commits and a new leader."""
        delivery = self._delivery
        assert delivery is not None, "call listen first"
        if not self._raft.is_leader:
            delivery.lost_leadership()
        if self._raft.high_watermark is not None:
            delivery.advance(self._raft.high_watermark)
        self._notify_of_leader()

    def _delivered(self, batches: Sequence[CommittedBatch]) -> None:
        assert self._snapshotting is not None
        self._notify_of_leader()
        if batches:
            self._snapshotting.committed(sum(batch.size_bytes for batch in batches))

    def _notify_of_leader(self) -> None:
        """Notify the listener of a new leader.

        If it is this node, the listener must have all records of earlier epochs first.
        """
        assert self._listener is not None
        assert self._delivery is not None
        role = self._raft.role
        if isinstance(role, Leader):
            delivered = self._delivery.offset
            if role.high_watermark is None or delivered is None or delivered <= role.epoch_start_offset:
                return
        leader = (self.leader_id, role.epoch)
        if leader != self._notified_leader:
            self._notified_leader = leader
            self._listener.handle_leader_change(*leader)

    def _fail(self, error: Exception) -> None:
        """Stop appending because the log is unreliable; continue to deliver committed records.

        A sole voter's node continues with the state that it has. Another node stops, because the cluster
        would change without it.
        """
        self.failure = f"the metadata log cannot be written: {error}"
        log.critical("metadata quorum stopped error=%s", error)
        if self._listener is not None:
            self._listener.handle_failure(self.failure)
        is_alone = self._raft.voters.is_only_voter(self._raft.settings.local)
        if not is_alone and not self._host.died.done():
            self._host.died.set_result(self.failure)

    def _cannot_read(self, error: BaseException) -> None:
        """Stop the node because it cannot read committed records, so its state would be outdated."""
        self.failure = f"the metadata log cannot be read: {error}"
        log.critical("metadata quorum stopped error=%s", error, exc_info=error)
        if not self._host.died.done():
            self._host.died.set_result(self.failure)
