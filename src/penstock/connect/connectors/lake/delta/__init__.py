"""A sink into tables of Delta Lake, by delta-rs: no Java and no Spark."""

from penstock.extras import needs_extra

with needs_extra("lake", "the Delta sink"):
    from penstock.connect.connectors.lake.delta.connector import DeltaSinkConnector, DeltaSinkTask

__all__ = ["DeltaSinkConnector", "DeltaSinkTask"]
