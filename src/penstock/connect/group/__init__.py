"""The group of Connect's workers: how they share connectors and tasks, and how they trust each other.

The bytes of the group protocol, the assignors and the signatures are pure.
"""

from penstock.connect.group.assignment import (
    Assignment,
    Configured,
    ConnectorTaskId,
    ConnectProtocol,
    Work,
    WorkerState,
)
from penstock.connect.group.leading import GroupLeader
from penstock.connect.group.session_keys import KeyRotation, RequestNotAuthentic, SessionKey, check, sign

__all__ = [
    "Assignment",
    "Configured",
    "ConnectProtocol",
    "ConnectorTaskId",
    "GroupLeader",
    "KeyRotation",
    "RequestNotAuthentic",
    "SessionKey",
    "Work",
    "WorkerState",
    "check",
    "sign",
]
