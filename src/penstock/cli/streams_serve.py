"""`penstock streams serve`: serve an application's stores over HTTP, from a separate process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.app_file import AppFileError, load_app
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
from penstock.cli.output import print_note
from penstock.client.settings import ConfigError
from penstock.streams import StreamsError

_REQUIRED = ("pyarrow", "starlette", "uvicorn")


def serve(
    file: Annotated[Path, typer.Argument(metavar="APP.py", help="The file that defines the application.")],
    name_of_app: Annotated[
        str | None,
        typer.Option(
            "--app",
            metavar="NAME",
            help="The App in the file, by its variable or its name. Default: the only one.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="The address to listen on; 0.0.0.0 also needs --advertised."),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(metavar="PORT", min=0, max=65535, help="The port to listen on; 0 selects a free one."),
    ] = 8066,
    advertised: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The URL by which other nodes reach this one: http(s)://HOST:PORT."),
    ] = None,
    store: Annotated[
        list[str] | None,
        typer.Option("--store", metavar="NAME", help="Only serve this store; repeatable. Default: all."),
    ] = None,
    standbys: Annotated[
        int, typer.Option(metavar="N", min=0, help="The number of additional nodes that hold each partition.")
    ] = 1,
    session_timeout_ms: Annotated[
        int, typer.Option(metavar="MS", min=1, help="Remove a node that has sent no heartbeat for this long.")
    ] = 10_000,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="A file with the properties of the HTTP server: TLS and authentication (docs/security.md).",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Answer queries of an application's stores over HTTP (docs/streams-queries.md).

    Follows the changelogs, so it shows committed data whether or not the application is running. If several
    processes run, they share the partitions and answer for each other.
    """
    require_packages(_REQUIRED, "queries", "serving stores")
    from penstock.views.server import ViewServer

    properties, server_properties = read_properties(command_config), read_properties(config, "--config")
    try:
        application = load_app(file, name_of_app)[0]
        server = ViewServer(
            application.topology(),
            bootstrap_servers=bootstrap,
            host=host,
            port=port,
            advertised=advertised,
            standbys=standbys,
            session_timeout_ms=session_timeout_ms,
            stores=store,
            properties=properties,
            server_properties=server_properties,
        )
    except (AppFileError, ConfigError, StreamsError) as error:
        fail(str(error), EXIT_USAGE)
    except OSError as error:
        fail(str(error))
    require_broker(bootstrap, properties)
    names = ", ".join(viewed.name for viewed in server.views.viewed) or "none"
    print_note(f"{application.name} is served at {server.endpoint}; stores: {names}")
    server.run()
    print_note(f"{application.name} is no longer served")
