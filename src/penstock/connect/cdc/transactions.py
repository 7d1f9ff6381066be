"""Transaction metadata (``provide.transaction.metadata``): boundaries and the order of events. Pure."""

from __future__ import annotations

from typing import Any, Final

from penstock.connect.data.records import SourceRecord
from penstock.connect.data.schema import INT64, OPTIONAL_INT64, STRING, Schema
from penstock.connect.data.struct import Struct

_KEY: Final = Schema.struct(
    {"id": STRING}, name="io.debezium.connector.common.TransactionMetadataKey", version=1
)
_COLLECTION: Final = Schema.struct(
    {"data_collection": STRING, "event_count": INT64}, name="event.collection", version=1, optional=True
)
_VALUE: Final = Schema.struct(
    {
        "status": STRING,
        "id": STRING,
        "event_count": OPTIONAL_INT64,
        "data_collections": Schema.array(_COLLECTION, optional=True),
        "ts_ms": INT64,
    },
    name="io.debezium.connector.common.TransactionMetadataValue",
    version=1,
)


class TransactionCounts:
    """Counts the events of the transaction at hand, in total and per table."""

    def __init__(self, prefix: str) -> None:
        self._topic = f"{prefix}.transaction"
        self._stored_id: str | None = None
        self._total = 0
        self._counts: dict[str, int] = {}

    def begin_transaction(self, identity: str, time_us: int, stored_id: str) -> SourceRecord:
        """Start to count; gives the record BEGIN. Offsets name the transaction by ``stored_id``."""
        self._stored_id, self._total, self._counts = stored_id, 0, {}
        return self._record("BEGIN", identity, time_us, None, None)

    def count_event(self, collection: str, identity: str) -> list[Any]:
        """Count an event of a table; gives its id and its places in transaction and table."""
        self._total += 1
        self._counts[collection] = self._counts.get(collection, 0) + 1
        return [identity, self._total, self._counts[collection]]

    def end_transaction(self, identity: str, time_us: int) -> SourceRecord:
        """The record END, with the counts."""
        collections = [Struct.of_values(_COLLECTION, each) for each in self._counts.items()]
        return self._record("END", identity, time_us, self._total, collections)

    def clear(self) -> None:
        """Leave the transaction."""
        self._stored_id, self._total, self._counts = None, 0, {}

    def offset(self) -> dict[str, Any]:
        """The part of the offset that names the transaction at hand and its counts."""
        if self._stored_id is None:
            return {}
        counts = {f"transaction_data_collection_order_{name}": count for name, count in self._counts.items()}
        return {"transaction_id": self._stored_id, **counts}

    def _record(self, status: str, identity: str, time_us: int, *counts: Any) -> SourceRecord:
        value = Struct.of_values(_VALUE, [status, identity, *counts, time_us // 1000])
        key = Struct(_KEY, {"id": identity})
        return SourceRecord(topic=self._topic, key=key, key_schema=_KEY, value=value, value_schema=_VALUE)
