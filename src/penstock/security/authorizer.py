"""The decisions of Kafka's StandardAuthorizer (KIP-801): super users, ACLs, and the rule for what has none.

A super user may do everything. Otherwise an ACL that denies decides, then one that allows. A resource without
any ACL, of whatever principal and operation, follows ``allow.everyone.if.no.acl.found``; one with ACLs that
do not match is denied.

The host of a request is compared as text with the host of an ACL, so it must have the form that Java prints:
`java_address`.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Final, NamedTuple

from penstock.security.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

_IMPLIES: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose permission includes the permission for another one. A denial includes nothing."""


class NotReady(Exception):
    """The ACLs are not loaded yet, so only super users can be served."""


class Decision(NamedTuple):
    """Whether a request is allowed, and the rule that decided."""

    is_allowed: bool
    rule: str
    """The rule as Kafka's audit log names it."""


_SUPER_USER: Final = Decision(True, "SuperUser")
_DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
_DEFAULT_DENY: Final = Decision(False, "DefaultDeny")


class Authorizer:
    """The authorizer of one node. Its ACLs are those of the node's metadata."""

    def __init__(self, super_users: Iterable[str], *, allows_without_acl: bool) -> None:
        self.super_users = frozenset(super_users)
        self.version = 0
        """A number that grows with each change: decisions of before must be made again."""
        self.is_ready = False
        """Whether the ACLs are loaded. Until then `decide` serves super users only."""
        self.allowed = 0
        self.denied = 0
        """The decisions that requests were given, also those that a connection had kept."""
        self._without_acl = _DEFAULT_ALLOW if allows_without_acl else _DEFAULT_DENY
        self._acls: dict[bytes, Acl] = {}
        self._of_type: dict[ResourceType, _Patterns] = {kind: _Patterns() for kind in ResourceType}

    def loaded(self) -> None:
        """Serve everybody from now on: the ACLs are loaded."""
        self.is_ready = True
        self.version += 1

    def put(self, acl_id: bytes, acl: Acl | None) -> None:
        """Set the ACL with this id, or remove it (None)."""
        former = self._acls.pop(acl_id, None)
        if former is not None:
            self._of_type[former.resource_type].remove(former)
        if acl is not None:
            self._acls[acl_id] = acl
            self._of_type[acl.resource_type].add(acl)
        self.version += 1

    @property
    def ids(self) -> KeysView[bytes]:
        """The ids of all ACLs."""
        return self._acls.keys()

    @property
    def acls(self) -> ValuesView[Acl]:
        """All ACLs."""
        return self._acls.values()

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Decide whether ``principal`` at ``host`` may do the operation on one resource. Raises NotReady."""
        if principal in self.super_users:
            return _SUPER_USER
        if not self.is_ready:
            raise NotReady
        allowing: Acl | None = None
        has_acls = False
        for acl in self._of_type[resource_type].matching(name):
            has_acls = True
            if not _concerns(acl, principal, host, operation):
                continue
            if acl.permission_type is not PermissionType.ALLOW:
                return Decision(False, f"MatchingAcl(acl={acl})")
            allowing = acl
        if allowing is not None:
            return Decision(True, f"MatchingAcl(acl={allowing})")
        return _DEFAULT_DENY if has_acls else self._without_acl

    def allows_some(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether ACLs let ``principal`` do the operation on at least one resource of the type (KIP-679).

        An ACL that allows a name or a prefix counts unless others deny all of it. As in Kafka, operations
        that include another one do not count here, nor do super users.
        """
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for acl in self._of_type[resource_type]:
            if (
                acl.operation in (operation, Operation.ALL)
                and acl.host in (host, WILDCARD)
                and acl.principal in (principal, WILDCARD_PRINCIPAL)
            ):
                side = allowed if acl.permission_type is PermissionType.ALLOW else denied
                side.add((acl.pattern_type, acl.resource_name))
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied or everything in allowed:
            return everything not in denied
        return any(not _is_denied(pattern, denied) for pattern in allowed)


class _Patterns:
    """The ACLs of one type of resource, by the names and the prefixes that they cover."""

    def __init__(self) -> None:
        self._literal: dict[str, list[Acl]] = {}
        self._prefixed: dict[str, list[Acl]] = {}
        self._prefixes_of_length: Counter[int] = Counter()
        self._prefix_lengths: list[int] = []
        """The lengths of all prefixes, the longest first."""

    def __iter__(self) -> Iterator[Acl]:
        for by_name in (self._literal, self._prefixed):
            for acls in by_name.values():
                yield from acls

    def add(self, acl: Acl) -> None:
        side = self._side(acl)
        kept = side.setdefault(acl.resource_name, [])
        if not kept and side is self._prefixed:
            self._count_prefix(len(acl.resource_name), 1)
        kept.append(acl)
        kept.sort(key=_audit_order)

    def remove(self, acl: Acl) -> None:
        side = self._side(acl)
        kept = side[acl.resource_name]
        kept.remove(acl)
        if not kept:
            del side[acl.resource_name]
            if side is self._prefixed:
                self._count_prefix(len(acl.resource_name), -1)

    def matching(self, name: str) -> Iterator[Acl]:
        """The ACLs that cover ``name``, in Kafka's order: from the longest prefix to the wildcard."""
        yield from self._literal.get(name, ())
        for length in self._prefix_lengths:
            if length <= len(name):
                yield from self._prefixed.get(name[:length], ())
        if name != WILDCARD:
            yield from self._literal.get(WILDCARD, ())

    def _side(self, acl: Acl) -> dict[str, list[Acl]]:
        return self._prefixed if acl.pattern_type is PatternType.PREFIXED else self._literal

    def _count_prefix(self, length: int, change: int) -> None:
        self._prefixes_of_length[length] += change
        if self._prefixes_of_length[length] == max(change, 0):
            self._prefix_lengths = sorted(+self._prefixes_of_length, reverse=True)


def _audit_order(acl: Acl) -> tuple[Operation, str, str, PermissionType]:
    """The order of the ACLs of one pattern in Kafka, which decides the rule that the audit log names."""
    return acl.operation, acl.principal, acl.host, acl.permission_type


def _concerns(acl: Acl, principal: str, host: str, operation: Operation) -> bool:
    if acl.principal not in (principal, WILDCARD_PRINCIPAL) or acl.host not in (host, WILDCARD):
        return False
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission_type is PermissionType.ALLOW and acl.operation in _IMPLIES.get(operation, ())


def _is_denied(pattern: tuple[PatternType, str], denied: set[tuple[PatternType, str]]) -> bool:
    """Whether all resources of a pattern are denied by its own name or by a prefix of it."""
    kind, name = pattern
    if kind is PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def java_address(address: str) -> str:
    """An IP address in the form that Java prints: IPv6 as eight groups without zeros in front.

    An address that is mapped from IPv4 is printed as IPv4. Anything else is returned unchanged.
    """
    bare, percent, scope = address.partition("%")
    try:
        parsed = ipaddress.ip_address(bare)
    except ValueError:
        return address
    if parsed.version == 4:
        return bare
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":")) + percent + scope
