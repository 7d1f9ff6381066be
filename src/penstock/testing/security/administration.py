"""Changes of the users and ACLs of a running test cluster, by its super user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.client.admin.acls import create_acls, delete_acls
from penstock.client.admin.users import set_password
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.processes.node import ClusterError
from penstock.security.acls import Acl, AclFilter
from penstock.security.scram import ScramMechanism


@contextmanager
def administration(properties: Mapping[str, str]) -> Iterator[Administration]:
    """Connect to the cluster. Raises ClusterError if it refuses something, or cannot be reached."""
    with Cluster(ClientConfig.from_properties(properties)) as cluster:
        try:
            yield Administration(cluster)
        except ClientError as error:
            raise ClusterError(str(error)) from error


class Administration:
    """An administrator's connections to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def set_password(self, user: str, password: str, mechanism: ScramMechanism) -> None:
        """Create a user, or change the password. Raises ClientError."""
        set_password(self._cluster, user, password, mechanism)

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Create the ACLs that do not exist yet. Raises ClientError."""
        create_acls(self._cluster, acls)

    def delete_acls(self, acls: Sequence[Acl]) -> None:
        """Delete the ACLs that exist. Raises ClientError."""
        delete_acls(self._cluster, [AclFilter(*acl) for acl in acls])
