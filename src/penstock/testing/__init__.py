"""Real Penstock nodes for tests, each in its own process.

from penstock.testing import Cluster

with Cluster() as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

The package also holds the pytest plugin, a file system that injects crashes, and the simulator. Test cases
themselves belong under tests/.
"""

from penstock.testing.cluster import Cluster
from penstock.testing.node import ClusterError, Node

__all__ = ["Cluster", "ClusterError", "Node"]
