"""The permissions of a request's sender: the questions that handlers ask, and the audit log of the answers.

`UNRESTRICTED` is the answer of a node without an authorizer. `OwnPermissions` are those of a node that asks
itself. `Granted` asks the authorizer and keeps its decisions until an ACL changes, because clients ask the
same again and again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.security.acls import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from penstock.security.authorizer import Authorizer, Decision, NotReady, java_address

audit: Final = logging.getLogger("kafka.authorizer.logger")
"""Kafka's audit log: denials at INFO, permissions at DEBUG, questions that grant nothing at TRACE."""

TRACE: Final = 5
"""The level below DEBUG."""

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client on a listener without authentication."""

AUTHORIZATION_FAILED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error for a resource on which an operation is not allowed."""

_KEPT_DECISIONS_MAX: Final = 4096
"""The limit on the decisions that one connection keeps per API: clients choose the names."""


_SOME_NAME: Final = "hardcode"
"""The resource that Kafka asks about first, to find out whether a principal may use all of them."""


class Permissions(Protocol):
    """The permissions of a request's principal."""

    @property
    def is_unrestricted(self) -> bool:
        """Whether everything is allowed, so that hot paths need not ask for each resource."""

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denial: bool = True,
        logs_permission: bool = True,
        references: int = 1,
    ) -> bool:
        """Whether the operation on one resource is allowed.

        A denial is logged at INFO, unless the request did not name the resource itself (``logs_denial``).
        ``references`` is how often the request names it. Raises KafkaError until the ACLs are loaded.
        """

    def allowed(
        self,
        operation: Operation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denial: bool = True,
        logs_permission: bool = True,
    ) -> set[str]:
        """The resources of ``names`` on which the operation is allowed, as `allows` decides."""

    def allows_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the operation is allowed on at least one resource of the type (KIP-679)."""

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The bit field of the operations that are allowed on a resource (KIP-430)."""

    def require(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> None:
        """Raise the KafkaError of the resource's type, such as GROUP_AUTHORIZATION_FAILED, unless allowed."""

    def on_behalf_of(self, principal: str, host: str, request: str) -> Permissions:
        """The permissions of the client whose request a broker forwards."""


class Unrestricted:
    """Everything is allowed."""

    is_unrestricted: Final = True

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denial: bool = True,
        logs_permission: bool = True,
        references: int = 1,
    ) -> bool:
        return True

    def allowed(
        self,
        operation: Operation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denial: bool = True,
        logs_permission: bool = True,
    ) -> set[str]:
        return set(names)

    def allows_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        return True

    def operations(self, resource_type: ResourceType, name: str) -> int:
        return _ALL_OPERATIONS[resource_type]

    def require(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> None:
        return

    def on_behalf_of(self, principal: str, host: str, request: str) -> Permissions:
        return self


UNRESTRICTED: Final = Unrestricted()


class OwnPermissions(Unrestricted):
    """The permissions of a node at its own controller: everything, except in the name of a client."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def on_behalf_of(self, principal: str, host: str, request: str) -> Permissions:
        return Granted(self._authorizer, principal, host, request)


class Granted:
    """The permissions of one principal at one host for one API, as an authorizer decides."""

    is_unrestricted: Final = False

    __slots__ = ("_authorizer", "_decisions", "_host", "_principal", "_request", "_version")

    def __init__(self, authorizer: Authorizer, principal: str, host: str, request: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = java_address(host)
        self._request = request
        self._version = authorizer.version
        self._decisions: dict[tuple[int, str], Decision] = {}

    def allows(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denial: bool = True,
        logs_permission: bool = True,
        references: int = 1,
    ) -> bool:
        if self._version != self._authorizer.version or len(self._decisions) >= _KEPT_DECISIONS_MAX:
            self._version = self._authorizer.version
            self._decisions.clear()
        key = (operation << 3 | resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decisions[key] = self._decide(operation, resource_type, name)
        if decision.is_allowed:
            self._authorizer.allowed += 1
            level = logging.DEBUG if logs_permission else TRACE
        else:
            self._authorizer.denied += 1
            level = logging.INFO if logs_denial else TRACE
        if audit.isEnabledFor(level):
            audit.log(
                level,
                "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s "
                "for request = %s with resourceRefCount = %d based on rule %s",
                self._principal,
                "Allowed" if decision.is_allowed else "Denied",
                operation.name,
                self._host,
                resource_type.title,
                name,
                self._request,
                references,
                decision.rule,
            )
        return decision.is_allowed

    def allowed(
        self,
        operation: Operation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denial: bool = True,
        logs_permission: bool = True,
    ) -> set[str]:
        return {
            name
            for name, count in Counter(names).items()
            if self.allows(
                operation,
                resource_type,
                name,
                logs_denial=logs_denial,
                logs_permission=logs_permission,
                references=count,
            )
        }

    def allows_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        if self.allows(operation, resource_type, _SOME_NAME, logs_denial=False, references=0):
            return True
        return self._authorizer.allows_some(self._principal, self._host, operation, resource_type)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        return _bits(
            operation
            for operation in OPERATIONS[resource_type]
            if self.allows(operation, resource_type, name, logs_denial=False, logs_permission=False)
        )

    def require(
        self,
        operation: Operation,
        resource_type: ResourceType = ResourceType.CLUSTER,
        name: str = CLUSTER_NAME,
    ) -> None:
        if not self.allows(operation, resource_type, name):
            raise KafkaError(
                AUTHORIZATION_FAILED[resource_type],
                f"Request {self._request} needs {operation.name} permission.",
            )

    def on_behalf_of(self, principal: str, host: str, request: str) -> Permissions:
        return Granted(self._authorizer, principal, host, request)

    def _decide(self, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        try:
            return self._authorizer.decide(self._principal, self._host, operation, resource_type, name)
        except NotReady:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the ACLs are not loaded yet, and {self._principal} is not one of 'super.users': try again",
            ) from None


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


_ALL_OPERATIONS: Final = {kind: _bits(operations) for kind, operations in OPERATIONS.items()}
"""The bit field of all operations on each type of resource."""
