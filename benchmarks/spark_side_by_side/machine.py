"""What the figures were taken on; nothing that names the machine."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

from penstock.spark.java import find_java
from side_by_side.jars import SPARK_CONNECTOR
from side_by_side.machine import hardware


def describe(directory: Path) -> dict[str, str]:
    """Machine, disk under *directory*, and versions."""
    return {
        **hardware(directory),
        "cores": str(os.cpu_count()),
        "penstock": f"{version('penstock')}, Python {sys.version.split()[0]}",
        "Spark": f"{version('pyspark')}, Java {find_java().version}, driver heap of 1 GiB (Spark's default)",
        "Spark's Kafka connector": SPARK_CONNECTOR,
    }
