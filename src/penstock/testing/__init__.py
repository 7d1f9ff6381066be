"""Real Penstock nodes for tests, each in its own process.

    from penstock.testing import Cluster

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

The package also holds the security of a cluster (`security`), the pytest plugin, a file system that injects
crashes, and the simulator. Starting and ending a process belongs in `penstock.processes`, and test cases
under tests/.
"""

from penstock.processes.node import ClusterError, Node
from penstock.testing.cluster import Cluster
from penstock.testing.security.description import Acl, Security

__all__ = ["Acl", "Cluster", "ClusterError", "Node", "Security"]
