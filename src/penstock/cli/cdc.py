"""`penstock cdc mirror`: keep the tables of a lakehouse equal to a PostgreSQL database."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.connection import (
    EXIT_USAGE,
    CommandConfig,
    client_settings,
    fail,
    read_properties,
    require_broker,
)
from penstock.cli.extras import require_packages, require_spark_version
from penstock.cli.output import print_note, print_warning

if TYPE_CHECKING:
    from penstock.mirroring import Mirror, MirrorSettings

app = typer.Typer(name="cdc", help="Capture the changes of databases.", no_args_is_help=True)

_REQUIRED: Final = ("psycopg", "starlette", "uvicorn", "regex", "pyspark", "pyarrow")
_WRITERS: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
_STATE: Final = Path("penstock-mirror")
_LOOK_S: Final = 0.2
_PROGRESS_EVERY_S: Final = 10.0
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_IN_USE: Final = "in use by another node"
_PREDECESSOR_S: Final = 30.0
"""How long the node of a mirror that was killed may take to stop."""
_RETENTION: Final = {"log.retention.hours": "168"}
"""Kafka's own retention of topics; the node's is unlimited otherwise, since it is made for tests."""


@app.callback()
def _group() -> None:
    """Keeps `mirror` a separate command."""


@app.command()
def mirror(
    database: Annotated[
        str, typer.Argument(metavar="URL", help="postgres://USER:PASSWORD@HOST:PORT/DATABASE")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="delta:PATH, with a directory PATH/SCHEMA/TABLE for each table, or iceberg:CATALOG.",
        ),
    ],
    tables: Annotated[
        list[str],
        typer.Option(
            "--tables", metavar="PATTERN", help="The tables, as SCHEMA.TABLE with * and ?; repeatable."
        ),
    ],
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN", help="Leave these tables out; repeatable."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="SCHEMA.TABLE=COLUMN,…",
            help="The columns that identify a row of a table without primary key; repeatable.",
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop once the tables have all that is committed now.")
    ] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT,…",
            help="Use this cluster, ours or Apache Kafka's, instead of a node that runs as long as this "
            "command does.",
        ),
    ] = None,
    state: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="The directory of the node's data, the checkpoint and the logs; keep it."
        ),
    ] = _STATE,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The checkpoint of the query. Default: below --state."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The first part of topics' names. Default: the database's name."),
    ] = None,
    slot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The replication slot. Default: penstock_NAME."),
    ] = None,
    publication: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The publication. Default: penstock_NAME."),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="How often the tables are written."),
    ] = 2.0,
    command_config: CommandConfig = None,
) -> None:
    """Keep Delta or Iceberg tables equal to the tables of a PostgreSQL database.

    The first run copies all rows. Then each change follows, in order and once, also through crashes. A run
    continues where the one before has ended.
    """
    kind = to.partition(":")[0]
    writer = [_WRITERS[kind]] if kind in _WRITERS else []
    require_packages([*_REQUIRED, *writer], f"cdc,{kind if writer else 'delta'}", "a mirror")
    require_spark_version("a mirror needs")
    from penstock.mirroring import MirrorError
    from penstock.mirroring.database import Database
    from penstock.mirroring.mirror import MirrorSettings
    from penstock.mirroring.selection import Selection
    from penstock.mirroring.tables import Place

    try:
        source = Database.of(database)
        selection = Selection.of(tables, exclude or (), keys or ())
        place = Place.of(to)
    except MirrorError as error:
        fail(str(error), EXIT_USAGE)
    name = name or re.sub(r"[^a-z0-9_]", "_", source.name.lower())
    if not _NAME.fullmatch(name):
        fail(f"--name {name}: expected lower case letters, digits and _", EXIT_USAGE)
    try:
        source.check(selection)  # fail before anything is started
        state.mkdir(mode=0o700, parents=True, exist_ok=True)  # the node's data are those of the tables
        with _cluster(bootstrap, state, command_config) as (servers, revive):
            settings = MirrorSettings(
                source,
                place,
                selection,
                name,
                servers,
                state,
                slot or f"penstock_{name}",
                publication or f"penstock_{name}",
                checkpoint,
                interval,
                read_properties(command_config),
                client_settings(servers, command_config),
            )
            _run(settings, revive, once=once)
    except MirrorError as error:
        fail(str(error))


@contextmanager
def _cluster(
    bootstrap: str | None, state: Path, command_config: Path | None
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of the cluster, and a function that starts its node again if it has ended."""
    if bootstrap is not None:
        require_broker(bootstrap, read_properties(command_config))
        yield bootstrap, lambda: None
        return
    from penstock.testing import Cluster, ClusterError

    cluster = Cluster(_RETENTION, data_dir=state / "node", fork=False)
    deadline_s = time.monotonic() + _PREDECESSOR_S
    while not cluster.is_running:
        try:
            cluster.start()
        except ClusterError as error:
            if _IN_USE not in str(error) or time.monotonic() > deadline_s:
                fail(str(error))

    def revive() -> None:
        if not cluster.is_running:
            print_note("the node has ended, and is started again")
            cluster.kill()
            try:
                cluster.start()
            except ClusterError as error:
                fail(str(error))

    with cluster:
        print_note(f"node ready on {cluster.bootstrap_servers}")
        yield cluster.bootstrap_servers, revive


def _run(settings: MirrorSettings, revive: Callable[[], None], *, once: bool) -> None:
    """Run the mirror until it is told to stop, or has caught up."""
    from penstock.mirroring import Mirror
    from penstock.spark.launching.background import SessionInBackground

    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    settings.state.mkdir(parents=True, exist_ok=True)
    log = settings.state / "spark.log"
    with SessionInBackground(f"mirror {settings.name}", log_file=log, own_process_group=True) as spark:
        mirror = Mirror(settings, spark.session, print_note, print_warning)
        with closing(mirror), suppress(_Stopped):
            found = mirror.start()
            print_note(f"mirroring {len(found)} tables of {settings.database} to {settings.place}")
            if once:
                _catch_up(mirror, revive, stopping)
            else:
                _follow(mirror, revive, stopping)
    print_note("the mirror has stopped")


class _Stopped(Exception):
    """The user ends the command."""


def _catch_up(mirror: Mirror, revive: Callable[[], None], stopping: threading.Event) -> None:
    def look() -> None:
        if stopping.is_set():
            raise _Stopped
        revive()
        mirror.look()

    mirror.catch_up(look)
    mirror.apply_once(look)
    print_note(f"caught up: {_figures(mirror)}")


def _follow(mirror: Mirror, revive: Callable[[], None], stopping: threading.Event) -> None:
    mirror.start_tables()
    shown_s, shown = time.monotonic(), -1
    while not stopping.wait(_LOOK_S):
        revive()
        mirror.look()
        if time.monotonic() - shown_s >= _PROGRESS_EVERY_S and mirror.applied.total != shown:
            shown_s, shown = time.monotonic(), mirror.applied.total
            print_note(_figures(mirror))


def _figures(mirror: Mirror) -> str:
    applied, lag = mirror.applied, mirror.slot_lag_bytes()
    figures = f"changes={applied.total} batches={applied.batches} tables={len(applied.changes)}"
    return figures if lag is None else f"{figures} slot_lag_bytes={lag}"
