"""This node's identity in the quorum and its peers, from its configuration and its metadata directory."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.consensus.quorum_state import ElectionState
from penstock.consensus.settings import RaftSettings
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet
from penstock.metadata.configs import BrokerConfig
from penstock.protocol.uuids import uuid_from_text
from penstock.storage.directories import meta_properties
from penstock.storage.errors import LogDirectoryError

if TYPE_CHECKING:
    from penstock.broker.setup.host import NodeHost


FETCH_MAX_WAIT_MS: Final = 500
"""The longest time that a leader may hold a Fetch, as in Kafka."""


def listener_name(config: BrokerConfig) -> str:
    """The listener on which the members connect to each other."""
    return config.controller_listener_names[0]


def static_voters(config: BrokerConfig) -> VoterSet:
    """The voters of ``controller.quorum.voters``; without it, a sole controller votes alone."""
    name = listener_name(config)
    if config.quorum_voters:
        return VoterSet(
            Voter(ReplicaKey(voter.node_id), {name: Address(voter.host, voter.port)})
            for voter in config.quorum_voters
        )
    if config.is_quorum_of_one:
        return VoterSet([Voter(ReplicaKey(config.node_id))])
    return VoterSet()


def raft_settings(host: NodeHost) -> RaftSettings:
    """The settings of this node's Raft state machine.

    Raises LogDirectoryError for a metadata directory without an id.
    """
    config = host.config
    fetch_timeout_ms = config.get_int("controller.quorum.fetch.timeout.ms")
    return RaftSettings(
        cluster_id=host.cluster_id,
        local=ReplicaKey(host.node_id, _directory_id(config)),
        listener_name=listener_name(config),
        endpoints=_endpoints(host) if config.is_controller else {},
        bootstrap_servers=tuple(
            Address(server.host, server.port) for server in config.quorum_bootstrap_servers
        ),
        can_become_voter=config.is_controller,
        auto_join=config.get_bool("controller.quorum.auto.join.enable"),
        election_timeout_ms=config.get_int("controller.quorum.election.timeout.ms"),
        fetch_timeout_ms=fetch_timeout_ms,
        election_backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
        request_timeout_ms=config.get_int("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.get_int("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=config.get_int("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=config.get_int("controller.quorum.fetch.snapshot.max.bytes"),
        # Kafka's wait, unless the fetch timeout is too short: an answer proves that the leader is alive.
        fetch_max_wait_ms=min(FETCH_MAX_WAIT_MS, fetch_timeout_ms // 4),
    )


def _directory_id(config: BrokerConfig) -> bytes:
    directory = config.metadata_log_dir
    properties = meta_properties.read(directory)
    if properties is None or not properties.directory_id:
        raise LogDirectoryError(f"{directory}: its meta.properties has no directory.id; format it first")
    return uuid_from_text(properties.directory_id)


def _endpoints(host: NodeHost) -> dict[str, Address]:
    """The addresses of this controller's listeners; a listener configured with port 0 has its bound port."""
    endpoints = {}
    for listener in host.config.advertised_controller_listeners:
        name, port = listener.host, listener.port
        try:
            bound_host, bound_port = host.advertised(listener.name)
        except KeyError:
            bound_host, bound_port = "", 0
        endpoints[listener.name] = Address(name or bound_host or socket.gethostname(), port or bound_port)
    return endpoints


def check_alone(metadata_log: MetadataLog, config: BrokerConfig, election: ElectionState | None) -> None:
    """Raise LogDirectoryError if there are other voters and this node's settings name none of them.

    A voter of a quorum of several nodes that continued alone would fork the cluster's log.
    """
    history = metadata_log.history
    if history.voters_offset is not None:
        others = set(history.voters.ids) - {config.node_id}
        known = bool(config.controller_listeners)
    else:
        others = set(election.voters if election is not None else ()) - set(history.static_voters.ids)
        known = False
    if others and not known and config.is_controller:
        voters = sorted(others | {config.node_id})
        raise LogDirectoryError(
            f"{metadata_log.directory} belongs to a controller quorum of the nodes {voters}; this node's "
            f"settings know {list(history.static_voters.ids)}: give it a controller listener, and "
            "controller.quorum.bootstrap.servers or controller.quorum.voters with all of them"
        )
