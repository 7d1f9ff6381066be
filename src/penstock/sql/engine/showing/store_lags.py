"""The stores of a server and how far each lags behind its topic. A pure function."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.sql.engine.ground.entities import (
    ActiveStandby,
    HostStatus,
    HostStoreLags,
    LagInfo,
    StateStoreLags,
    TopicPartitionInfo,
)
from penstock.views import Views


def host_status(views: Mapping[str, Views], now_ms: int) -> HostStatus:
    """Describe the server's stores. ``views`` are those of pull queries, by the ids of persistent queries."""
    kept: dict[str, ActiveStandby] = {}
    lags: dict[str, StateStoreLags] = {}
    for query_id, each in views.items():
        for store in each.viewed:
            replicas = sorted(each.held(store).items())
            partitions = tuple(TopicPartitionInfo(store.topic, number) for number, _ in replicas)
            kept[query_id] = ActiveStandby((store.name,), partitions)
            lags[f"{query_id}#{store.name}"] = StateStoreLags(
                {number: LagInfo(replica.position, replica.end, replica.lag) for number, replica in replicas}
            )
    return HostStatus(True, now_ms, kept, HostStoreLags(lags, now_ms))
