"""The files that keep what Spark logs, and the options with which a JVM writes them."""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from pathlib import Path
from typing import Final

STDERR: Final = Path("/dev/stderr")
"""As a log file: Spark's whole output stays on stderr, for containers whose runtime collects it."""


def new_log(name: str) -> Path:
    """Create an empty log file for a session in the directory for temporary files.

    It is removed when this process ends, if it is still empty.
    """
    prefix = f"penstock-{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}-"
    handle, path = tempfile.mkstemp(".log", prefix)
    os.close(handle)
    atexit.register(_remove_if_empty, Path(path))
    return Path(path)


def log4j_options(level: str, details: Path | None) -> str:
    """Return the JVM's options for Spark's log.

    Without ``details``, everything is written to stderr. With it, stderr gets a line for each event, and
    ``details`` the traces too.
    """
    name = "log4j2.properties" if details is None else "log4j2-console.properties"
    options = (
        f"-Dlog4j2.configurationFile={Path(__file__).with_name(name).as_uri()} -Dpenstock.log.level={level}"
    )
    return options if details is None else f"{options} -Dpenstock.log.file={details}"


def _remove_if_empty(path: Path) -> None:
    if path.exists() and not path.stat().st_size:
        path.unlink()
