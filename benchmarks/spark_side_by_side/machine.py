"""The machine on which the figures were measured, without anything that identifies it."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

from penstock.spark.launching.java import find_java
from side_by_side.jars import SPARK_CONNECTOR
from side_by_side.machine import hardware


def describe(directory: Path) -> dict[str, str]:
    """Describe the machine, the disk of *directory*, and the versions."""
    return {
        **hardware(directory),
        "cores": str(os.cpu_count()),
        "penstock": f"{version('penstock')}, Python {sys.version.split()[0]}",
        "Spark": f"{version('pyspark')}, Java {find_java().version}, driver heap of 1 GiB (Spark's default)",
        "Spark's Kafka connector": SPARK_CONNECTOR,
    }
