"""The Python that runs Spark's workers, set up so that they import pyspark as fast as this process does.

Spark puts the archive ``pyspark.zip`` first on each worker's path, in some workers twice. Python compiles
modules that it imports from an archive again in every process, which takes half a second to a second of
processor time, although the installed package that the archive is part of has the same modules compiled. The
path also has ``spark-core.jar``, which contains no Python but adds a tenth of a second to every process that
searches the path.

The worker that prepares a stateful operator prints each of its steps whenever a query starts. Its output is
discarded; its errors reach Spark over the connection.

Spark's daemon of workers is replaced by `penstock.spark.workers.daemon`. The setting
``spark.python.daemon.module`` would not reach the workers that plan queries.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Final

from penstock.spark.launching.java import cache_directory, write_launcher

LAUNCH_SCRIPT: Final = """#!/bin/sh
# Written by penstock.spark.launching.worker_python: nothing has to be imported from the archives below.
path=":$PYTHONPATH:"
for archive in {archives}; do
  while case "$path" in *":$archive:"*) true ;; *) false ;; esac; do
    path="${{path%%":$archive:"*}}:${{path#*":$archive:"}}"
  done
done
path="${{path#:}}"
PYTHONPATH="${{path%:}}"
export PYTHONPATH
case " $* " in *" pyspark.sql.streaming.transform_with_state_driver_worker "*) exec >/dev/null ;; esac
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  set -- -m penstock.spark.workers.daemon "$@"
fi
exec {executable} "$@"
"""


def worker_python(pyspark_home: Path) -> str:
    """Return the value for ``PYSPARK_PYTHON`` on this machine: this Python, without the archives on its path.

    If pyspark is not an installed package, or the launcher cannot be written, that is this Python unchanged.
    """
    archives = sorted((pyspark_home / "python" / "lib").glob("*.zip"))
    archives += sorted((pyspark_home / "jars").glob("spark-core_*.jar"))
    is_installed = any(Path(entry) == pyspark_home.parent for entry in sys.path)
    if not archives or not is_installed:
        return sys.executable
    script = LAUNCH_SCRIPT.format(
        archives=" ".join(shlex.quote(str(archive)) for archive in archives),
        executable=shlex.quote(sys.executable),
    )
    launcher = cache_directory() / f"python-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        write_launcher(launcher, script)
    except OSError:
        return sys.executable
    return str(launcher)


def warn_of_python(executable: str) -> None:
    """Warn if the Python of Spark's workers is another one than this, and cannot import penstock.

    ``executable`` is a path or a name on the ``PATH``. One that this machine does not have is left to Spark.
    Packages that Spark sends to its workers are not on the path here, so this cannot be an error.
    """
    found = shutil.which(executable)
    if found is None or Path(found).absolute() == Path(sys.executable):
        return
    done = subprocess.run(
        [found, "-c", "import penstock"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode:
        warnings.warn(
            f"Spark's Python workers run {found}, which cannot import penstock. Set "
            f"PYSPARK_PYTHON={shlex.quote(sys.executable)} in the environment before the session starts",
            RuntimeWarning,
            stacklevel=3,
        )
