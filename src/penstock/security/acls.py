"""Access control lists (ACLs) as Kafka defines them: resources, operations, and filters (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from penstock.protocol.messages import DeleteAclsRequest, DescribeAclsRequest

WILDCARD: Final = "*"
"""The name of a literal pattern for all resources of a type, and the host of an ACL for all hosts."""

WILDCARD_PRINCIPAL: Final = "User:*"
"""The only principal of an ACL that matches others."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class ResourceType(IntEnum):
    """The types of resources, by their number in requests and records."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def title(self) -> str:
        """The type's name in Kafka's audit log, such as ``TransactionalId``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class PatternType(IntEnum):
    """How the name of an ACL matches the names of resources. ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operations on resources, by their number in requests, records and bit fields."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
        *(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.GROUP: (
        *(Operation.READ, Operation.DELETE, Operation.DESCRIBE),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that each type of resource supports, as in Kafka's AclEntry."""

E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], code: int) -> E:
    """The member of ``kind`` with this number, or its UNKNOWN: newer releases may add some."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


class Acl(NamedTuple):
    """One entry: a principal may, or may not, do an operation on the resources that match a pattern."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """``type:name``, such as ``User:alice``."""
    host: str
    """An IP address as Java prints it, or `WILDCARD`."""
    operation: Operation
    permission_type: PermissionType

    def __str__(self) -> str:
        """The text of Kafka's StandardAcl, as its audit log has it."""
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name}, "
            f"patternType={self.pattern_type.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission_type.name}]"
        )


class AclFilter(NamedTuple):
    """A filter of ACLs, as DescribeAcls and DeleteAcls send it; None and ANY match everything."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission_type: PermissionType

    @classmethod
    def of_request(cls, asked: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
        """The filter that a request has."""
        return cls(
            member(ResourceType, asked.resource_type_filter),
            asked.resource_name_filter,
            member(PatternType, asked.pattern_type_filter),
            asked.principal_filter,
            asked.host_filter,
            member(Operation, asked.operation),
            member(PermissionType, asked.permission_type),
        )

    @property
    def problem(self) -> str | None:
        """The reason why the filter cannot be applied: this release does not know one of its values."""
        if ResourceType.UNKNOWN is self.resource_type or PatternType.UNKNOWN is self.pattern_type:
            return "Unknown patternFilter."
        if Operation.UNKNOWN is self.operation or PermissionType.UNKNOWN is self.permission_type:
            return "Unknown entryFilter."
        return None

    def matches(self, acl: Acl) -> bool:
        """Whether the filter selects ``acl``."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type is PatternType.LITERAL:
            return acl.resource_name in (self.resource_name, WILDCARD)
        return self.resource_name.startswith(acl.resource_name)
