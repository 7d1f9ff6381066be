"""`penstock`: one command with many subcommands; only the module of the called one is imported.

A node should be ready within a second, while most other commands are clients that load librdkafka or Spark.
The table is therefore text: the overall help comes from here, the help of a command from its module.
"""

import importlib
import sys
from typing import Annotated, NoReturn

import typer
from typer.completion import completion_init

from penstock.cli.completion import PROGRAM, words_to_complete
from penstock.cli.usage_errors import Commands
from penstock.extras import MissingExtra

# Name: (module, its function or group of commands, summary).
COMMANDS = {
    "start": ("penstock.cli.start", "start", "Run a node."),
    "storage": ("penstock.cli.storage", "app", "Format the log directories of a node."),
    "topic": ("penstock.cli.topic", "app", "Create, list, describe, alter and delete topics."),
    "produce": ("penstock.cli.produce", "produce", "Write records to a topic."),
    "consume": ("penstock.cli.consume", "consume", "Read records of topics."),
    "group": ("penstock.cli.group", "app", "List, describe, reset and delete consumer groups."),
    "txn": ("penstock.cli.txn", "app", "List, describe and abort transactions."),
    "acl": ("penstock.cli.acl", "app", "Add, list and remove access control lists (ACLs)."),
    "user": ("penstock.cli.user", "app", "Create, list and delete users with passwords (SCRAM)."),
    "quota": ("penstock.cli.quota", "app", "Set, list and delete the quotas of clients."),
    "token": ("penstock.cli.token", "app", "Create, list, renew and expire delegation tokens."),
    "cluster": (
        "penstock.cli.cluster",
        "app",
        "Show a cluster's health, move partitions, change the quorum.",
    ),
    "registry": ("penstock.cli.registry", "app", "Run a schema registry."),
    "schema": ("penstock.cli.schema", "app", "List, show, register, check and delete schemas."),
    "connect": ("penstock.cli.connect", "app", "Run workers of connectors."),
    "connector": (
        "penstock.cli.connector",
        "app",
        "List, create, check, control and delete connectors.",
    ),
    "cdc": ("penstock.cli.cdc", "app", "Mirror a PostgreSQL database to Delta or Iceberg tables."),
    "streams": ("penstock.cli.streams", "app", "Run, describe and reset streams applications."),
    "sql": ("penstock.cli.sql", "app", "Open a SQL shell, or run the SQL server."),
    "log": ("penstock.cli.log", "app", "Dump and verify log directories."),
    "config": ("penstock.cli.config", "app", "Describe and alter configurations."),
    "bench": ("penstock.cli.bench", "bench", "Measure throughput and latency of a node."),
    "demo": (
        "penstock.cli.demo",
        "app",
        "Run a streams application over real flights and check the result.",
    ),
    "completion": ("penstock.cli.completion", "completion", "Print a script for completion in a shell."),
}


def build_app(called: str | None) -> typer.Typer:
    """The whole command line: the called command in full, the others by name and summary only."""
    app = typer.Typer(
        name=PROGRAM,
        cls=Commands,
        help="Event streaming for Python and Spark, with the log and the protocol of Apache Kafka.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_whole)
    for name, (module_name, attribute, summary) in COMMANDS.items():
        if name != called:
            app.command(name, help=summary)(_not_called)
            continue
        command = getattr(importlib.import_module(module_name), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _not_called() -> None:
    """Placeholder for the commands that are not called."""


def _show_version(wanted: bool) -> None:
    if wanted:
        # This imports email and zipfile: 10 ms that other commands save.
        from importlib.metadata import version

        from penstock.protocol.kernels import IMPLEMENTATION

        typer.echo(f"penstock {version('penstock')} (kernels: {IMPLEMENTATION})")
        raise typer.Exit


def _whole(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and the kind of kernels, and exit.",
        ),
    ] = False,
) -> None:
    """Options of the whole command line: only --version."""


def _end(error: MissingExtra) -> NoReturn:
    """End a command whose imports have found that packages of an extra are missing."""
    # Every command would wait for the import of these.
    from penstock.cli.connection import EXIT_REFUSED
    from penstock.cli.output import print_error

    print_error(str(error))
    sys.exit(EXIT_REFUSED)


def main() -> None:
    """Entry point of the `penstock` script."""
    words = words_to_complete()
    if words is not None:
        completion_init()
    called = next((word for word in words or sys.argv[1:] if not word.startswith("-")), None)
    try:
        build_app(called)(prog_name=PROGRAM)
    except MissingExtra as error:
        _end(error)


if __name__ == "__main__":
    main()
