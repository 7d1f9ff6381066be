"""A client of Kafka Connect's REST API, for commands and for the SQL server.

It works with Penstock's workers and with Apache Kafka's, and imports none of their parts but the HTTP client.
"""

from penstock.connect.client.connect_client import ConnectClient, InvalidUrl, WorkerRefused
from penstock.connect.herding.worker_client import WorkerUnreachable

__all__ = ["ConnectClient", "InvalidUrl", "WorkerRefused", "WorkerUnreachable"]
