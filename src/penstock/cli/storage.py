"""`penstock storage`: format the log directories of a node, and show their state."""

import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from penstock.broker.setup.storage_format import CannotFormat, FormatOptions, format_storage, storage_info
from penstock.cli.start import EXIT_CONFIG, EXIT_FAILED, read_config
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.storage.directories.meta_properties import random_id
from penstock.storage.errors import LogDirectoryError

app = typer.Typer(
    help="Format the log directories of a node, as kafka-storage.sh does. A single node doesn't need it.",
    no_args_is_help=True,
)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="A file like Kafka's server.properties.")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="The data directories, separated by commas (log.dirs)."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a broker configuration; repeatable."),
]


@app.command("format")
def format_directories(
    cluster_id: Annotated[
        str,
        typer.Option(
            "--cluster-id", "-t", metavar="ID", help="The id of the cluster that the node belongs to."
        ),
    ],
    config: ConfigFile = None,
    data_dir: DataDir = None,
    settings: Settings = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="Make this node the only initial voter.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY,…",
            help="The initial voters; give the same value on every node.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option(
            "--no-initial-controllers",
            "-N",
            help="Write no voters: the node joins a quorum that exists or will exist.",
        ),
    ] = False,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", "-g", help="Skip directories that are already formatted.")
    ] = False,
    release_version: Annotated[
        str | None,
        typer.Option(
            "--release-version", "-r", metavar="X.Y", help="The Kafka release whose feature levels to use."
        ),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature", "-f", metavar="NAME=LEVEL", help="Set the initial level of a feature; repeatable."
        ),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="MECHANISM=[…]",
            help="Add a user to the new cluster: 'SCRAM-SHA-256=[name=alice,password=alice-secret]', or "
            '\'SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]\'; repeatable. '
            "Other users of the machine can see the arguments of a command while it runs.",
        ),
    ] = None,
) -> None:
    """Format the log directories of a node before its first start."""
    broker_config = _config(data_dir, config, settings)
    try:
        options = FormatOptions(
            cluster_id=cluster_id,
            standalone=standalone,
            initial_controllers=initial_controllers,
            no_initial_controllers=no_initial_controllers,
            ignore_formatted=ignore_formatted,
            release_version=release_version,
            features=dict(_feature(text) for text in feature or []),
            add_scram=add_scram or (),
        )
        for line in format_storage(broker_config, options, time.time_ns() // 1_000_000):
            print(line)
    except (CannotFormat, LogDirectoryError, OSError) as error:
        _fail(str(error), EXIT_FAILED)


@app.command()
def info(config: ConfigFile = None, data_dir: DataDir = None, settings: Settings = None) -> None:
    """Show the state of a node's log directories; exit code 1 if there is a problem with them."""
    lines, problems = storage_info(_config(data_dir, config, settings).log_dirs)
    for line in lines:
        print(line)
    if problems:
        print("Found problems:" if len(problems) > 1 else "Found problem:")
        for problem in problems:
            print(f"  {problem}")
        print()
        raise typer.Exit(EXIT_FAILED)


@app.command("random-uuid")
def random_uuid() -> None:
    """Print an id, for a cluster or a directory."""
    print(random_id())


def _config(data_dir: Path | None, file: Path | None, settings: list[str] | None) -> BrokerConfig:
    try:
        return read_config(data_dir, None, file, settings or [])
    except (InvalidConfig, ValueError) as error:
        _fail(str(error), EXIT_CONFIG)


def _feature(text: str) -> tuple[str, int]:
    name, separator, level = text.partition("=")
    if not separator or not level.strip().isdigit():
        raise CannotFormat(f"--feature {text}: expected NAME=LEVEL with a number")
    return name.strip(), int(level)


def _fail(message: str, code: int) -> NoReturn:
    print(f"penstock: {message}", file=sys.stderr)
    raise typer.Exit(code)
