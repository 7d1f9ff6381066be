"""Event streaming for Python and Spark, with Kafka's log, protocol and guarantees.

    import penstock

    penstock.read("orders", "127.0.0.1:9092").to_polars()

The exceptions that `read` and what it returns can raise are here too; `penstock.errors` lists all of the
library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.extras import MissingExtra, needs_extra

if TYPE_CHECKING:
    from penstock.arrow.batches import UndecodableRecord
    from penstock.arrow.loss import DataLoss
    from penstock.arrow.topic_scan import TopicScan, read
    from penstock.client.errors import ClientError, NothingListens, ServerUnreachable, UnknownPartition
    from penstock.client.settings import ConfigError
    from penstock.protocol.batch import CorruptBatch, MalformedRecords

__all__ = [
    "ClientError",
    "ConfigError",
    "CorruptBatch",
    "DataLoss",
    "MalformedRecords",
    "MissingExtra",
    "NothingListens",
    "PenstockError",
    "ServerUnreachable",
    "TopicScan",
    "UndecodableRecord",
    "UnknownPartition",
    "read",
]

_MODULES: Final = {
    "ClientError": "penstock.client.errors",
    "ConfigError": "penstock.client.settings",
    "CorruptBatch": "penstock.protocol.batch",
    "DataLoss": "penstock.arrow.loss",
    "MalformedRecords": "penstock.protocol.batch",
    "NothingListens": "penstock.client.errors",
    "ServerUnreachable": "penstock.client.errors",
    "TopicScan": "penstock.arrow.topic_scan",
    "UndecodableRecord": "penstock.arrow.batches",
    "UnknownPartition": "penstock.client.errors",
    "read": "penstock.arrow.topic_scan",
}


def __getattr__(name: str) -> object:
    """Import a name on its first use: the broker and all who import a part must not pay for Arrow."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("arrow", f"penstock.{name}"):
        found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
