"""`penstock connect`: run workers that move data into topics and out of them by connectors."""

from __future__ import annotations

import signal
import sys
import threading
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
from penstock.cli.server_properties import server_properties
from penstock.processes.stop_signals import stop_signals

app = typer.Typer(name="connect", help="Run workers of connectors.", no_args_is_help=True)

_REQUIRED: Final = ("starlette", "uvicorn", "regex")
_LISTEN: Final = "127.0.0.1:8083"
_JVM_LISTEN: Final = "127.0.0.1:8084"
_JVM_READY_S: Final = 180.0
_LOOK_S: Final = 0.5


@app.command()
def start(
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The address of the REST API, instead of the file's listeners; port 0 selects a free port. "
            f"Default: {_LISTEN}.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A file like Kafka's connect-distributed.properties."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a property of the worker; repeatable."),
    ] = None,
    log_level: LogLevelOption = LogLevel.WARN,
    log_format: LogFormatOption = LogFormat.TEXT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Run a worker of Kafka Connect's kind, whose connectors are Python classes.

    It works with any Kafka cluster. Workers with the same group.id share connectors and tasks.
    """
    require_extra()
    from penstock.broker.setup.log_format import configure as configure_log
    from penstock.connect import ConnectError
    from penstock.connect.worker import calm_garbage_collector
    from penstock.connect.worker import start as start_worker

    configure_log(log_level, log_format)
    properties = _properties(config, settings or [], bootstrap, command_config)
    if listen is not None:
        properties["listeners"] = f"http://{listen}"
    properties.setdefault("listeners", f"http://{_LISTEN}")
    require_broker(properties["bootstrap.servers"], properties)
    stopping = threading.Event()
    try:
        with start_worker(properties) as worker:
            for number in stop_signals():
                signal.signal(number, lambda *_: stopping.set())
            while not (stopping.wait(_LOOK_S) or worker.herder.is_ready or worker.herder.failure):
                pass
            calm_garbage_collector()
            if worker.herder.is_ready:
                # Other processes wait for this line, as for that of a node.
                print(f"ready on {worker.url.partition('://')[2]}", flush=True)
            while not (stopping.wait(_LOOK_S) or worker.herder.failure):
                pass
            if worker.herder.failure is not None:
                fail(f"the Connect worker has failed: {worker.herder.failure}")
    except (ConnectError, TimeoutError) as error:
        fail(f"the Connect worker can't start: {error}")
    except OSError as error:
        fail(f"the Connect worker can't listen at {properties['listeners']}: {error}")
    print_note("the Connect worker has stopped")


@app.command()
def jvm(
    jars: Annotated[
        list[Path],
        typer.Option(
            "--jars",
            metavar="DIR",
            help="A directory with Kafka Connect's jars, such as libs of an Apache Kafka; repeatable.",
        ),
    ],
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option("--plugin-path", metavar="DIR", help="A directory with Java plugins; repeatable."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help=f"The address of the REST API, instead of the file's listeners. Default: {_JVM_LISTEN}.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="A file like Kafka's connect-distributed.properties."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a property of the worker; repeatable."),
    ] = None,
    heap: Annotated[
        str, typer.Option("--heap", metavar="SIZE", help="The largest heap of the JVM, such as 600m.")
    ] = "2g",
    log_level: LogLevelOption = LogLevel.WARN,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Run Apache Kafka Connect's own worker, for plugins that exist only in Java.

    Its group is connect-jvm unless group.id says otherwise, so it shares nothing with Penstock's workers.
    """
    require_extra()
    from penstock.connect import ConnectError
    from penstock.connect.jvm import JavaWorker, worker_jars, worker_properties
    from penstock.spark.launching.java import JavaNotFound, find_java

    properties = _properties(config, settings or [], bootstrap, command_config)
    if listen is not None:
        properties["listeners"] = f"http://{listen}"
    properties.setdefault("listeners", f"http://{_JVM_LISTEN}")
    try:
        class_path = worker_jars(jars)
        java = find_java().executable
    except (ConnectError, JavaNotFound) as error:
        fail(str(error), EXIT_USAGE)
    require_broker(properties["bootstrap.servers"], properties)
    options = (f"-Xmx{heap}", f"-Dlog4j2.level={log_level}")
    stopping = threading.Event()
    for number in stop_signals():
        signal.signal(number, lambda *_: stopping.set())
    with JavaWorker(
        java, class_path, options, worker_properties(properties, plugin_path or ()), sys.stderr
    ) as worker:
        try:
            worker.wait_until_ready(_JVM_READY_S, stopping)
        except ConnectError as error:
            fail(str(error))
        if not stopping.is_set():
            print(f"ready on {worker.url.partition('://')[2]}", flush=True)
        while not stopping.wait(_LOOK_S):
            if (code := worker.ended()) is not None:
                fail(f"the Java worker ended with exit code {code}")
    print_note("the Java worker has stopped")


def require_extra() -> None:
    """End the command if the packages of a worker are not installed."""
    require_packages(_REQUIRED, "connect", "a Connect worker")


def _properties(
    file: Path | None, settings: list[str], bootstrap: str, command_config: Path | None
) -> dict[str, str]:
    """The file's properties, overridden by those of the command line."""
    found = server_properties(file, read_properties(command_config), settings)
    if bootstrap != DEFAULT_BOOTSTRAP:
        found["bootstrap.servers"] = bootstrap
    found.setdefault("bootstrap.servers", bootstrap)
    return found
