"""`penstock config`: show and change the configuration of topics, brokers and groups."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    admin_client,
    fail,
    reported_errors,
    require_broker_id,
    result_of,
)
from penstock.cli.output import console, print_json, print_table
from penstock.cli.similar_names import topics_like

app = typer.Typer(help="Show and change configurations.", no_args_is_help=True)


class Kind(StrEnum):
    """The kinds of things that have a configuration."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    BROKER_LOGGER = "broker-logger"


_RESOURCE_TYPES = {
    Kind.TOPIC: ConfigResource.Type.TOPIC,
    Kind.BROKER: ConfigResource.Type.BROKER,
    Kind.GROUP: ConfigResource.Type.GROUP,
}

KindArgument = Annotated[
    Kind, typer.Argument(metavar="KIND", help="The kind of resource: topic, broker, group or broker-logger.")
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Topic name, group id, or the id of a broker.")
]


@app.command()
def describe(
    kind: KindArgument,
    name: NameArgument,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only show configurations that differ from the default.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show each configuration's value and its source; of broker-logger, the log level of each logger."""
    if kind is Kind.BROKER_LOGGER:
        from penstock.cli.broker_loggers import describe_loggers

        describe_loggers(name, changed, bootstrap, command_config, json_output)
        return
    client = admin_client(bootstrap, command_config)
    resource = _resource(client, kind, name, bootstrap)
    with reported_errors(bootstrap):
        futures = client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    found = result_of(
        futures[resource], bootstrap, f"{kind.value} {name!r}", partial(topics_like, client, name)
    )
    entries = [entry for _, entry in sorted(found.items()) if not (changed and entry.is_default)]
    if json_output:
        print_json(
            [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": ConfigSource(entry.source).name,
                    "read_only": entry.is_read_only,
                    "sensitive": entry.is_sensitive,
                }
                for entry in entries
            ]
        )
        return
    print_table(["NAME", "VALUE", "SOURCE"], [(e.name, _shown_value(e), _source(e)) for e in entries])


@app.command()
def alter(
    kind: KindArgument,
    name: NameArgument,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="Set a configuration; repeatable."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", "-d", metavar="NAME", help="Reset a configuration to its default; repeatable."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Change configurations; the others stay as they are.

    The configurations of a broker-logger are the levels (TRACE, DEBUG, INFO, WARN, ERROR, FATAL) of loggers
    such as penstock.broker, or of root. They apply until the broker restarts. A deleted level is inherited.
    """
    if not assignments and not delete:
        fail("nothing to alter: give --set NAME=VALUE or --delete NAME", EXIT_USAGE)
    values = parse_assignments(assignments or [])
    if kind is Kind.BROKER_LOGGER:
        from penstock.cli.broker_loggers import alter_loggers

        alter_loggers(name, values, delete or [], bootstrap, command_config)
    else:
        client = admin_client(bootstrap, command_config)
        _alter(client, _resource(client, kind, name, bootstrap), values, delete or [], bootstrap)
    if json_output:
        print_json({"kind": kind.value, "name": name, "altered": True})
    else:
        console().print(f"altered {kind.value} {name}")


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """Parse `["a=1", "b=x=y"]` into `{"a": "1", "b": "x=y"}`; a text without `=` ends the command."""
    values: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            fail(f"expected NAME=VALUE, found {assignment!r}", EXIT_USAGE)
        values[name.strip()] = value
    return values


def set_topic_configs(
    client: AdminClient, topic: str, values: dict[str, str], delete: Sequence[str], bootstrap: str
) -> None:
    """Change a topic's configurations and keep the others (IncrementalAlterConfigs, KIP-339)."""
    _alter(client, ConfigResource(ConfigResource.Type.TOPIC, topic), values, delete, bootstrap)


def _alter(
    client: AdminClient,
    resource: ConfigResource,
    values: dict[str, str],
    delete: Sequence[str],
    bootstrap: str,
) -> None:
    for name, value in values.items():
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    for name in delete:
        resource.add_incremental_config(
            ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
        )
    with reported_errors(bootstrap):
        futures = client.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    for future in futures.values():
        result_of(
            future,
            bootstrap,
            f"{resource.restype.name.lower()} {resource.name!r}",
            partial(topics_like, client, resource.name),
        )


def _resource(client: AdminClient, kind: Kind, name: str, bootstrap: str) -> ConfigResource:
    """The named resource.

    Ends the command for an unknown broker, which a client would await until its timeout.
    """
    if kind is Kind.BROKER:
        with reported_errors(bootstrap):
            brokers = client.list_topics(timeout=REQUEST_TIMEOUT_S).brokers
        require_broker_id(name, brokers)
    return ConfigResource(_RESOURCE_TYPES[kind], name)


def _shown_value(entry: ConfigEntry) -> str | None:
    return "(hidden)" if entry.is_sensitive else entry.value


def _source(entry: ConfigEntry) -> str:
    return ConfigSource(entry.source).name.removesuffix("_CONFIG").lower().replace("_", " ")
