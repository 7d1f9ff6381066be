"""Change data capture from PostgreSQL's logical replication (pgoutput), with Debezium's records.

`framing` and `pgoutput` read bytes, `catalog` holds what the server's catalog says of tables and types,
`columns` and the modules of values turn texts into Connect's values, and `schemas` and `events` make
records. All of these are pure, and so is `selection`, which filters and masks. `reading` connects to a
server, and `source` has the connector and its task.
"""

from penstock.connect.cdc.postgres.catalog import RELATIONS_QUERY, TYPES_QUERY, Catalog
from penstock.connect.cdc.postgres.events import EventSettings, EventWriter, Position
from penstock.connect.cdc.postgres.framing import Keepalive, XLogData, read_frame, status_update
from penstock.connect.cdc.postgres.pgoutput import Decoder
from penstock.connect.cdc.postgres.schemas import NamingSettings, TableSchema, table_schema
from penstock.connect.errors import ReplicationProtocolError

__all__ = [
    "RELATIONS_QUERY",
    "TYPES_QUERY",
    "Catalog",
    "Decoder",
    "EventSettings",
    "EventWriter",
    "Keepalive",
    "NamingSettings",
    "Position",
    "ReplicationProtocolError",
    "TableSchema",
    "XLogData",
    "read_frame",
    "status_update",
    "table_schema",
]
