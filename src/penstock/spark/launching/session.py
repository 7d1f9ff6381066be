"""Build a Spark session with settings for streaming from Penstock, on a Java that is found automatically.

    from penstock.spark.launching.session import build_session

    spark = build_session("orders")
    spark.readStream.format("penstock").option("bootstrap.servers", "127.0.0.1:9092")...

It is an ordinary `SparkSession`: no query depends on it, and the same query runs in a session of your own on
any cluster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from penstock.spark.launching.class_data import class_data_options
from penstock.spark.launching.java import find_java, launch_home
from penstock.spark.launching.logs import STDERR, log4j_options, new_log
from penstock.spark.launching.profiles import PROFILES, ProfileName
from penstock.spark.launching.shipping import DIRECTORY, make_library
from penstock.spark.launching.versions import require_spark
from penstock.spark.launching.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_JAVA: Final = "spark.driver.extraJavaOptions"

SETTINGS: dict[str, str] = {
    # Event time must not depend on the machine's time zone.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The JVM talks to its Python workers: TCP on loopback stalls 40 ms on small batches.
    "spark.python.unix.domain.socket.enabled": "true",
    # RocksDB holds state larger than the heap, and each batch writes only its changes to the checkpoint.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_SETTINGS: dict[str, str] = {
    # The default manager forks a process for each file that it renames on a local disk.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

LOCAL_SHUFFLE_PARTITIONS_MAX = 8
"""The most shuffle partitions on one machine, however many cores it has.

Each one costs a stateful operator a task and a state commit per batch. A checkpoint keeps the number that it
was created with.
"""


def build_session(
    app_name: str,
    master: str = "local[*]",
    extra_conf: Mapping[str, str] | None = None,
    profile: ProfileName = "steady",
    log_level: str = "error",
    log_file: Path | None = None,
    *,
    ship: bool = True,
    modules: Iterable[ModuleType] = (),
    own_process_group: bool = False,
    share_classes: bool = False,
    niceness: int = 0,
) -> SparkSession:
    """Return the active session, or a new one on `master` with Penstock's settings under `extra_conf`.

    `profile`: "steady" for long-running queries, "quick" for tests and jobs of a few seconds, "low-latency"
    and "throughput" for streams applications (`penstock.spark.launching.profiles`). `log_level` is log4j's
    name for the level of what Spark logs: one line for each event on stderr, and the traces in a temporary
    file that these lines name. With `log_file`, all output of Spark and of its Python workers is appended to
    that file; ``/dev/stderr`` keeps it on stderr. Spark's web UI is off unless `extra_conf` sets
    ``spark.ui.enabled``. If `master` is not local, executors get this package and `modules` from here
    (`penstock.spark.launching.shipping`); with `ship=False` they must have it installed. `own_process_group`:
    Ctrl-C in the terminal reaches this process alone. `share_classes`: start faster with
    `penstock.spark.launching.class_data`. `niceness`: above 0, Spark's processes on this machine yield to
    this process and to all others.

    A session that is already active is returned with those settings that can still change. The settings of
    its JVM stay as they are, which also holds for a process that spark-submit has started.

    Raises `JavaNotFound` if no Java fits, `CannotShip`, `MissingExtra` without pyspark, and ImportError for
    other versions of Spark than 4.3.
    """
    require_spark()
    import pyspark
    from pyspark.sql import SparkSession

    is_local = master.startswith("local")
    python = worker_python(Path(pyspark.__file__).parent) if is_local else sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    settings = settings_for(master, profile, extra_conf or {})
    builder = SparkSession.builder.appName(app_name).master(master)
    if has_jvm():
        return _with(builder, settings).getOrCreate()
    java = find_java()
    log_options = log4j_options(log_level, new_log(app_name) if log_file is None else None)
    settings[DRIVER_JAVA] = _joined(" ", settings.get(DRIVER_JAVA), log_options)
    launch = {"JAVA_HOME": str(launch_home(java))}
    if share_classes:
        options = class_data_options(java, Path(pyspark.__file__).parent)
        settings[DRIVER_JAVA] = _joined(" ", options, settings[DRIVER_JAVA])
    if log_file is not None and log_file != STDERR:
        launch["PENSTOCK_SPARK_LOG"] = str(log_file.absolute())
    if own_process_group:
        launch["PENSTOCK_SPARK_OWN_GROUP"] = "1"
    if niceness:
        launch["PENSTOCK_SPARK_NICENESS"] = str(niceness)
    if ship and not master.startswith("local"):
        library = make_library(modules)
        settings = with_library(settings, library.archive)
        # Workers on the driver run the executors' Python, but read this machine's file system.
        launch["PYTHONPATH"] = _joined(os.pathsep, str(library.directory), os.environ.get("PYTHONPATH"))
    with _environment(launch):
        return _with(builder, settings).getOrCreate()


def has_jvm() -> bool:
    """Whether a JVM runs already, whose settings are fixed: that of a session or of spark-submit."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def log_for_command(name: str, given: Path | None) -> Path | None:
    """Return the file for the output of the Spark that a command starts: ``given`` or a new one.

    Without ``given``, that is None if the command uses a JVM that is already there.
    """
    return new_log(name) if given is None and not has_jvm() else given


def with_library(settings: Mapping[str, str], archive: Path) -> dict[str, str]:
    """Return settings with which executors unpack an archive of `make_library` and import from it."""
    path = settings.get("spark.executorEnv.PYTHONPATH")
    return {
        **settings,
        "spark.archives": _joined(",", f"{archive}#{DIRECTORY}", settings.get("spark.archives")),
        "spark.executorEnv.PYTHONPATH": _joined(":", DIRECTORY, path),
    }


def _with(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def settings_for(master: str, profile: ProfileName, extra_conf: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration for a session on `master`: Penstock's, the profile's, then `extra_conf`."""
    chosen = PROFILES[profile]
    settings = dict(SETTINGS)
    launched = ["driver"]
    if master.startswith("local"):
        settings |= LOCAL_SETTINGS
        settings["spark.sql.shuffle.partitions"] = str(min(os.cpu_count() or 1, LOCAL_SHUFFLE_PARTITIONS_MAX))
    else:
        launched.append("executor")
    settings |= extra_conf
    for role in launched:
        name = f"spark.{role}.extraJavaOptions"
        if options := _joined(" ", chosen.jvm_options, settings.get(name)):
            settings[name] = options  # the JVM lets later options win
    return settings


def _joined(separator: str, *parts: str | None) -> str:
    return separator.join(filter(None, parts))


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables during the block only: the JVM inherits them, the caller's stay unchanged."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
