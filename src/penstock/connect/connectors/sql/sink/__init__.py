"""The sink: inserts, updates and deletes rows for records, in transactions."""

from penstock.connect.connectors.sql.sink.connector import SqlSinkConnector
from penstock.connect.connectors.sql.sink.task import SqlSinkTask

__all__ = ["SqlSinkConnector", "SqlSinkTask"]
