"""`penstock acl`: add, list and remove access control lists (ACLs)."""

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Annotated, Final, NamedTuple

import typer

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    fail,
)
from penstock.cli.open_cluster import open_cluster
from penstock.cli.output import print_json, print_table
from penstock.client.admin.acls import create_acls, delete_acls, describe_acls
from penstock.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from penstock.security.authorizer import java_address

app = typer.Typer(help="Add, list and remove access control lists (ACLs).", no_args_is_help=True)


class OperationName(StrEnum):
    """The operations that an ACL may name."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"
    CREATE_TOKENS = "create-tokens"
    DESCRIBE_TOKENS = "describe-tokens"
    TWO_PHASE_COMMIT = "two-phase-commit"


class Pattern(StrEnum):
    """The ways in which the name of an ACL matches resources."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class PatternFilter(StrEnum):
    """The ways in which a name selects ACLs."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    ANY = "any"
    MATCH = "match"


class Role(NamedTuple):
    """The operations that a kind of client needs, by the type of resource."""

    option: str
    operations: dict[ResourceType, tuple[Operation, ...]]


PRODUCER: Final = Role(
    "--producer",
    {
        ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    },
)
CONSUMER: Final = Role(
    "--consumer",
    {
        ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
        ResourceType.GROUP: (Operation.READ,),
    },
)

OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.CLUSTER: "--cluster",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""The options that name resources, by their type."""
RESOURCE_OPTIONS: Final = (
    "--topic, --group, --transactional-id, --cluster, --delegation-token or --user-principal"
)

Resource = tuple[ResourceType, str]
Rule = tuple[ResourceType, str, Operation]
"""An operation on a resource."""
Selected = tuple[ResourceType, str | None, Operation]
"""The rules that a filter selects; None and ANY stand for all."""

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="A topic; '*' stands for all; repeatable."),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", help="A group id; '*' stands for all; repeatable."),
]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option(
        "--transactional-id", metavar="ID", help="A transactional id; '*' stands for all; repeatable."
    ),
]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
DelegationTokens = Annotated[
    list[str] | None,
    typer.Option(
        "--delegation-token", metavar="ID", help="A delegation token; '*' stands for all; repeatable."
    ),
]
UserPrincipals = Annotated[
    list[str] | None,
    typer.Option(
        "--user-principal",
        metavar="TYPE:NAME",
        help="A user as the owner of delegation tokens, such as User:alice; '*' stands for all; repeatable.",
    ),
]
Operations = Annotated[
    list[OperationName] | None,
    typer.Option(
        "--operation",
        "-o",
        metavar="OPERATION",
        case_sensitive=False,
        help=f"The operation: {', '.join(OperationName)}; repeatable.",
    ),
]
Producer = Annotated[
    bool,
    typer.Option(
        "--producer",
        help="Instead of --operation: write, describe and create topics, write and describe "
        "transactional ids.",
    ),
]
Consumer = Annotated[
    bool,
    typer.Option("--consumer", help="Instead of --operation: read and describe topics, read groups."),
]
Idempotent = Annotated[
    bool,
    typer.Option("--idempotent", help="With --producer: also idempotent-write on the cluster."),
]
Principals = Annotated[
    list[str] | None,
    typer.Option("--principal", metavar="TYPE:NAME", help="Only ACLs of this principal; repeatable."),
]
Hosts = Annotated[
    list[str] | None, typer.Option("--host", metavar="ADDRESS", help="Only ACLs of this host; repeatable.")
]
Selection = Annotated[
    PatternFilter,
    typer.Option(
        "--pattern",
        metavar="PATTERN",
        help="Which ACLs a name selects: all that apply to it (match), "
        "or those of exactly this name (literal, prefixed or any).",
    ),
]
OnlyAllow = Annotated[bool, typer.Option("--allow", help="Only ACLs that allow.")]
OnlyDeny = Annotated[bool, typer.Option("--deny", help="Only ACLs that deny.")]


@app.command()
def add(
    principal: Annotated[
        list[str],
        typer.Option(
            "--principal",
            metavar="TYPE:NAME",
            help="The principal, such as User:alice; 'User:*' stands for all; repeatable.",
        ),
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="ADDRESS", help="The IP address of the client; repeatable. Default: all."
        ),
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny the operation. Default: allow it.")] = False,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    on_cluster: OnCluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    pattern: Annotated[
        Pattern,
        typer.Option(
            "--pattern",
            metavar="PATTERN",
            help="Whether names stand for themselves (literal), or for all names that begin so (prefixed).",
        ),
    ] = Pattern.LITERAL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Allow or deny principals operations on resources.

    One ACL is added for each combination of principal, host, operation and resource. ACLs that exist stay.
    """
    resources = _resources(topic, group, transactional_id, on_cluster, delegation_token, user_principal)
    if producer or consumer or idempotent:
        rules = _rules_of_roles(resources, producer, consumer, idempotent, bool(operation) or deny)
    else:
        rules = _rules(resources, operation)
    acls = [
        Acl(
            kind,
            name,
            PatternType.LITERAL if kind is ResourceType.CLUSTER else PatternType[pattern.name],
            who,
            java_address(where),
            allowed,
            PermissionType.DENY if deny else PermissionType.ALLOW,
        )
        for kind, name, allowed in rules
        for who in _checked(principal)
        for where in host or [WILDCARD]
    ]
    with open_cluster(bootstrap, command_config) as cluster:
        create_acls(cluster, acls)
    _show(acls, json_output)


@app.command("list")
def list_acls(
    principal: Principals = None,
    host: Hosts = None,
    allow: OnlyAllow = False,
    deny: OnlyDeny = False,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    on_cluster: OnCluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    pattern: Selection = PatternFilter.MATCH,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List ACLs: all, or those that the options select."""
    resources = _resources(topic, group, transactional_id, on_cluster, delegation_token, user_principal)
    filters = _filters(
        _selected(resources, operation), principal, host, _permission(allow, deny), PatternType[pattern.name]
    )
    with open_cluster(bootstrap, command_config) as cluster:
        found = {acl for filter_ in filters for acl in describe_acls(cluster, filter_)}
    _show(sorted(found), json_output)


@app.command()
def remove(
    principal: Principals = None,
    host: Hosts = None,
    allow: OnlyAllow = False,
    deny: OnlyDeny = False,
    operation: Operations = None,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    on_cluster: OnCluster = False,
    delegation_token: DelegationTokens = None,
    user_principal: UserPrincipals = None,
    pattern: Selection = PatternFilter.LITERAL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Remove the ACLs that the options select, and print them.

    `penstock acl list` with the same options and --pattern shows them first. A removed denial allows again
    what other ACLs allow.
    """
    resources = _resources(topic, group, transactional_id, on_cluster, delegation_token, user_principal)
    permission = _permission(allow, deny)
    rules: Sequence[Selected]
    if producer or consumer or idempotent:
        rules = _rules_of_roles(resources, producer, consumer, idempotent, bool(operation) or deny)
        permission = PermissionType.ALLOW
    elif resources or principal:
        rules = _selected(resources, operation)
    else:
        fail(f"name the ACLs to remove: give --principal, {RESOURCE_OPTIONS}", EXIT_USAGE)
    filters = _filters(rules, principal, host, permission, PatternType[pattern.name])
    with open_cluster(bootstrap, command_config) as cluster:
        deleted = delete_acls(cluster, filters)
    if not deleted:
        fail("no ACL matches")
    _show(sorted(set(deleted)), json_output)


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    on_cluster: bool,
    delegation_tokens: list[str] | None,
    user_principals: list[str] | None,
) -> list[Resource]:
    named = {
        ResourceType.TOPIC: topics or [],
        ResourceType.GROUP: groups or [],
        ResourceType.TRANSACTIONAL_ID: transactional_ids or [],
        ResourceType.CLUSTER: [CLUSTER_NAME] if on_cluster else [],
        ResourceType.DELEGATION_TOKEN: delegation_tokens or [],
        ResourceType.USER: user_principals or [],
    }
    return [(kind, name) for kind, names in named.items() for name in dict.fromkeys(names)]


def _rules(resources: Sequence[Resource], operations: Sequence[OperationName] | None) -> list[Rule]:
    """Each operation on each resource, which must support it."""
    if not resources:
        fail(f"name the resources: give {RESOURCE_OPTIONS}", EXIT_USAGE)
    if not operations:
        fail("name the operations: give --operation, --producer or --consumer", EXIT_USAGE)
    for kind, _ in resources:
        possible = (Operation.ALL, *OPERATIONS[kind])
        for operation in operations:
            if Operation[operation.name] not in possible:
                expected = ", ".join(map(_shown, possible))
                fail(f"{OPTIONS[kind]} has no operation {operation}: expected {expected}", EXIT_USAGE)
    return [
        (kind, name, Operation[operation.name])
        for kind, name in resources
        for operation in dict.fromkeys(operations)
    ]


def _rules_of_roles(
    resources: Sequence[Resource], producer: bool, consumer: bool, idempotent: bool, is_contradicted: bool
) -> list[Rule]:
    """The operations that clients of these roles need on the resources."""
    roles = [role for role, is_given in ((PRODUCER, producer), (CONSUMER, consumer)) if is_given]
    kinds = {kind for kind, _ in resources}
    if is_contradicted:
        fail("--producer and --consumer allow operations: leave out --operation and --deny", EXIT_USAGE)
    if idempotent and not producer:
        fail("--idempotent belongs to --producer", EXIT_USAGE)
    if ResourceType.TOPIC not in kinds:
        fail(f"{roles[0].option} needs --topic", EXIT_USAGE)
    if consumer and ResourceType.GROUP not in kinds:
        fail("--consumer needs --group", EXIT_USAGE)
    for kind in kinds:
        if not any(kind in role.operations for role in roles):
            options = " and ".join(role.option for role in roles)
            fail(f"{OPTIONS[kind]} has no meaning with {options}", EXIT_USAGE)
    rules: list[Rule] = [
        (kind, name, operation)
        for role in roles
        for kind, name in resources
        for operation in role.operations.get(kind, ())
    ]
    if idempotent:
        rules.append((ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE))
    return list(dict.fromkeys(rules))


def _selected(resources: Sequence[Resource], operations: Sequence[OperationName] | None) -> list[Selected]:
    """Select these operations on these resources, and all if none is named."""
    named: Sequence[tuple[ResourceType, str | None]] = resources or [(ResourceType.ANY, None)]
    wanted = [Operation[operation.name] for operation in operations or ()] or [Operation.ANY]
    return [(kind, name, operation) for kind, name in named for operation in wanted]


def _filters(
    rules: Sequence[Selected],
    principals: Sequence[str] | None,
    hosts: Sequence[str] | None,
    permission: PermissionType,
    pattern: PatternType,
) -> list[AclFilter]:
    whos: list[str | None] = [*_checked(principals or ())] or [None]
    wheres: list[str | None] = [*map(java_address, hosts or ())] or [None]
    return [
        AclFilter(
            kind,
            name,
            PatternType.ANY if name is None or kind is ResourceType.CLUSTER else pattern,
            who,
            where,
            operation,
            permission,
        )
        for kind, name, operation in rules
        for who in whos
        for where in wheres
    ]


def _checked(principals: Sequence[str]) -> Sequence[str]:
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            fail(f"--principal {principal}: expected TYPE:NAME, such as User:alice", EXIT_USAGE)
    return principals


def _permission(allow: bool, deny: bool) -> PermissionType:
    if allow == deny:
        return PermissionType.ANY
    return PermissionType.ALLOW if allow else PermissionType.DENY


def _show(acls: Sequence[Acl], json_output: bool) -> None:
    rows = [
        {
            "resource": _shown(acl.resource_type),
            "name": acl.resource_name,
            "pattern": _shown(acl.pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "permission": _shown(acl.permission_type),
            "operation": _shown(acl.operation),
        }
        for acl in acls
    ]
    if json_output:
        print_json(rows)
    else:
        columns = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "PERMISSION", "OPERATION"]
        print_table(columns, [list(row.values()) for row in rows])


def _shown(value: Enum) -> str:
    return value.name.lower().replace("_", "-")
