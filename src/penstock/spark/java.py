"""Print a ``JAVA_HOME`` that Spark runs on, for sessions that `penstock.spark.build_session` does not build.

A shell sets it with ``export JAVA_HOME=$(python -m penstock.spark.java)``.
"""

from __future__ import annotations

import sys

from penstock.spark.launching.java import JavaNotFound, find_java, launch_home

if __name__ == "__main__":
    try:
        print(launch_home(find_java()))
    except JavaNotFound as error:
        sys.exit(f"penstock: {error}")
