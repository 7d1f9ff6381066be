"""A real Penstock node for tests, in a process of its own.

from penstock.testing import Cluster

with Cluster() as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
"""

from penstock.testing.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]
