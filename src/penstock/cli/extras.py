"""Check that a command's optional packages are installed, in versions that fit."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from penstock.cli.connection import fail
from penstock.extras import missing_extra


def require_packages(names: Sequence[str], extra: str, what: str) -> None:
    """End the command if a package is not installed. ``names`` are import names."""
    missing = [name for name in names if not _is_there(name)]
    if missing:
        fail(str(missing_extra(extra, what, missing)))


def require_spark_version(what: str) -> None:
    """End the command if streams do not run on this version of pyspark. ``what`` begins the error."""
    from penstock.spark.launching.versions import require_spark

    try:
        require_spark(what)
    except ImportError as error:
        fail(str(error))


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
