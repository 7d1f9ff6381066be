"""Parts that Debezium's records of all databases share: envelope, headers, heartbeats. Pure."""

from __future__ import annotations

from typing import Final

from penstock.connect.data.schema import INT64, OPTIONAL_INT64, STRING, Schema, Type

CONTEXT: Final = "__debezium.context."
"""The first part of the names of headers that tell where a record comes from."""
NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"
SERVER_NAME: Final = Schema.struct(
    {"serverName": STRING}, name="io.debezium.connector.common.ServerNameKey", version=1
)
HEARTBEAT: Final = Schema.struct({"ts_ms": INT64}, name="io.debezium.connector.common.Heartbeat", version=1)
SNAPSHOT_MARKER: Final = Schema(
    Type.STRING,
    optional=True,
    default="false",
    name="io.debezium.data.Enum",
    version=1,
    parameters={
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
)
TRANSACTION_BLOCK: Final = Schema.struct(
    {"id": STRING, "total_order": INT64, "data_collection_order": INT64},
    name="event.block",
    version=1,
    optional=True,
)


def envelope_schema(name: str, value: Schema, source: Schema) -> Schema:
    """The schema of a change: the row before and after it, its source, its transaction, its kind, times."""
    times = {"ts_ms": OPTIONAL_INT64, "ts_us": OPTIONAL_INT64, "ts_ns": OPTIONAL_INT64}
    parts = {
        "before": value,
        "after": value,
        "source": source,
        "transaction": TRANSACTION_BLOCK,
        "op": STRING,
    }
    return Schema.struct({**parts, **times}, name=name, version=2)
