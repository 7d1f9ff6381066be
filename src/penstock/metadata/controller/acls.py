"""CreateAcls and DeleteAcls: change the access control lists in the metadata log (KIP-801)."""

from __future__ import annotations

from typing import TypeAlias

from penstock.metadata.controller.state import (
    MAX_RECORDS_PER_REQUEST,
    ControllerState,
    Decision,
    Refusal,
)
from penstock.metadata.image.acls import acl_record
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    Message,
    RemoveAccessControlEntryRecord,
)
from penstock.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    member,
)

CreationResult: TypeAlias = CreateAclsResponse.AclCreationResult
FilterResult: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult


def create_acls(state: ControllerState, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
    """Create ACLs, each of which succeeds or fails separately. One that exists succeeds without a record."""
    records: list[Message] = []
    results: list[CreationResult] = []
    created: set[Acl] = set()
    for creation in request.creations:
        acl = Acl(
            member(ResourceType, creation.resource_type),
            creation.resource_name,
            member(PatternType, creation.resource_pattern_type),
            creation.principal,
            creation.host,
            member(Operation, creation.operation),
            member(PermissionType, creation.permission_type),
        )
        try:
            _check(acl)
        except Refusal as refusal:
            results.append(
                CreateAclsResponse.AclCreationResult(error_code=refusal.code, error_message=refusal.message)
            )
            continue
        results.append(CreateAclsResponse.AclCreationResult())
        if acl not in state.image.acls.existing and acl not in created:
            created.add(acl)
            records.append(acl_record(state.new_uuid(), acl))
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise Refusal(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    return Decision(records, CreateAclsResponse(results=results))


def _check(acl: Acl) -> None:
    """Raise Refusal for an ACL that matches nothing or has a value that only filters may have."""
    problem = None
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.resource_name:
        problem = "Invalid empty resource name"
    elif acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        problem = f"Invalid resourceType {acl.resource_type.name}"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"Invalid patternType {acl.pattern_type.name}"
    elif acl.operation in (Operation.UNKNOWN, Operation.ANY):
        problem = f"Invalid operation {acl.operation.name}"
    elif acl.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        problem = f"Invalid permissionType {acl.permission_type.name}"
    elif ":" not in acl.principal:
        problem = (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if problem is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)


def delete_acls(state: ControllerState, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """Delete the ACLs that match the filters: all of them, or none if there are too many."""
    deleted: set[bytes] = set()
    results: list[FilterResult] = []
    for asked in request.filters:
        filter_ = AclFilter.of_request(asked)
        # Null, as in Apache Kafka: the default is the empty text, which clients tell apart.
        result = DeleteAclsResponse.DeleteAclsFilterResult(error_message=None)
        results.append(result)
        if filter_.problem is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, filter_.problem
            continue
        for acl_id, acl in state.image.acls.by_id.items():
            if filter_.matches(acl):
                deleted.add(acl_id)
                result.matching_acls.append(_matching(acl))
    if len(deleted) > MAX_RECORDS_PER_REQUEST:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Cannot remove more than {MAX_RECORDS_PER_REQUEST} acls in a single delete operation.",
        )
    records: list[Message] = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in sorted(deleted)]
    return Decision(records, DeleteAclsResponse(filter_results=results))


def _matching(acl: Acl) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    return DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
