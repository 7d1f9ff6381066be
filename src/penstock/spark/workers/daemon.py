"""Spark's daemon of Python workers, whose workers end without a trace when Spark closes their connection."""

from __future__ import annotations

from pyspark import daemon

from penstock.spark.workers.ending import silence

if __name__ == "__main__":
    silence(daemon)
    daemon.manager()
