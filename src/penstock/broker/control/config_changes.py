"""Handle the broker's part of a request to change configs, before the controller decides.

As in Kafka's ConfigAdminManager, the broker rejects invalid requests, and sets log levels itself, because
they belong to this process. A request for configs of a single broker must be sent to that broker: only that
broker knows its static configs, and it also checks the cluster-wide defaults by them. The remaining resources
are forwarded to the controller. The answers are in the request's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from penstock.broker.control.config_permissions import config_refusal, has_configs
from penstock.broker.control.host import ControlHost
from penstock.broker.setup import loggers
from penstock.metadata.configs.reference import listener_of
from penstock.metadata.controller.configs import (
    AlterOp,
    ConfigChange,
    check_form,
    check_node_id,
    check_own_broker,
)
from penstock.metadata.controller.state import Refusal, repeated
from penstock.metadata.image import ResourceType
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.security.acls import Operation
from penstock.security.tls.errors import InvalidTls

if TYPE_CHECKING:
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.network.context import RequestContext
    from penstock.broker.setup.host import NodeHost
    from penstock.broker.tls.listeners import NodeTls
    from penstock.security.permissions import Permissions

Request: TypeAlias = AlterConfigsRequest | IncrementalAlterConfigsRequest
Response: TypeAlias = AlterConfigsResponse | IncrementalAlterConfigsResponse
Resource: TypeAlias = (
    AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
)
Answer = TypeVar(
    "Answer",
    AlterConfigsResponse.AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
)


class Outcome(NamedTuple):
    """The result for one resource."""

    code: ErrorCode
    message: str | None


DONE = Outcome(ErrorCode.NONE, None)


class ConfigHost(ControlHost, Protocol):
    """A broker that forwards changes of configs to the controller."""

    forwarding: Forwarding
    tls: NodeTls


async def change_configs(host: ConfigHost, request: Request, context: RequestContext) -> list[Outcome]:
    """Return one outcome for each of the request's resources, in their order."""
    duplicates = set(repeated((r.resource_type, r.resource_name) for r in request.resources))
    outcomes = [
        _judge(host, request, resource, duplicates, context.permissions) for resource in request.resources
    ]
    left = [resource for resource, outcome in zip(request.resources, outcomes, strict=True) if not outcome]
    if not left:
        return [outcome for outcome in outcomes if outcome]
    request.resources = left  # type: ignore[assignment]  # all are of the kind that this request has
    decided = iter(await _decided(host, request, context))
    return [outcome or next(decided) for outcome in outcomes]


def answers(make: type[Answer], resources: Iterable[Resource], outcomes: Iterable[Outcome]) -> list[Answer]:
    """Convert the outcomes to the response's entries."""
    return [
        make(
            error_code=outcome.code,
            error_message=outcome.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]


async def _decided(host: ConfigHost, request: Request, context: RequestContext) -> Sequence[Outcome]:
    """Return the controller's answers, in the order of the request's resources."""
    try:
        answer = await host.forwarding.forward(request, context)
    except KafkaError as error:
        return [Outcome(error.code, error.message)] * len(request.resources)
    if isinstance(answer, bytes):
        of_legacy = isinstance(request, AlterConfigsRequest)
        response_type = AlterConfigsResponse if of_legacy else IncrementalAlterConfigsResponse
        answer, _ = response_type.decode(context.api_version, answer)
    assert isinstance(answer, AlterConfigsResponse | IncrementalAlterConfigsResponse)
    of_resource = {
        (r.resource_type, r.resource_name): Outcome(ErrorCode.of(r.error_code), r.error_message)
        for r in answer.responses
    }
    silent = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller's answer has no entry for this resource")
    return [of_resource.get((r.resource_type, r.resource_name), silent) for r in request.resources]


def _judge(
    host: ConfigHost,
    request: Request,
    resource: Resource,
    duplicates: set[tuple[int, str]],
    permissions: Permissions,
) -> Outcome | None:
    """Return the outcome if it is decided here; None if the controller decides."""
    if (resource.resource_type, resource.resource_name) in duplicates:
        return Outcome(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    changes = _changes(resource)
    try:
        check_form(changes)
        replaces = isinstance(resource, AlterConfigsRequest.AlterConfigsResource)
        if not has_configs(resource.resource_type) or (replaces and is_of_loggers(resource)):
            raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
        if is_of_loggers(resource):
            return set_log_levels(
                host, resource, permissions, Operation.ALTER_CONFIGS, validate_only=request.validate_only
            )
        if resource.resource_type == ResourceType.BROKER:
            now = host.image.configs.of(ResourceType.BROKER, resource.resource_name)
            then = check_own_broker(host.config, now, resource.resource_name, changes, replaces=replaces)
            host.tls.check(then, set(filter(None, (listener_of(change.name) for change in changes))))
    except Refusal as refusal:
        return Outcome(refusal.code, refusal.message)
    except InvalidTls as error:
        return Outcome(ErrorCode.INVALID_REQUEST, str(error))
    return None


def _changes(resource: Resource) -> list[ConfigChange]:
    if isinstance(resource, AlterConfigsRequest.AlterConfigsResource):
        return [ConfigChange(c.name, AlterOp.SET, c.value) for c in resource.configs]
    return [ConfigChange(c.name, c.config_operation, c.value) for c in resource.configs]


def is_of_loggers(resource: Resource) -> bool:
    return bool(resource.resource_type == ResourceType.BROKER_LOGGER)


def set_log_levels(
    host: NodeHost,
    resource: Resource,
    permissions: Permissions,
    operation: Operation,
    *,
    validate_only: bool,
) -> Outcome:
    """Set levels of this process's loggers, on a broker or on a controller.

    ``operation`` is what the client must be allowed to do on the cluster: as in Kafka, a broker asks for
    ALTER_CONFIGS and a controller for CLUSTER_ACTION.
    """
    refused = config_refusal(permissions, operation, resource.resource_type, resource.resource_name)
    if refused is not None:
        return Outcome(refused, refused.default_message)
    changes = _changes(resource)
    try:
        expected = "Unexpected node id. Expected {0}, but received {1}"
        check_node_id(host.node_id, resource.resource_name, expected)
        loggers.check(changes)
    except Refusal as refusal:
        return Outcome(refusal.code, refusal.message)
    if not validate_only:
        loggers.apply(changes)
    return DONE
