"""The node: its parts, the order in which they start and stop, and the parts that handlers use."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.broker.api_table import ListenerType, NodeControllerApis, bound
from penstock.broker.control.authorization import Authorization
from penstock.broker.control.channels import ControllerChannels
from penstock.broker.control.controller import Controller
from penstock.broker.control.controller_registration import ControllerRegistration
from penstock.broker.control.delegation_tokens import token_secret
from penstock.broker.control.forwarding import Forwarding
from penstock.broker.control.lifecycle import BrokerLifecycle, RegistrationFailed
from penstock.broker.control.metadata_follower import MetadataFollower
from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
from penstock.broker.coordination.transactions.producer_ids import ProducerIds, allocate_block
from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
from penstock.broker.following.replication import Replication
from penstock.broker.network.dispatch import Dispatcher
from penstock.broker.network.loop_lag import LoopLag
from penstock.broker.network.server import HandleRequest, Server
from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.broker.partitions.group_commit import FLUSHERS, GroupCommit
from penstock.broker.partitions.purgatory import Purgatory
from penstock.broker.partitions.replica_manager import ReplicaManager
from penstock.broker.partitions.schema_validation import SchemaIds, Unknown
from penstock.broker.partitions.topic_settings import TopicSettings, topic_settings
from penstock.broker.peers import ControllerAddress, Dial, Peer
from penstock.broker.peers.tcp import TcpDial
from penstock.broker.quorum.quorum import Quorum
from penstock.broker.quotas.address_rates import AddressRates
from penstock.broker.quotas.client_quotas import UNLIMITED, ClientQuotas
from penstock.broker.quotas.connections import ConnectionLimits, ConnectionQuotas
from penstock.broker.quotas.mutations import MutationQuotas
from penstock.broker.reading.cold_reads import READERS, ColdReads
from penstock.broker.reading.fetch_session import FetchSessionCache
from penstock.broker.sasl.authentication import Authentication, handle_authenticated
from penstock.broker.sasl.listeners import NodeSasl
from penstock.broker.sasl.token_logins import TokenLogins
from penstock.broker.setup.environment import Environment
from penstock.broker.setup.node_limits import (
    cleaner_config,
    peer_settings,
    quota_window,
    server_limits,
    storage_config,
)
from penstock.broker.tls.listeners import NodeTls
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.metadata.configs.support import settings_without_effect
from penstock.metadata.image import MetadataDelta, ResourceType
from penstock.security.access.errors import InvalidAccess
from penstock.security.access.exposure import warn_of_open_listeners
from penstock.security.oauth.errors import KeysUnavailable
from penstock.security.tls.errors import InvalidTls
from penstock.storage.directories.log_manager import LogManager
from penstock.storage.errors import LogDirectoryError
from penstock.storage.names import TopicPartition

if TYPE_CHECKING:
    from penstock.broker.control.controller_apis import ControllerApis
    from penstock.broker.network.connection import Connection
    from penstock.monitoring.server import MonitoringServer
    from penstock.storage.partition.log import Log

log = logging.getLogger(__name__)

WORKERS = 4
DECODING_WORKERS = 2
TICK_S = 1.0
MENDING_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EFBIG})
"""Errors for a reached limit on a sound disk. Appends fail until there is room; no directory is lost."""
REOPEN_INTERVAL_S = 5.0
"""The pause between attempts to open logs that could not be opened, for example because a disk was full."""

P = ParamSpec("P")
T = TypeVar("T")


class CannotStart(Exception):
    """The node can't run here; the message gives the reason and the remedy."""


class Broker:
    """One Penstock node, on the running event loop.

    The constructor locks the log directories. Both the constructor and `start` raise CannotStart.
    """

    def __init__(self, config: BrokerConfig, environment: Environment | None = None) -> None:
        self.config = config
        self.environment = machine = environment or Environment()
        self.node_id = config.node_id
        self.loop = asyncio.get_running_loop()
        self.loop_lag = LoopLag(self.loop)
        self.purgatory = Purgatory(self.loop)
        self.cold_reads = ColdReads(self.loop, machine.workers(READERS, "cold-reader"))
        self.group_commit = GroupCommit(
            self.loop,
            acks_fsync=config.get_bool("penstock.acks.fsync"),
            flushers=machine.workers(FLUSHERS, "group-commit"),
        )
        self.fetch_max_bytes = config.get_int("fetch.max.bytes")
        self.fetch_sessions = FetchSessionCache(
            config.get_int("max.incremental.fetch.session.cache.slots"), self.clock_ms, machine.rng
        )
        self.incarnation_id = machine.uuid().bytes
        """The id of this run of the node, with which it registers as a broker and as a controller."""
        self.tls: NodeTls = self._read_certificates()
        self.token_secret = token_secret(config)
        """The secret of the cluster's delegation tokens; None if this node has none."""
        self.sasl: NodeSasl = self._read_logins()
        self.dial_broker: Dial = self._dial(
            config.inter_broker_listener_name, "sasl.mechanism.inter.broker.protocol"
        )
        self.dial_controller: Dial = self._dial(
            config.controller_listener_names[0], "sasl.mechanism.controller.protocol"
        )
        self._tls_worker = machine.workers(1, "tls")
        self.metadata = MetadataFollower(self.loop)
        self.image = self.metadata.image
        """The cluster's current metadata."""
        self.quotas = ClientQuotas(lambda: self.image.client_quotas, quota_window(config), self._now_ms)
        """The quotas of this broker's clients."""
        self.metadata.watch(self.quotas)
        self.connection_quotas = self._new_connection_quotas()
        """The limits on connections: those of the broker's listeners, and those of the controller's."""
        self.server = self._new_server()
        self.schemas: SchemaIds = Unknown()
        """The schema registry, for topics with schema validation. The owner of a registry client sets it."""
        self._workers = machine.workers(WORKERS, "worker")
        self._tick_timer: asyncio.TimerHandle | None = None
        self.monitoring: MonitoringServer | None = None
        """The server of metrics and probes, if it is configured."""
        self.is_stopping = False
        """Whether `stop` was called: the node then closes its listeners one after the other."""
        self._has_given_up = False
        """Whether its start failed, so that there is nothing to stop."""
        self._following = asyncio.Lock()
        self._decoding = asyncio.Semaphore(DECODING_WORKERS)
        self._reopen_at_s = 0.0
        self._reopening: asyncio.Task[None] | None = None
        self._addresses: dict[str, tuple[str, int]] = {}
        self.died: asyncio.Future[str] = self.loop.create_future()
        """The reason why the node must end, once it has lost its metadata or all its disks."""
        self.logs = self._claim_directories()
        self.logs.cordoned = frozenset(config.cordoned_log_dirs)
        self.cluster_id = self.logs.cluster_id
        self.quorum = Quorum(self)
        self.authorization = Authorization(config, self.quorum, self.metadata)
        self.controller = Controller(self, self.quorum, self.metadata)
        self.mutation_quotas = self._new_mutation_quotas()
        self.controller_apis: ControllerApis = NodeControllerApis(self)
        self.channels = ControllerChannels(
            self, self.controller_apis, self._active_controller, self.authorization.own
        )
        self.metadata.watch(self.channels)
        self.forwarding = Forwarding(self, self.controller_apis, self.channels.open("forwarding"))
        self.lifecycle = BrokerLifecycle(self, self.channels.open("heartbeat"))
        self._controller_registration = ControllerRegistration(self, self.channels.open("registration"))
        self._alter_partition_channel = self.channels.open("alter-partition")
        self.replication = self._new_replication()
        self.replicas = self._new_replicas()
        self._directory_assignments = self._new_directory_assignments()
        self.producer_ids = ProducerIds(
            partial(
                allocate_block,
                self.node_id,
                lambda: self.lifecycle.epoch,
                self.channels.open("producer-ids"),
            )
        )
        self.groups = GroupCoordinatorRuntime(self)
        self.transactions = TransactionCoordinatorRuntime(self)
        self.dispatcher = self._new_dispatcher(ListenerType.BROKER)
        self.controller_dispatcher = self._new_dispatcher(ListenerType.CONTROLLER)

    # Parts with many parameters

    def _new_server(self) -> Server:
        machine = self.environment
        return Server(
            self.loop,
            self._handler_of,
            server_limits(self.config),
            self.purgatory.complete_ready,
            self.cold_reads.reload,
            self.tls.of,
            self._tls_worker,
            self._opened,
            self.quotas,
            self.connection_quotas,
            bind=machine.bind,
            sendfile=machine.sendfile,
        )

    def _new_connection_quotas(self) -> tuple[ConnectionQuotas, ...]:
        config, window = self.config, quota_window(self.config)

        def limits() -> ConnectionLimits:
            return self.server.limits.connections

        of_broker = ConnectionQuotas(
            (listener.name for listener in config.broker_listeners),
            config.inter_broker_listener_name,
            window,
            limits,
        )
        of_controller = ConnectionQuotas(
            (listener.name for listener in config.controller_listeners), None, window, limits
        )
        quotas = (of_broker, of_controller)
        self.metadata.watch(AddressRates(lambda: self.image.client_quotas, quotas, self.run_in_worker))
        return quotas

    def _read_certificates(self) -> NodeTls:
        try:
            return NodeTls(self.config)
        except InvalidTls as error:
            raise CannotStart(str(error)) from None

    def _read_logins(self) -> NodeSasl:
        try:
            tokens = TokenLogins(self.token_secret, lambda: self.image.delegation_tokens)
            rng = self.environment.rng
            return NodeSasl(self.config, lambda: self.image.scram, tokens, self.clock_ms, rng)
        except InvalidConfig as error:
            raise CannotStart(str(error)) from None

    def _dial(self, listener_name: str, mechanism_config: str) -> Dial:
        """The way to a listener of other nodes. Raises CannotStart."""
        tls = self.tls.of(listener_name)
        dial = self.environment.dial if tls is None else TcpDial(tls=lambda: tls.client_context)
        try:
            return self.sasl.secured(listener_name, mechanism_config, dial)
        except InvalidConfig as error:
            raise CannotStart(str(error)) from None

    def _new_dispatcher(self, listener: ListenerType) -> Dispatcher:
        """Create the dispatcher of a kind of listener, once all parts that handlers take exist."""
        acknowledging = self.group_commit.acknowledging
        served = bound(self, listener, serves_unstable=self.config.get_bool("unstable.api.versions.enable"))
        apis = {key: api._replace(handle=acknowledging(key, api.handle)) for key, api in served.items()}
        # Nodes depend on the answers of controllers, so no quota limits the requests to them.
        quotas = self.quotas if listener is ListenerType.BROKER else UNLIMITED
        return Dispatcher(apis, self.loop_lag, self.server.stats, self.authorization.permissions, quotas)

    def _claim_directories(self) -> LogManager:
        """Lock the log directories and check that they belong to this node. Raises CannotStart."""
        config, machine = self.config, self.environment
        try:
            return LogManager(
                config.log_dirs,
                node_id=self.node_id,
                formats=config.is_quorum_of_one,
                clock=self.clock_ms,
                files=machine.files,
                rng=machine.rng,
                workers=machine.log_workers,
                config=storage_config(config),
                cleaner=cleaner_config(config),
                high_watermarks=self._high_watermarks,
                run_soon=self.loop.call_soon_threadsafe,
                metadata_directory=config.metadata_log_dir,
                io_error=self._log_failed,
                directory_failed=self._storage_failed,
            )
        except (LogDirectoryError, OSError) as error:
            raise CannotStart(str(error)) from error

    def _new_replication(self) -> Replication:
        return Replication(
            self.config,
            self.loop,
            lambda: self.image,
            lambda: self.lifecycle.epoch,
            lambda: self._alter_partition_channel,
            self._fetching_peer,
            self.group_commit.settled if self.group_commit.acks_fsync else None,
            lambda: self.run_in_worker(self.logs.checkpoint_log_start_offsets),
        )

    def _new_replicas(self) -> ReplicaManager:
        return ReplicaManager(
            self.node_id,
            self.image,
            self.logs,
            self.topic_settings,
            self.clock_ms,
            self.run_in_worker,
            self.group_commit.unsynced if self.group_commit.acks_fsync else None,
            self.replication,
        )

    def _new_directory_assignments(self) -> DirectoryAssignments:
        return DirectoryAssignments(
            self.node_id,
            self.image,
            self.logs,
            lambda: self.lifecycle.epoch,
            self.channels.open("directory-assignments"),
            self.loop,
        )

    def _new_mutation_quotas(self) -> MutationQuotas:
        samples = self.config.get_int("controller.quota.window.num")
        burst_s = samples * self.config.get_int("controller.quota.window.size.seconds")
        return MutationQuotas(lambda: self.image.client_quotas, burst_s, lambda: self.controller.now_ms)

    def _active_controller(self) -> ControllerAddress | None:
        """The active controller that the quorum knows. If it is this node, no address is needed."""
        leader_id, address = self.quorum.leader_id, self.quorum.leader_address
        if leader_id is None or (address is None and leader_id != self.node_id):
            return None
        return ControllerAddress(leader_id, *(address or ("", 0)))

    def _handler_of(self, listener_name: str) -> HandleRequest:
        if self.sasl.of(listener_name) is not None:
            return handle_authenticated
        return self._dispatcher_of(listener_name).handle_request

    def _dispatcher_of(self, listener_name: str) -> Dispatcher:
        is_controllers = listener_name in self.config.controller_listener_names
        return self.controller_dispatcher if is_controllers else self.dispatcher

    def _opened(self, connection: Connection) -> None:
        sasl = self.sasl.of(connection.listener_name)
        if sasl is not None:
            dispatch = self._dispatcher_of(connection.listener_name).handle_request
            connection.authentication = Authentication(connection, sasl, dispatch, self.loop)

    def _fetching_peer(self, host: str, port: int, node_id: int, client_id: str) -> Peer:
        machine = self.environment
        return Peer(
            self.dial_broker,
            host,
            port,
            node_id=node_id,
            client_id=client_id,
            rng=machine.rng,
            settings=peer_settings(self.config),
        )

    def _now_ms(self) -> int:
        """A monotonic time, for quotas."""
        return int(self.loop.time() * 1000)

    def clock_ms(self) -> int:
        """The wall-clock time, as used for records and leases."""
        return self.environment.clock_ms()

    def run_in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """Call a blocking function in a worker thread."""
        return self.loop.run_in_executor(self._workers, partial(function, *args, **kwargs))

    async def decode_in_worker(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that decodes records in a worker, with a limit on concurrent calls.

        A batch may take seconds and 100 MB. The limit leaves workers and memory for other requests.
        """
        async with self._decoding:
            return await self.run_in_worker(function, *args, **kwargs)

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """The host and port that this node advertises for a listener. Raises KeyError for an unknown name."""
        return self._addresses[listener_name]

    def topic_settings(self, topic: str) -> TopicSettings:
        """The topic's current settings."""
        return topic_settings(self.config, self.image.configs.of(ResourceType.TOPIC, topic))

    # Start and stop

    async def start(self) -> tuple[str, int]:
        """Recover, register and accept connections; return the address of the first listener.

        A start that fails gives up everything that the node holds: ports, and the locks of its directories.
        """
        try:
            return await self._start()
        except (CannotStart, LogDirectoryError, OSError) as error:
            await self._give_up()
            if isinstance(error, CannotStart):
                raise
            if isinstance(error, LogDirectoryError):
                raise CannotStart(str(error)) from error
            if error.filename is not None or error.errno is None:
                raise CannotStart(str(error)) from error
            directories = ", ".join(map(str, self.config.log_dirs))
            raise CannotStart(f"cannot read or write in {directories}: {error.strerror}") from error

    async def _start(self) -> tuple[str, int]:
        await self._fetch_token_keys()
        for name, reason in settings_without_effect(self.config):
            log.warning("a configuration changes nothing name=%s reason=%s", name, reason)
        self._warn_of_open_listeners()
        bound = self.server.bind(self.config.listeners)
        self._addresses = self._advertise(bound)
        self._serve_metrics()
        await self.quorum.open()
        if self.config.is_controller:
            await self.controller.open()
        self.quorum.listen(self.metadata)
        self.server.accept(listener.name for listener in self.config.controller_listeners)
        if self.config.controller_listeners:
            self.metadata.watch(self._controller_registration)
        await self.quorum.start()
        if self.config.is_broker:
            await self._start_broker()
        else:
            self.metadata.on_image_change(self._configs_changed)
            self.metadata.publish_all()
        self._tick()
        self.loop_lag.start()  # only now: no client waited for the start
        self.server.accept(bound)
        return bound[(self.config.broker_listeners or self.config.listeners)[0].name]

    async def _give_up(self) -> None:
        """Close what a start that failed has opened, and write no marker of a clean shutdown."""
        self.is_stopping = self._has_given_up = True
        self.hurry()
        self.server.close()
        await self.lifecycle.close()
        await self._controller_registration.close()
        self.channels.close()
        await self.controller.close()
        await self.quorum.close()
        await self.run_in_worker(self.logs.close, abandons=True)
        self.cold_reads.close()
        if self.monitoring is not None:
            await self.run_in_worker(self.monitoring.close)
        self._workers.shutdown()
        self._tls_worker.shutdown()
        self.sasl.close()

    async def _fetch_token_keys(self) -> None:
        """Get the keys of listeners with OAUTHBEARER. Raises CannotStart."""
        if self.sasl.verifies_tokens:
            try:
                await asyncio.to_thread(self.sasl.start)
            except KeysUnavailable as error:
                raise CannotStart(f"cannot verify tokens: {error}") from None

    def _warn_of_open_listeners(self) -> None:
        """Warn of the listeners that other machines reach without authentication."""
        names = [
            str(listener)
            for listener in self.config.listeners
            if not listener.is_on_loopback and not self._authenticates(listener.name)
        ]
        warn_of_open_listeners(names)

    def _authenticates(self, listener_name: str) -> bool:
        tls = self.tls.of(listener_name)
        return self.sasl.of(listener_name) is not None or (tls is not None and tls.authenticates)

    async def _start_broker(self) -> None:
        """Open the logs once the image has their last known state, register, and ask to be unfenced.

        Apache Kafka registers before it recovers. Here the registration depends on what recovery finds.
        """
        try:
            await self.lifecycle.informed()
            await self.run_in_worker(self._load_logs)
            self.lifecycle.start()
            await self.lifecycle.caught_up()
        except RegistrationFailed as error:
            raise CannotStart(str(error)) from None
        self.replicas.set_aside_strays()
        self.metadata.on_image_change(self._image_changed)
        self.metadata.publish_all()
        await self.metadata.followed()
        await self.lifecycle.unfence()
        await self.metadata.followed()
        await self.groups.wait_until_loaded()
        await self.transactions.wait_until_loaded()

    def _load_logs(self) -> None:
        """Open and recover the logs. Blocks. Raises LogDirectoryError."""
        before = self.image.brokers.get(self.node_id)
        known = None if before is None else (before.incarnation_id, before.epoch)
        self.logs.begin_run(self.incarnation_id, known)
        self.logs.load(lambda topic: self.topic_settings(topic).log)

    async def stop(self) -> None:
        """Hand leaderships over, stop serving, make everything durable and write the clean-shutdown marker.

        A node whose quorum has failed no longer follows the metadata log. It cannot learn which nodes have
        replaced it, and would continue to answer in their place. So it closes at once, without a controlled
        shutdown; the controller notices the missing heartbeats.

        A node whose start failed has stopped already.
        """
        if self._has_given_up:
            return
        self.is_stopping = True
        log.info("stopping node_id=%d", self.node_id)
        if self.config.get_bool("controlled.shutdown.enable") and self.quorum.failure is None:
            await self.lifecycle.shut_down()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self.server.close(listener.name for listener in self.config.broker_listeners)
        self.groups.close()
        self.transactions.close()
        self.producer_ids.close()
        await self.replication.close()
        await self.dispatcher.abandon_requests()  # else they would append to logs that are being closed
        await self.lifecycle.close()
        await self._directory_assignments.close()
        await self._controller_registration.close()
        self.channels.close()
        await self.controller.close()
        await self.quorum.close()
        self.server.close()
        await self.controller_dispatcher.abandon_requests()
        if self._reopening is not None:
            await asyncio.wait((self._reopening,))
        await self.run_in_worker(self.group_commit.close)
        await self.run_in_worker(self.logs.close, self.lifecycle.last_epoch)
        self.loop_lag.stop()
        self.cold_reads.close()
        if self.monitoring is not None:  # last, so that the probe says until then that the node stops
            await self.run_in_worker(self.monitoring.close)
        self._workers.shutdown()
        self._tls_worker.shutdown()
        self.sasl.close()
        log.info("stopped node_id=%d", self.node_id)

    def hurry(self) -> None:
        """Do not wait for other nodes in `stop`, which still does everything else."""
        self.lifecycle.hurry()
        self.quorum.hurry()

    def _advertise(self, bound: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
        """The advertised addresses: as configured, with the real port for 0 and the host name for none."""
        addresses = {}
        for listener in (*self.config.advertised_listeners, *self.config.advertised_controller_listeners):
            _host, port = bound[listener.name]
            addresses[listener.name] = (listener.host or socket.gethostname(), listener.port or port)
        return addresses

    def _serve_metrics(self) -> None:
        port = self.config.get_int("penstock.metrics.port")
        if port >= 0:
            # The import takes 0.1 s, so only on demand.
            from penstock.broker.metrics.server import access_settings, serve

            host = self.config.get_str("penstock.metrics.host")
            try:
                self.monitoring = serve(self, host, port, access_settings(self.config))
            except InvalidAccess as error:
                raise CannotStart(
                    f"cannot serve metrics, with the settings penstock.metrics.…: {error}"
                ) from None
            except OSError as error:
                raise CannotStart(
                    f"cannot serve metrics at {host}:{port}: {error.strerror or error}; set "
                    "penstock.metrics.port to another port, or to -1 for none"
                ) from error

    async def _image_changed(self, delta: MetadataDelta) -> None:
        """Apply a change of the image; changes are applied one at a time, in their order."""
        async with self._following:
            self.lifecycle.image_changed()
            self._configs_changed(delta)
            await self.replicas.apply(delta)
            self._directory_assignments.partitions_changed(delta.changed_partitions)
            self.groups.on_image_change(delta)
            self.transactions.on_image_change(delta)

    def _configs_changed(self, delta: MetadataDelta) -> None:
        changed = [resource for resource in delta.changed_configs if resource.type == ResourceType.BROKER]
        if changed:
            self._reconfigure()
        if any(resource.name == str(self.node_id) for resource in changed):
            # As in Kafka, any change of this broker's own configs reads the files of certificates again.
            self._tls_worker.submit(self.tls.reconfigure, self.config)

    def _reconfigure(self) -> None:
        """Apply the dynamic broker configs (KIP-226): this node's own override the cluster's defaults."""
        configs = self.image.configs
        self.config = self.config.with_dynamic(
            configs.of(ResourceType.BROKER, ""), configs.of(ResourceType.BROKER, str(self.node_id))
        )
        self.server.reconfigure(server_limits(self.config))
        self.replication.reconfigure(self.config)
        self.logs.config = storage_config(self.config)
        try:
            self.logs.cordoned = frozenset(self.config.cordoned_log_dirs)
        except InvalidConfig as error:
            log.error("dynamic config ignored error=%s", error)  # it was set for other log.dirs
        self.logs.cleaner.reconfigure(cleaner_config(self.config))

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(replica.topic, replica.partition): replica.high_watermark
            for replica in self.replicas
        }

    def _log_failed(self, failed: Log, error: OSError) -> None:
        """Handle a failed write or sync of a log. May be called in any thread.

        A log that refuses all appends does not recover, whatever the error was, so its directory fails.
        """
        if failed.failure is not None and not failed.deleted:
            self.loop.call_soon_threadsafe(self._fail_directory, failed.directory.parent, failed.failure)
        else:
            self._storage_failed(failed.directory.parent, error)

    def _storage_failed(self, directory: Path, error: OSError) -> None:
        """Fail the directory unless the error may be temporary: a full disk or too many open files.

        May be called in any thread.
        """
        if error.errno not in MENDING_ERRORS:
            self.loop.call_soon_threadsafe(self._fail_directory, directory, str(error))

    def _fail_directory(self, directory: Path, reason: str) -> None:
        failed_id = self.logs.directory_id(directory)
        names = self.logs.fail_directory(directory, reason)
        self.replicas.take_offline(names)
        lost_all = directory == self.config.metadata_log_dir or not self.logs.directories
        if not lost_all and failed_id is not None:
            self.lifecycle.directory_failed(failed_id)
        if lost_all and not self.died.done():
            log.critical("node stops: its storage failed directory=%s error=%s", directory, reason)
            self.died.set_result(f"{directory} failed: {reason}")

    def _tick(self) -> None:
        """Start the retention, checkpoints and flushes that are due, once a second."""
        self._tick_timer = self.loop.call_later(TICK_S, self._tick)
        self.quotas.expire()
        try:
            self.logs.tick(self.clock_ms())
        except Exception:
            log.exception("background work failed")
        if self.replicas.failed and self.loop.time() >= self._reopen_at_s:
            self._reopen_at_s = self.loop.time() + REOPEN_INTERVAL_S
            self._reopening = self.loop.create_task(self._image_changed(self.replicas.unopened()))
