"""Descriptions of the security of a test cluster: `Security`, and the `Acl`s in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from penstock.security import acls as entries
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.security.authorizer import java_address

Protocol: TypeAlias = Literal["SASL_SSL", "SASL_PLAINTEXT", "SSL"]
Mechanism: TypeAlias = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
OperationName: TypeAlias = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "two-phase-commit",
]
"""The operations of Kafka, as `penstock acl add` calls them."""

ADMIN: Final = "admin"
"""The super user that each secured cluster has, for the test itself."""
NODE: Final = "penstock-node"
"""The user of the nodes, which is a super user."""
REGISTRY: Final = "penstock-registry"
"""The user of the schema registry."""
_EVERYBODY: Final = "*"
_RESERVED: Final = (NODE, REGISTRY)
_ESCAPED: Final = frozenset(',+"\\<>;=')
"""Characters that the names in certificates escape, so that a user's name would not be that of its ACLs."""
_OF_PLAIN: Final = re.compile(r"[\w.$-]+")
_CN_MAX: Final = 64
"""Limit of X.509 on the name in a certificate."""


@dataclass(frozen=True)
class Acl:
    """Permission for a user to do something, or with ``deny`` the opposite.

        Acl("alice", "write", topic="orders")
        Acl("bob", "read", topic="orders-", group="billing", prefixed=True)

    Args:
        user: the name of a user; ``*`` stands for everybody.
        operations: one operation of Kafka or several, such as ``read``; ``all`` stands for all. Permission to
            read, write, delete or alter includes ``describe``.
        topic: a topic; ``*`` stands for all. The operations apply to each resource that is named here.
        group: a consumer group.
        transactional_id: a transactional id.
        cluster: the cluster itself.
        prefixed: whether the names stand for all names that begin so.
        deny: whether the ACL denies what it names. A denial wins over all permissions.
        host: the address of the client; ``*`` stands for all.

    Raises:
        ValueError: no resource is named, or one of them does not have one of the operations.
    """

    user: str
    operations: OperationName | Sequence[OperationName]
    _: KW_ONLY
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = False
    deny: bool = False
    host: str = entries.WILDCARD

    def __post_init__(self) -> None:
        if not list(self.entries()):
            raise ValueError(
                "an Acl names at least one operation and one of topic, group, transactional_id or cluster, "
                f"found {self}"
            )

    def entries(self) -> Iterator[entries.Acl]:
        """The entries of Kafka that make up this ACL, one for each operation on each resource.

        Raises ValueError.
        """
        given = (self.operations,) if isinstance(self.operations, str) else self.operations
        for kind, name in self._resources():
            is_cluster = kind is ResourceType.CLUSTER
            pattern = PatternType.PREFIXED if self.prefixed and not is_cluster else PatternType.LITERAL
            for operation in given:
                yield entries.Acl(
                    kind,
                    name,
                    pattern,
                    principal(self.user),
                    java_address(self.host),
                    _operation(operation, kind),
                    PermissionType.DENY if self.deny else PermissionType.ALLOW,
                )

    def _resources(self) -> Iterator[tuple[ResourceType, str]]:
        named = {
            ResourceType.TOPIC: self.topic,
            ResourceType.GROUP: self.group,
            ResourceType.TRANSACTIONAL_ID: self.transactional_id,
            ResourceType.CLUSTER: entries.CLUSTER_NAME if self.cluster else None,
        }
        return ((kind, name) for kind, name in named.items() if name is not None)


def _operation(name: str, kind: ResourceType) -> Operation:
    possible = (Operation.ALL, *entries.OPERATIONS[kind])
    shown = {each.name.lower().replace("_", "-"): each for each in possible}
    if name not in shown:
        raise ValueError(
            f"a {kind.name.lower().replace('_', ' ')} has no operation {name!r}: expected one of "
            f"{', '.join(shown)}"
        )
    return shown[name]


def principal(user: str) -> str:
    """The principal of a user, as ACLs and the configs of nodes name it."""
    return f"User:{user}"


@dataclass(frozen=True)
class Security:
    """How clients of a test cluster authenticate, and what they may do.

        Security(users={"alice": "secret"}, acls=[Acl("alice", "read", topic="orders", group="billing")])
        Security(users=["alice"], protocol="SSL")  # clients with certificates

    Each cluster also has the user ``admin``, who may do everything. The defaults are TLS, passwords by
    SCRAM-SHA-512, and ACLs that deny what none of them allows.

    Args:
        users: the names of users with their passwords, or only names, for which passwords are made up. With
            the protocol SSL, users have certificates instead.
        acls: what the users may do. Without any, only super users may do something; with None there is no
            authorizer, and everybody may do everything.
        protocol: the security protocol of the listener for clients.
        mechanism: the SASL mechanism, for the protocols that begin with SASL.
        super_users: users beside ``admin`` who may do everything.

    Raises:
        ValueError: names a user who does not exist or cannot, or has an unknown protocol or mechanism.
    """

    users: Mapping[str, str] | Collection[str] = field(default=(), repr=False)
    acls: Sequence[Acl] | None = ()
    protocol: Protocol = "SASL_SSL"
    mechanism: Mechanism = "SCRAM-SHA-512"
    super_users: Collection[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.users, str) or isinstance(self.super_users, str):
            raise ValueError("users and super_users are several names, expected a list, found a text")
        for what, value, kind in (
            ("protocol", self.protocol, Protocol),
            ("mechanism", self.mechanism, Mechanism),
        ):
            if value not in get_args(kind):
                raise ValueError(f"{what} {value!r}: expected one of {', '.join(get_args(kind))}")
        for name in self.users:
            self.check_name(name)
        known = {*self.users, ADMIN}
        for name in (*self.super_users, *(acl.user for acl in self.acls or ())):
            if name not in known and name != _EVERYBODY:
                raise ValueError(f"there is no user {name!r}: expected one of {', '.join(sorted(known))}")

    @property
    def uses_sasl(self) -> bool:
        """Whether clients log in by SASL."""
        return self.protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether the listener for clients encrypts."""
        return self.protocol.endswith("SSL")

    def check_name(self, name: str) -> None:
        """Check that a user may have this name. Raises ValueError."""
        if not name or name in _RESERVED or name == _EVERYBODY:
            raise ValueError(f"a user cannot be called {name!r}: expected another name")
        if self.uses_sasl and self.mechanism == "PLAIN" and not _OF_PLAIN.fullmatch(name):
            raise ValueError(
                f"PLAIN cannot have the user {name!r}: expected letters, digits, '_', '.', '$' and '-' only, "
                "since its users are options of sasl.jaas.config"
            )
        is_escaped = bool(_ESCAPED.intersection(name)) or name != name.strip()
        if not self.uses_sasl and (len(name) > _CN_MAX or is_escaped):
            raise ValueError(
                f"a certificate cannot name the user {name!r}: expected at most {_CN_MAX} characters, "
                f"without {' '.join(sorted(_ESCAPED))}"
            )
