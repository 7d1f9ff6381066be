"""Real Penstock nodes for tests, in processes of their own.

from penstock.testing import Cluster

with Cluster() as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
"""

from penstock.testing.cluster import Cluster
from penstock.testing.node import ClusterError, Node

__all__ = ["Cluster", "ClusterError", "Node"]
