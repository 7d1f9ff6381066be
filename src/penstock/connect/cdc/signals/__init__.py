"""Signals: what a user asks of a running connector, such as a snapshot of some tables (Debezium's signals).

`messages` reads signals, `channels` fetches them from files and topics, and `settings` has the configuration.
`progress` is the state of incremental snapshots as offsets hold it, and `window` keeps the rows of a chunk
until the stream has caught up with them. Nothing here knows a database; the rooms of databases use it.
"""

from penstock.connect.cdc.signals.channels import SignalChannel, SignalReader, open_channels
from penstock.connect.cdc.signals.messages import Signal, SnapshotRequest, signal_of_row
from penstock.connect.cdc.signals.progress import DataCollection, Progress
from penstock.connect.cdc.signals.settings import SignalSettings
from penstock.connect.cdc.signals.window import ChunkWindow, window_key

__all__ = [
    "ChunkWindow",
    "DataCollection",
    "Progress",
    "Signal",
    "SignalChannel",
    "SignalReader",
    "SignalSettings",
    "SnapshotRequest",
    "open_channels",
    "signal_of_row",
    "window_key",
]
