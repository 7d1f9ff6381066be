"""The source: reads the rows of tables, or of a query, again and again, or only those that are new."""

from penstock.connect.connectors.sql.source.connector import SqlSourceConnector
from penstock.connect.connectors.sql.source.task import SqlSourceTask

__all__ = ["SqlSourceConnector", "SqlSourceTask"]
