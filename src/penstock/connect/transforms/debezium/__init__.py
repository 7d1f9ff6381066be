"""Debezium's transforms, under the names of its classes and of their configurations.

They change records with Debezium's envelope, which the connectors for databases write, and let all others
pass.
"""

from penstock.connect.transforms.debezium.event_router import EventRouter
from penstock.connect.transforms.debezium.new_record_state import ExtractNewRecordState

__all__ = ["EventRouter", "ExtractNewRecordState"]
