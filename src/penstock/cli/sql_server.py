"""`penstock sql server`: ksqlDB's REST API on any Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.config import parse_assignments
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    fail,
    read_properties,
    require_broker,
)
from penstock.cli.extras import require_packages, require_spark_version
from penstock.cli.log_options import LogFormat, LogFormatOption, LogLevel, LogLevelOption
from penstock.cli.output import print_note
from penstock.cli.server_properties import split_address
from penstock.client.errors import ClientError
from penstock.client.settings import ConfigError

if TYPE_CHECKING:
    from penstock.sql.engine import EngineConfig, QueryHost

DEFAULT_LISTEN: Final = "127.0.0.1:8088"
_LOGGING: Final = {
    "ksql.logging.processing.topic.auto.create": "true",
    "ksql.logging.processing.stream.auto.create": "true",
}
"""The logging properties of the configuration that ksqlDB ships with."""

_REQUIRED: Final = (
    *("starlette", "uvicorn", "httptools", "h2", "sqlglot", "pyspark", "pandas", "pyarrow"),
    *("google.protobuf", "referencing", "jsonschema_specifications"),
)


def server(
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The address to listen on, instead of the property listeners; port 0 selects a free port. "
            f"Default: {DEFAULT_LISTEN}.",
        ),
    ] = None,
    service_id: Annotated[
        str,
        typer.Option(
            "--service-id",
            metavar="ID",
            help="The service that owns the statements (ksql.service.id); its topics' names contain it.",
        ),
    ] = "default_",
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            envvar="PENSTOCK_REGISTRY",
            metavar="URL",
            help="The schema registry, for AVRO, JSON_SR and PROTOBUF.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path,
        typer.Option(
            "--checkpoint", metavar="DIR", help="The directory for the state and progress of queries."
        ),
    ] = Path("sql-checkpoint"),
    master: Annotated[
        str,
        typer.Option(
            "--master", metavar="URL", help="Spark's master: local[*], spark://HOST:PORT, yarn or k8s://URL."
        ),
    ] = "local[*]",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set a property of ksqlDB or of clients; repeatable."
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            "--tls-certificate",
            metavar="FILE",
            help="Serve HTTPS with the certificate chain in this PEM file.",
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--tls-key", metavar="FILE", help="The certificate's private key, if its file contains none."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Append Spark's output to this file, or /dev/stderr. Default: a temporary file.",
        ),
    ] = None,
    port_file: Annotated[
        Path | None,
        typer.Option(
            "--port-file", metavar="FILE", help="Write the port to this file once the server is ready."
        ),
    ] = None,
    log_level: LogLevelOption = LogLevel.WARN,
    log_format: LogFormatOption = LogFormat.TEXT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Serve ksqlDB's REST API; its queries run on Spark (docs/sql-server.md).

    It works with any Kafka cluster. Statements are stored in a topic of the cluster and resume after a
    restart. A second server of the same service takes over from the first.
    """
    require_packages(_REQUIRED, "sql", "a SQL server")
    require_spark_version("a SQL server needs")
    from penstock.broker.setup.log_format import configure as configure_log
    from penstock.spark.launching.java import JavaNotFound
    from penstock.spark.launching.session import log_for_command
    from penstock.sql.engine import Engine, EngineConfig, EngineError
    from penstock.sql.server.server import SqlServer
    from penstock.streams import StreamsError

    configure_log(log_level, log_format)
    properties = {**_LOGGING, **_properties(settings or [], command_config)}
    address, port = (None, None) if listen is None else split_address(listen)
    if key is not None and certificate is None:
        fail("--tls-key: expected --tls-certificate with it", EXIT_USAGE)
    require_broker(bootstrap, properties)
    try:
        config = EngineConfig(bootstrap, service_id, registry, properties, listen or _listens_at(properties))
        config.server_properties  # noqa: B018  # what is wrong with them is told before Spark is started
    except (ConfigError, EngineError) as error:
        fail(str(error), EXIT_USAGE)
    log = log_for_command("sql-server", log)
    if log is not None:
        print_note(f"Spark's output goes to {log}")
    try:
        host = build_host(config, checkpoint, master, log)
    except (ConfigError, ClientError, JavaNotFound, StreamsError) as error:
        fail(f"the SQL server can't start with the cluster at {bootstrap}: {error}")
    try:
        engine = Engine(config, host)
        made = SqlServer(engine, host=address, port=port, certificate=certificate, key=key)
    except (OSError, ConfigError) as error:
        host.close()
        fail(str(error))
    try:
        made.prepare()
    except (ConfigError, ClientError, EngineError, TimeoutError) as error:
        fail(f"the SQL server can't start with the cluster at {bootstrap}: {error}")
    if port_file is not None:
        unfinished = port_file.with_name(f"{port_file.name}.tmp")
        unfinished.write_text(f"{made.port}\n")
        # The rename is atomic, so that the file always contains the port.
        unfinished.replace(port_file)
    print_note(f"the SQL server is ready at {made.url}")
    made.run()
    print_note("the SQL server has stopped")


def _listens_at(properties: Mapping[str, str]) -> str:
    """The address of the server by which answers name it."""
    return properties.get("listeners", DEFAULT_LISTEN).partition("://")[2] or DEFAULT_LISTEN


def build_host(config: EngineConfig, checkpoint: Path, master: str, log: Path | None) -> QueryHost:
    """Start the host that runs the queries. The caller reports its errors."""
    from penstock.sql.engine.running.spark_host import SparkHost

    return SparkHost.start(config, checkpoint, master, log)


def _properties(settings: list[str], command_config: Path | None) -> dict[str, str]:
    """The file's properties, overridden by those of the command line."""
    return read_properties(command_config) | parse_assignments(settings)
