"""Real Penstock nodes for tests, each in its own process.

    from penstock.testing import Cluster

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

The package also holds the pytest plugin, a file system that injects crashes, and the simulator. Starting and
ending a process belongs in `penstock.processes`, and test cases under tests/.
"""

from penstock.processes.node import ClusterError, Node
from penstock.testing.cluster import Cluster

__all__ = ["Cluster", "ClusterError", "Node"]
