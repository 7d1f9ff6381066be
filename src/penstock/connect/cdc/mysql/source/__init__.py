"""The connectors for MySQL and MariaDB and their task, under the configuration names of Debezium's."""

from penstock.connect.cdc.mysql.source.connector import MariaDbConnector, MySqlConnector
from penstock.connect.cdc.mysql.source.task import MariaDbTask, MySqlTask

__all__ = ["MariaDbConnector", "MariaDbTask", "MySqlConnector", "MySqlTask"]
