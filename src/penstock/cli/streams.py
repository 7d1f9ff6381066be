"""`penstock streams`: run, describe and reset the application that a Python file defines."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from penstock.cli.app_file import AppFileError, load_app
from penstock.cli.config import parse_assignments
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    fail,
    read_properties,
    require_broker,
    require_listener,
    unreachable,
)
from penstock.cli.extras import require_packages, require_spark_version
from penstock.cli.output import console, print_json, print_note
from penstock.cli.streams_serve import serve
from penstock.client.errors import ClientError, ServerUnreachable
from penstock.client.settings import ConfigError
from penstock.streams import App, StreamsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.observing import ProgressView
    from penstock.spark.streams.running.application import RunningApp

app = typer.Typer(help="Run, describe, reset and query streams applications.", no_args_is_help=True)

POLL_S: Final = 0.2
"""The interval of checks on a running application."""

LINES_EVERY_S: Final = 1.0
"""The interval of progress lines if there is no terminal to redraw."""

LAST_BATCH_TIMEOUT_S: Final = 60.0
"""How long the current batch may take after the command is stopped; the next start repeats it."""

_REQUIRED: Final = ("pyspark", "pandas", "pyarrow", "google.protobuf")

_MASTER: Final = re.compile(
    r"local(-cluster)?(\[[\w*, ]+\])?|yarn|spark://(?P<standalone>[^/]+:\d+)|k8s://(https?://)?(?P<kubernetes>[^/]+)"
)


_CAUSE: Final = "Caused by: "
_JAVA_CLASS: Final = re.compile(r"^([a-z]\w*\.)+[\w$]+: ")


class ProfileChoice(StrEnum):
    low_latency = "low-latency"
    throughput = "throughput"


class Guarantee(StrEnum):
    exactly_once = "exactly-once"
    at_least_once = "at-least-once"


class Until(StrEnum):
    stopped = "stopped"
    drained = "drained"


File = Annotated[Path, typer.Argument(metavar="APP.py", help="The file that defines the application.")]
AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="NAME",
        help="The App in the file, by its variable or its name. Default: the only one.",
    ),
]
Checkpoint = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        metavar="DIR",
        help="The directory or URI for offsets and state; driver and executors share it.",
    ),
]
Master = Annotated[
    str,
    typer.Option(
        "--master", metavar="URL", help="Spark's master: local[*], spark://HOST:PORT, yarn or k8s://URL."
    ),
]
Profile = Annotated[
    ProfileChoice | None,
    typer.Option("--profile", metavar="PROFILE", help="Use settings for low-latency or for throughput."),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Set an option of source and sink, such as maxOffsetsPerTrigger or kafka.…; repeatable.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Set a Spark configuration; repeatable."),
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="The name shown by Spark. Default: the application's name."),
]


@app.command()
def run(
    file: File,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="The directory or URI for offsets and state; driver and executors share it. Default on one "
            "machine: NAME-checkpoint beside the file.",
        ),
    ] = None,
    name_of_app: AppName = None,
    master: Master = "local[*]",
    profile: Profile = None,
    guarantee: Annotated[
        Guarantee,
        typer.Option(metavar="GUARANTEE", help="The processing guarantee: exactly-once or at-least-once."),
    ] = Guarantee.exactly_once,
    until: Annotated[
        Until,
        typer.Option(
            metavar="END",
            help="drained: exit once all records that the topics contain at the start are processed.",
        ),
    ] = Until.stopped,
    option: Options = None,
    conf: Conf = None,
    name: Name = None,
    shuffle_partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The number of parallel tasks on state; the checkpoint keeps the first value.",
        ),
    ] = None,
    no_ship: Annotated[
        bool,
        typer.Option(
            "--no-ship",
            help="Send no files to executors: they have Penstock and the file's imports installed.",
        ),
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Append Spark's output to this file, or /dev/stderr. Default: a temporary file.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve Prometheus metrics on this port; 0 selects a free one.",
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="The address of the metrics server; 0.0.0.0 for all interfaces."
        ),
    ] = "127.0.0.1",
    metrics_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Properties of the metrics server: its users and its certificate (docs/security.md).",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Run an application until it is stopped. Ctrl-C and SIGTERM stop it after the current batch."""
    application, module = _load(file, name_of_app)
    options = _options(command_config, option)
    metrics_properties = read_properties(metrics_config, "--metrics-config")
    settings = parse_assignments(conf or [])
    require_packages(_REQUIRED, "spark", "a streams application on Spark")
    require_spark_version("streams applications need")
    _require_master(master)
    checkpoint = checkpoint or _default_checkpoint(file, application, master)
    require_broker(bootstrap, options)
    from pyspark.sql import SparkSession

    from penstock.spark.launching.session import log_for_command
    from penstock.spark.observing import ProgressView

    was_there = SparkSession.getActiveSession() is not None
    log = log_for_command(application.name, log)
    with _explained(bootstrap, log):
        session = _session(
            name or application.name, master, settings, profile, ship=not no_ship, log=log, module=module
        )
        view = ProgressView(console(), lines_every_s=LINES_EVERY_S)
        running = application.start(
            bootstrap_servers=bootstrap,
            checkpoint=checkpoint,
            spark=session,
            guarantee=guarantee.value,
            until=until.value,
            profile="steady" if profile is None else profile.value,
            shuffle_partitions=shuffle_partitions,
            options=options,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            metrics_properties=metrics_properties,
            watchers=[view],
        )
        if running.metrics_url is not None:
            print_note(f"metrics are served at {running.metrics_url}")
        print_note(f"{application.name} runs on {master}, with its state in {checkpoint}")
        if log is not None:
            print_note(f"Spark's output goes to {log}")
        _follow(running, view)
        if not was_there:
            session.stop()
    print_note(f"{application.name} stopped")


@app.command("submit-command")
def submit_command(
    file: File,
    checkpoint: Checkpoint,
    name_of_app: AppName = None,
    profile: Profile = None,
    option: Options = None,
    conf: Conf = None,
    name: Name = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the command that submits an application to YARN in cluster mode, where its driver runs too.

    The files to send are written to the cache directory: this package with its dependencies, and the modules
    beside the file.
    """
    application, module = _load(file, name_of_app)
    options, settings = parse_assignments(option or []), parse_assignments(conf or [])
    if "://" not in checkpoint:
        fail(
            f"--checkpoint {checkpoint}: expected a URI that all nodes reach, such as hdfs:///checkpoints/shop",
            EXIT_USAGE,
        )
    require_packages(_REQUIRED, "spark", "a streams application on Spark")
    require_spark_version("streams applications need")
    from penstock.spark.launching.shipping import DIRECTORY, DRIVER_NEEDS, CannotShip, make_library

    try:
        library = make_library(_beside(module), needs=DRIVER_NEEDS)
    except CannotShip as error:
        fail(str(error))
    from penstock.spark.launching.session import settings_for

    profiled = [] if profile is None else [f"--profile={profile.value}"]
    sent = settings_for("yarn", "steady" if profile is None else profile.value, settings) | {
        "spark.yarn.appMasterEnv.PYTHONPATH": DIRECTORY,
        "spark.executorEnv.PYTHONPATH": DIRECTORY,
    }
    words = [
        *("spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", name or application.name),
        *(word for setting in sorted(sent.items()) for word in ("--conf", "=".join(setting))),
        *("--archives", f"{library.archive}#{DIRECTORY}", "--files", str(file.resolve())),
        str(library.directory / "penstock" / "__main__.py"),
        *("streams", "run", file.name, *([] if name_of_app is None else [f"--app={name_of_app}"])),
        *("--master=yarn", f"--bootstrap={bootstrap}", f"--checkpoint={checkpoint}", *profiled),
        *(f"--option={key}={value}" for key, value in options.items()),
    ]
    typer.echo(shlex.join(words))


@app.command()
def describe(
    file: File,
    name_of_app: AppName = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print a Mermaid flowchart, which Markdown viewers draw.")
    ] = False,
) -> None:
    """Print the topology of an application, as Kafka Streams prints it. Nothing is run."""
    application, _ = _load(file, name_of_app)
    typer.echo(application.mermaid() if mermaid else application.describe())


@app.command()
def reset(
    file: File,
    name_of_app: AppName = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Also remove this checkpoint. Default: NAME-checkpoint beside the file, if it exists.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Reset an application that is not running to its beginning.

    Deletes the topics that it owns (changelogs, repartition topics), sets its consumer group to the beginning
    of its inputs, and removes its checkpoint. Its output stays.
    """
    application, _ = _load(file, name_of_app)
    options = _options(command_config, None)
    require_packages(_REQUIRED, "spark", "a streams application on Spark")
    from penstock.spark.streams.running.reset import reset as reset_application

    beside = _beside_file(file, application)
    if checkpoint is None and beside.is_dir():
        checkpoint = str(beside)
    require_broker(bootstrap, options)
    with _explained(bootstrap):
        done = reset_application(
            application.topology(), bootstrap_servers=bootstrap, checkpoint=checkpoint, options=options
        )
    if json_output:
        print_json(
            {
                "application": application.name,
                "deleted_topics": list(done.deleted_topics),
                "partitions_at_beginning": [str(tp) for tp in done.partitions],
            }
        )
        return
    for topic in done.deleted_topics:
        console().print(f"deleted {topic}")
    console().print(f"{application.name} starts from the beginning in {len(done.partitions)} partitions")


app.command()(serve)


def _load(file: Path, name: str | None) -> tuple[App, ModuleType]:
    try:
        return load_app(file, name)
    except AppFileError as error:
        fail(str(error), EXIT_USAGE)


def _options(command_config: Path | None, given: list[str] | None) -> dict[str, str]:
    """The file's properties as ``kafka.…``, overridden by those of the command line."""
    properties = {f"kafka.{name}": value for name, value in read_properties(command_config).items()}
    return properties | parse_assignments(given or [])


def _require_master(master: str) -> None:
    """Check the master: Spark tries an unreachable one for a minute, then reports little about the reason."""
    match = _MASTER.fullmatch(master)
    if match is None:
        fail(f"--master {master}: expected local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT", EXIT_USAGE)
    if match["standalone"]:
        require_listener(match["standalone"], "--master", "no Spark master answers")


def _beside_file(file: Path, application: App) -> Path:
    """The default checkpoint of an application on one machine."""
    return file.parent / f"{application.name}-checkpoint"


def _default_checkpoint(file: Path, application: App, master: str) -> str:
    if not master.startswith("local"):
        fail(f"--checkpoint: expected a directory or URI that all nodes of {master} reach", EXIT_USAGE)
    return str(_beside_file(file, application))


def _session(
    name: str,
    master: str,
    conf: Mapping[str, str],
    profile: ProfileChoice | None,
    *,
    ship: bool,
    log: Path | None,
    module: ModuleType,
) -> SparkSession:
    from pyspark import cloudpickle

    from penstock.spark.launching.session import build_session

    # Send the file's own code to the workers with the plan, as for a script: they lack its module.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return build_session(
        name,
        master,
        conf,
        "steady" if profile is None else profile.value,
        log_level="error",
        log_file=log,
        ship=ship,
        modules=_beside(module),
        own_process_group=True,
        share_classes=True,
    )


def _beside(module: ModuleType) -> list[ModuleType]:
    """The modules that the file has imported from its own directory."""
    assert module.__file__ is not None
    directory = Path(module.__file__).parent
    found = []
    for name, other in list(sys.modules.items()):
        origin = getattr(other, "__file__", None)
        if other is module or origin is None or "." in name:
            continue
        path = Path(origin)
        if directory in (path.parent, path.parent.parent) and name in (path.stem, path.parent.name):
            found.append(other)
    return found


@contextmanager
def _explained(bootstrap: str, log: Path | None = None) -> Iterator[None]:
    """Report errors as one line, with an exit code that scripts can rely on. ``log`` has Spark's output."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from penstock.spark.launching.java import JavaNotFound
    from penstock.spark.launching.shipping import CannotShip
    from penstock.spark.observing import MetricsPortTaken
    from penstock.spark.streams.running.failures import ApplicationFailed

    kept = "" if log is None else f" (Spark's output is in {log})"
    try:
        yield
    except (ConfigError, ValueError) as error:
        fail(str(error), EXIT_USAGE)
    except ServerUnreachable as error:
        unreachable(bootstrap, str(error))
    except ApplicationFailed as error:
        fail(f"{error}{kept}")
    except (StreamsError, ClientError, JavaNotFound, CannotShip, MetricsPortTaken) as error:
        fail(str(error))
    except (PySparkException, Py4JError) as error:
        _explain_spark(error, kept)


def _explain_spark(error: Exception, kept: str) -> NoReturn:
    """Report a Spark error with its root cause, and where Spark's output is.

    A Java error lists all its causes one below the other.
    """
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    causes = [_JAVA_CLASS.sub("", line[len(_CAUSE) :]) for line in lines if line.startswith(_CAUSE)]
    root = ""
    # "Connection refused" is less helpful than "Connection refused: /10.0.0.1:443".
    for cause in reversed(causes):
        if root not in cause:
            break
        root = cause
    said = dict.fromkeys(filter(None, [*(_JAVA_CLASS.sub("", line) for line in lines[:1]), root]))
    fail(f"Spark: {': '.join(said) or type(error).__name__}{kept}")


def _follow(running: RunningApp, view: ProgressView) -> None:
    """Show the application's progress until it ends or a signal stops it. Raises the application's error."""
    with _stop_signals() as stopping, view.live(), running:
        while not running.wait(POLL_S):
            view.refresh()
            if stopping.is_set():
                _finish_batch(running)
                break


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal ends the command at once."""
    stopping = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.set()
        print_note("stopping after this batch")
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish_batch(running: RunningApp) -> None:
    """Wait until no batch is running or the current one has ended; an interrupted batch is lost work."""
    before = running.progress()
    deadline = time.monotonic() + LAST_BATCH_TIMEOUT_S
    while running.query.status["isTriggerActive"] and time.monotonic() < deadline:
        now = running.progress()
        if now is not None and (before is None or now.batch_id > before.batch_id):
            return
        time.sleep(0.02)
