"""What is left of members that were removed, and goes once no batch knows them any more: internal topics,
groups and plans. Their state goes with the batch in which they are missing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.errors import ClientError
from penstock.client.groups import ConsumerGroup
from penstock.client.topics import delete_topics
from penstock.spark.hosting.plan import MemberPlan, delete_plans, read_plan
from penstock.spark.hosting.positions import last_completed
from penstock.spark.hosting.roster import Member, Roster, RosterFile
from penstock.spark.sink.locations import Location

_log = logging.getLogger(__name__)


def to_bury(where: Location, file: RosterFile, roster: Roster) -> list[Member]:
    """Those of the removed that no batch knows. Raises OSError."""
    if not roster.removed or file.acknowledged() < roster.revision:
        return []
    completed = last_completed(where)
    return [member for member in roster.removed if str(member.number) not in completed]


def delete_internals(where: Location, client: ClientConfig, members: Collection[Member]) -> None:
    """Their topics and groups, while their plans are there. Raises ClientError, MissingPlan."""
    for member in members:
        with Cluster(client) as cluster:
            _delete_internals(cluster, read_plan(where, member.plan))


def _delete_internals(cluster: Cluster, plan: MemberPlan) -> None:
    topology = plan.topology
    internal = {*map(topology.topic, topology.repartitions), *plan.store_of_changelog}
    there = cluster.refresh(sorted(internal)).topics if internal else {}
    delete_topics(cluster, sorted(internal & there.keys()))
    group = ConsumerGroup(cluster, topology.application)
    try:
        cluster.retry(group.delete)
    except ClientError as error:
        _log.warning("the group %s stays: %s", topology.application, error)


def delete_plans_of(where: Location, members: Collection[Member]) -> None:
    """Once the roster knows them no more. Raises OSError."""
    for member in members:
        delete_plans(where, member.number)
