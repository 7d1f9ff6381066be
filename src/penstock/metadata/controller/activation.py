"""The first records that a controller writes when it takes over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.metadata.controller.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image import ResourceType
from penstock.protocol.messages import AbortTransactionRecord, ConfigRecord, FeatureLevelRecord, Message

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def activation_records(state: ControllerState, bootstrap: Sequence[Message]) -> list[Message]:
    """The ``bootstrap`` records of a new cluster, and an end to a metadata transaction left open (KIP-868).

    With eligible leader replicas, ``min.insync.replicas`` is a config of the cluster. If each broker had its
    own, it would be undefined which committed records an eligible leader must have (KIP-966).
    """
    records: list[Message] = []
    if state.image.in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    records += bootstrap
    if any(_finalizes_elr(record) for record in bootstrap):
        records.append(cluster_min_isr(state))
    return records


def _finalizes_elr(record: Message) -> bool:
    return (
        isinstance(record, FeatureLevelRecord)
        and record.name == ELIGIBLE_LEADER_REPLICAS_VERSION
        and record.feature_level > 0
    )


def cluster_min_isr(state: ControllerState) -> ConfigRecord:
    """The record that makes this node's static ``min.insync.replicas`` the cluster's."""
    return ConfigRecord(
        resource_type=ResourceType.BROKER,
        resource_name="",
        name=MIN_INSYNC_REPLICAS,
        value=str(state.static_config.get_int(MIN_INSYNC_REPLICAS)),
    )
