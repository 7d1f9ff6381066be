"""The connector for PostgreSQL and its task, under the configuration names of Debezium's.

It takes the place of ``io.debezium.connector.postgresql.PostgresConnector``, reads its stored offsets, and
writes its records.
"""

from penstock.connect.cdc.postgres.source.connector import PostgresConnector
from penstock.connect.cdc.postgres.source.task import PostgresTask

__all__ = ["PostgresConnector", "PostgresTask"]
