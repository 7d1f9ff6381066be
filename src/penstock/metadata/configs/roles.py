"""The roles of a node, and the listeners and quorum settings they require (KIP-500, KIP-853).

The rules are Kafka's, with one exception: a node that is both broker and controller needs no listener for
controllers if it is a quorum of its own, because no other node connects to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.metadata.configs.definition import InvalidConfig, invalid

if TYPE_CHECKING:
    from penstock.metadata.configs.broker_config import BrokerConfig


def check_roles(config: BrokerConfig) -> None:
    """Raise InvalidConfig for the first setting that contradicts `process.roles`."""
    if config.is_controller:
        _check_controller(config)
    else:
        _check_broker_alone(config)
    if not config.is_broker:
        _check_controller_alone(config)
    if config.metadata_log_dir not in config.log_dirs:
        raise invalid("metadata.log.dir", str(config.metadata_log_dir), "it must be one of log.dirs")
    if not config.is_quorum_of_one and not config.quorum_voters and not config.quorum_bootstrap_servers:
        raise InvalidConfig(
            "controller.quorum.bootstrap.servers",
            "controller.quorum.bootstrap.servers: expected the addresses of controllers, since "
            "controller.quorum.voters names none and this node is not a quorum by itself",
        )


def _check_controller(config: BrokerConfig) -> None:
    voters = config.quorum_voters
    if voters and all(voter.node_id != config.node_id for voter in voters):
        raise InvalidConfig(
            "controller.quorum.voters",
            f"controller.quorum.voters: node {config.node_id} is a controller and must be one of the voters, "
            f"found {', '.join(str(voter.node_id) for voter in voters)}",
        )
    if not config.controller_listeners and not config.is_quorum_of_one:
        raise InvalidConfig(
            "controller.listener.names",
            "controller.listener.names: at least one of the names must appear in listeners if the "
            "quorum has several nodes",
        )
    missing = set(config.controller_listener_names) - {listener.name for listener in config.listeners}
    if missing and config.controller_listeners:
        raise InvalidConfig(
            "controller.listener.names",
            f"controller.listener.names: {', '.join(sorted(missing))} must appear in listeners",
        )


def _check_broker_alone(config: BrokerConfig) -> None:
    if any(voter.node_id == config.node_id for voter in config.quorum_voters):
        raise InvalidConfig(
            "controller.quorum.voters",
            f"controller.quorum.voters: node {config.node_id} is a broker only and must not be a voter",
        )
    if config.controller_listeners:
        raise InvalidConfig(
            "controller.listener.names",
            "controller.listener.names: none of the names may appear in listeners of a node that is a broker "
            f"only, found {config.controller_listeners[0]}",
        )
    if config.get_bool("controller.quorum.auto.join.enable"):
        raise invalid("controller.quorum.auto.join.enable", "true", "only controllers join the voters")


def _check_controller_alone(config: BrokerConfig) -> None:
    if others := config.broker_listeners:
        raise invalid(
            "listeners",
            str(others[0]),
            "a node that is only a controller may only have listeners for controllers",
        )
