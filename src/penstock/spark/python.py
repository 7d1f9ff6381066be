"""The Python that Spark starts its workers with, so that they import pyspark as fast as this process did.

Spark puts the archive ``pyspark.zip`` first on the path of each, of some twice. What is imported from an
archive is compiled anew in every process, half a second to a second of processor time, while the same modules
lie compiled in the installed package that the archive is part of. Behind it stands ``spark-core.jar``, which
has no Python in it, but costs each process that searches the path a tenth of a second.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path
from typing import Final

from penstock.spark.java import cache_directory, write_launcher

LAUNCH_SCRIPT: Final = """#!/bin/sh
# Written by penstock.spark.python: nothing has to be imported from the archives below.
path=":$PYTHONPATH:"
for archive in {archives}; do
  while case "$path" in *":$archive:"*) true ;; *) false ;; esac; do
    path="${{path%%":$archive:"*}}:${{path#*":$archive:"}}"
  done
done
path="${{path#:}}"
PYTHONPATH="${{path%:}}"
export PYTHONPATH
exec {executable} "$@"
"""


def worker_python(pyspark_home: Path) -> str:
    """What ``PYSPARK_PYTHON`` should be for workers on this machine: this Python, without the archives.

    Where pyspark is not an installed package, or nothing can be written, it is this Python as it is.
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
