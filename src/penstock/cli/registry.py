"""`penstock registry`: run a schema registry on any Kafka cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    fail,
    read_properties,
    require_broker,
)
from penstock.cli.extras import require_packages
from penstock.cli.log_options import LogFormat, LogFormatOption, LogLevel, LogLevelOption
from penstock.cli.output import print_note
from penstock.cli.server_properties import server_properties, split_address
from penstock.client.errors import ClientError
from penstock.client.settings import ConfigError
from penstock.processes.registry import READY

app = typer.Typer(name="registry", help="Run a schema registry.", no_args_is_help=True)

_REQUIRED: Final = ("starlette", "uvicorn", "google.protobuf", "referencing", "jsonschema_specifications")


@app.callback()
def _group() -> None:
    """Keeps `start` a separate command."""


@app.command()
def start(
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The address to listen on, instead of the file's listeners; port 0 selects a free port. "
            "Default: 127.0.0.1:8081.",
        ),
    ] = None,
    advertised: Annotated[
        str | None,
        typer.Option(
            "--advertised", metavar="HOST", help="The host name by which other instances reach this one."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A file like Confluent's schema-registry.properties."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a configuration of the registry; repeatable."),
    ] = None,
    log_level: LogLevelOption = LogLevel.WARN,
    log_format: LogFormatOption = LogFormat.TEXT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Serve Confluent's schema registry API from the topic _schemas (docs/registry.md).

    It works with any Kafka cluster. If several instances run, one leads and the others forward writes to it.
    """
    require_extra()
    from penstock.broker.setup.log_format import configure as configure_log
    from penstock.registry.api.server import RegistryServer

    configure_log(log_level, log_format)
    properties = _properties(config, settings or [], bootstrap, command_config)
    host, port = (None, None) if listen is None else split_address(listen)
    try:
        server = RegistryServer(properties, host=host, port=port, advertised=advertised)
    except ConfigError as error:
        fail(str(error), EXIT_USAGE)
    except OSError as error:
        fail(str(error))
    servers = properties["kafkastore.bootstrap.servers"]
    require_broker(servers, properties)
    from penstock.registry.store.image import Broken

    try:
        server.prepare()
    except (ConfigError, ClientError, Broken, TimeoutError) as error:
        fail(f"the registry can't start with the cluster at {servers}: {error}")
    print_note(f"{READY}{server.url}")
    server.run()
    print_note("the schema registry has stopped")


def require_extra() -> None:
    """End the command if the registry's packages are not installed."""
    require_packages(_REQUIRED, "registry", "a schema registry")


def _properties(
    file: Path | None, settings: list[str], bootstrap: str, command_config: Path | None
) -> dict[str, str]:
    """The file's properties, overridden by those of the command line."""
    clients = {f"kafkastore.{name}": value for name, value in read_properties(command_config).items()}
    found = server_properties(file, clients, settings)
    if file is None or bootstrap != DEFAULT_BOOTSTRAP:
        found["kafkastore.bootstrap.servers"] = bootstrap
    found.setdefault("kafkastore.bootstrap.servers", bootstrap)
    return found
