"""The Python of Spark's workers: the driver's own, with pyspark from where it is compiled."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
import pytest

from penstock.spark.launching.worker_python import warn_of_python, worker_python

HOME = Path(pyspark.__file__).parent
ARCHIVES = sorted(map(str, [*(HOME / "python" / "lib").glob("*.zip"), *HOME.glob("jars/spark-core_*.jar")]))

PREPARING = "pyspark.sql.streaming.transform_with_state_driver_worker"


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return worker_python(HOME)


def told(python: str, path: list[str], script: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([python, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_pyspark_is_not_imported_from_the_archive(python: str) -> None:
    assert len(ARCHIVES) == 3
    where = told(python, [*ARCHIVES, "/elsewhere"], "import pyspark; print(pyspark.__file__)")
    assert where == pyspark.__file__


@pytest.mark.parametrize(
    "path",
    [
        [*ARCHIVES, "/one", "/two"],
        ["/one", *ARCHIVES, "/two"],
        ["/one", "/two", *reversed(ARCHIVES)],
        # Spark names them twice for the process that plans a stream
        [*ARCHIVES, "/one", *ARCHIVES, "/two"],
        ["/one", *(archive for archive in ARCHIVES for _ in range(2)), "/two"],
        ["/one", "/two"],
    ],
    ids=["first", "between", "last", "twice", "in a row", "none"],
)
def test_the_rest_of_the_path_stays(python: str, path: list[str]) -> None:
    assert told(python, path, "import os; print(os.environ['PYTHONPATH'])") == "/one:/two"


def test_it_is_this_python_and_passes_on_what_it_is_told(python: str) -> None:
    assert told(python, [], "import sys; print(sys.executable)") == sys.executable
    assert subprocess.run([python, "-c", "raise SystemExit(7)"]).returncode == 7


def test_a_pyspark_that_is_no_installed_package_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "python" / "lib").mkdir(parents=True)
    (tmp_path / "python" / "lib" / "pyspark.zip").touch()
    assert worker_python(tmp_path) == sys.executable


def test_without_a_cache_it_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert worker_python(HOME) == sys.executable


def test_the_steps_of_a_stateful_operators_preparation_are_discarded(python: str) -> None:
    for module, printed in (("pyspark.daemon", "steps\n"), (PREPARING, "")):
        words = [python, "-c", "print('steps')", module]
        assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == printed


def test_a_python_for_the_workers_that_lacks_penstock_is_named_with_the_remedy(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    with pytest.warns(RuntimeWarning, match=f"run {other}, which cannot.* PYSPARK_PYTHON={sys.executable} "):
        warn_of_python(str(other))


@pytest.mark.filterwarnings("error")
def test_a_python_for_the_workers_with_penstock_or_elsewhere_is_fine(python: str, tmp_path: Path) -> None:
    for executable in (sys.executable, python, str(tmp_path / "nowhere")):
        warn_of_python(executable)


@pytest.mark.spark
def test_a_worker_whose_connection_spark_closes_leaves_no_trace(python: str) -> None:
    """Spark starts the workers that plan queries with pyspark's daemon, whatever the session's settings."""
    settings = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        # Spark sets this by default. Without it, the daemon prints instead of raising.
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",
    }
    with (
        tempfile.TemporaryDirectory() as directory,  # the socket's path may have 107 bytes
        subprocess.Popen(
            [python, "-m", "pyspark.daemon", "pyspark.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **settings, "PYTHON_WORKER_FACTORY_SOCK_DIR": directory},
        ) as daemon,
    ):
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert daemon.stderr is not None
        (length,) = struct.unpack("!i", daemon.stdout.read(4))
        address = daemon.stdout.read(length).decode()
        for begins in (False, True, False):
            with socket.socket(socket.AF_UNIX) as spark:
                spark.connect(address)
                if begins:
                    assert len(spark.recv(4)) == 4
        daemon.stdin.close()
        assert daemon.stderr.read() == b""
