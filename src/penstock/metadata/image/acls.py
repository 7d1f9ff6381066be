"""The ACLs of the cluster, by their ids."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from penstock.protocol.messages import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from penstock.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType, member

_versions: Final = itertools.count(1)


class AclsImage:
    """All ACLs. Two ids never have equal ones, because the controller creates none twice."""

    def __init__(self) -> None:
        self.by_id: dict[bytes, Acl] = {}
        self.existing: set[Acl] = set()
        self.version = 0
        """Differs between any two states of any images of this process."""
        self._records: dict[bytes, AccessControlEntryRecord] = {}
        """The records of the ACLs, which may have values that only a newer release knows."""

    def copy(self) -> AclsImage:
        twin = AclsImage()
        twin.by_id, twin.existing, twin.version = self.by_id.copy(), self.existing.copy(), self.version
        twin._records = self._records.copy()
        return twin

    def put(self, record: AccessControlEntryRecord) -> None:
        acl = Acl(
            member(ResourceType, record.resource_type),
            record.resource_name,
            member(PatternType, record.pattern_type),
            record.principal,
            record.host,
            member(Operation, record.operation),
            member(PermissionType, record.permission_type),
        )
        self.by_id[record.id] = acl
        self._records[record.id] = record
        self.existing.add(acl)
        self.version = next(_versions)

    def remove(self, record: RemoveAccessControlEntryRecord) -> None:
        acl = self.by_id.pop(record.id, None)
        if acl is not None:
            self.existing.discard(acl)
            del self._records[record.id]
            self.version = next(_versions)

    def records(self) -> Iterator[AccessControlEntryRecord]:
        return iter(self._records.values())


def acl_record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    """The record that creates an ACL."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=int(acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=int(acl.pattern_type),
        principal=acl.principal,
        host=acl.host,
        operation=int(acl.operation),
        permission_type=int(acl.permission_type),
    )
