"""A sink into tables of Iceberg, by pyiceberg, with the configuration of Apache's Iceberg sink."""

from penstock.extras import needs_extra

with needs_extra("lake", "the Iceberg sink"):
    from penstock.connect.connectors.lake.iceberg.connector import IcebergSinkConnector, IcebergSinkTask

__all__ = ["IcebergSinkConnector", "IcebergSinkTask"]
