"""Delete the internal topics, groups and plans of removed members, once no batch refers to them any more.

Spark's state of a member is cleared in the first batch that no longer includes it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from penstock.client.admin.topics import delete_topics
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.spark.hosting.credentials import Credentials
from penstock.spark.hosting.plan import MemberPlan, delete_plans, read_plan
from penstock.spark.hosting.positions import last_completed
from penstock.spark.hosting.roster import Member, Roster, RosterFile
from penstock.spark.sink.locations import Location

log = logging.getLogger(__name__)


def to_bury(where: Location, file: RosterFile, roster: Roster) -> list[Member]:
    """Return the removed members that no batch refers to any more. Raises OSError."""
    if not roster.removed or file.acknowledged() < roster.revision:
        return []
    completed = last_completed(where)
    return [member for member in roster.removed if str(member.number) not in completed]


def delete_internals(where: Location, own: Credentials, members: Collection[Member]) -> None:
    """Delete the members' internal topics and groups; this needs their plans.

    Raises ClientError, MissingPlan, MissingCredentials.
    """
    for member in members:
        with Cluster(own.client) as cluster:
            _delete_internals(cluster, read_plan(where, member.plan, own))


def _delete_internals(cluster: Cluster, plan: MemberPlan) -> None:
    topology = plan.topology
    internal = {*map(topology.topic, topology.repartitions), *plan.store_of_changelog}
    there = cluster.refresh(sorted(internal)).topics if internal else {}
    delete_topics(cluster, sorted(internal & there.keys()))
    group = ConsumerGroup(cluster, topology.application)
    try:
        cluster.retry(group.delete)
    except ClientError as error:
        log.warning("group of a removed member not deleted group=%s error=%s", topology.application, error)


def delete_plans_of(where: Location, members: Collection[Member]) -> None:
    """Delete the members' plans; call it once the roster no longer lists them. Raises OSError."""
    for member in members:
        delete_plans(where, member.number)
