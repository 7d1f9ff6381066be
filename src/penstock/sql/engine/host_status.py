"""What a server keeps of tables, and how far behind their topics it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.sql.engine.entities import (
    ActiveStandby,
    HostStatus,
    HostStoreLags,
    LagInfo,
    StateStoreLags,
    TopicPartitionInfo,
)
from penstock.views import Views


def host_status(views: Mapping[str, Views], now_ms: int) -> HostStatus:
    """``views``: what pull queries ask, by the ids of the queries that make it."""
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
