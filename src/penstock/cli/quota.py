"""`penstock quota`: set, list and delete the quotas of clients."""

import math
from collections.abc import Sequence
from typing import Annotated, Final

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
from penstock.cli.output import Json, print_json, print_table
from penstock.client.admin.quotas import EntityQuotas, alter_quotas, describe_quotas, entity_text

app = typer.Typer(help="Set, list and delete the quotas of clients.", no_args_is_help=True)

USER_AND_CLIENT_KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
IP_KEYS: Final = ("connection_creation_rate",)
DEFAULT_NAME: Final = "<default>"
"""How tables show the default of a type of entity, as Kafka's tools do."""

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user.")]
DefaultUser = Annotated[
    bool, typer.Option("--user-default", help="Each user who has no quota of the same kind.")
]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="The client id.")]
DefaultClientId = Annotated[
    bool, typer.Option("--client-id-default", help="Each client id that has no quota of the same kind.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="The IP address, or a host's name.")]
DefaultIp = Annotated[bool, typer.Option("--ip-default", help="Each IP address that has no quota.")]


@app.command("set")
def set_quotas(
    quotas: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE",
            help=f"Keys of users and client ids: {', '.join(USER_AND_CLIENT_KEYS)}. Key of IP addresses: "
            f"{', '.join(IP_KEYS)}.",
        ),
    ],
    user: User = None,
    user_default: DefaultUser = False,
    client_id: ClientId = None,
    client_id_default: DefaultClientId = False,
    ip: Ip = None,
    ip_default: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Set quotas of a user, a client id, both together, or an IP address; others of the same stay.

    The byte rates are bytes per second at each broker. request_percentage is a share of a broker's time.
    controller_mutation_rate is partitions created and deleted per second, and connection_creation_rate new
    connections per second at each broker.
    """
    entity = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    _check_entity(entity)
    values = dict(_parsed(entity, quota) for quota in quotas)
    with open_cluster(bootstrap, command_config) as cluster:
        alter_quotas(cluster, entity, values)
    _show([EntityQuotas(entity, values)], json_output)


@app.command("list")
def list_quotas(
    user: User = None,
    user_default: DefaultUser = False,
    client_id: ClientId = None,
    client_id_default: DefaultClientId = False,
    ip: Ip = None,
    ip_default: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List quotas: all, or those that name this user, client id or IP address."""
    names = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    with open_cluster(bootstrap, command_config) as cluster:
        found = describe_quotas(cluster, names)
    _show(found, json_output)


@app.command()
def delete(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]", help="Only these quotas. Default: all.")
    ] = None,
    user: User = None,
    user_default: DefaultUser = False,
    client_id: ClientId = None,
    client_id_default: DefaultClientId = False,
    ip: Ip = None,
    ip_default: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Delete the quotas of a user, a client id, both together, or an IP address, and print what they were."""
    entity = _entity(user, user_default, client_id, client_id_default, ip, ip_default)
    _check_entity(entity)
    for key in keys or ():
        _check_key(entity, key)
    with open_cluster(bootstrap, command_config) as cluster:
        found = describe_quotas(cluster, entity, strict=True)
        values = {
            key: value for quotas in found for key, value in quotas.values.items() if not keys or key in keys
        }
        if not values:
            fail(f"{entity_text(entity)} has no {' or '.join(keys or ['quota'])}")
        alter_quotas(cluster, entity, dict.fromkeys(values))
    _show([EntityQuotas(entity, values)], json_output)


def _entity(
    user: str | None,
    user_default: bool,
    client_id: str | None,
    client_id_default: bool,
    ip: str | None,
    ip_default: bool,
) -> dict[str, str | None]:
    """The types and names that the options give. The name None is the default."""
    entity: dict[str, str | None] = {}
    for kind, name, is_default in (
        ("user", user, user_default),
        ("client-id", client_id, client_id_default),
        ("ip", ip, ip_default),
    ):
        if name is not None and is_default:
            fail(f"give --{kind} or --{kind}-default, not both", EXIT_USAGE)
        if name == "":
            fail(f"--{kind} must not be empty; --{kind}-default stands for the default", EXIT_USAGE)
        if name is not None or is_default:
            entity[kind] = name
    if "ip" in entity and len(entity) > 1:
        fail("--ip has quotas of its own: give it without --user and --client-id", EXIT_USAGE)
    return entity


def _check_entity(entity: dict[str, str | None]) -> None:
    if not entity:
        fail("give --user, --client-id or --ip, or a default, as --user-default", EXIT_USAGE)


def _check_key(entity: dict[str, str | None], key: str) -> None:
    known = IP_KEYS if "ip" in entity else USER_AND_CLIENT_KEYS
    if key not in known:
        fail(f"unknown quota {key!r} of {entity_text(entity)}: expected {', '.join(known)}", EXIT_USAGE)


def _parsed(entity: dict[str, str | None], text: str) -> tuple[str, float]:
    """The key and the value of an argument."""
    key, is_set, number = text.partition("=")
    if not is_set:
        fail(f"expected KEY=VALUE, found {text!r}", EXIT_USAGE)
    _check_key(entity, key)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not value > 0:
        fail(f"{key}: expected a number above 0, found {number!r}", EXIT_USAGE)
    return key, value


def _show(found: Sequence[EntityQuotas], json_output: bool) -> None:
    if json_output:
        rows: list[Json] = [
            {"entity": quotas.entity, "quotas": {key: _number(value) for key, value in quotas.values.items()}}
            for quotas in found
        ]
        print_json(rows)
        return
    print_table(
        ["USER", "CLIENT ID", "IP", "QUOTA", "VALUE"],
        [
            [*(_name(quotas, kind) for kind in ("user", "client-id", "ip")), key, _number(value)]
            for quotas in found
            for key, value in quotas.values.items()
        ],
    )


def _name(quotas: EntityQuotas, kind: str) -> str | None:
    """The name of an entity's type in a table; None if the entity has no such type."""
    return (quotas.entity[kind] or DEFAULT_NAME) if kind in quotas.entity else None


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value
