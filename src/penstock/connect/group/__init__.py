"""The group of Connect's workers: how they share connectors and tasks, and how they trust each other.

The bytes of the group protocol, the assignors and the signatures are pure. `WorkerGroup` is a worker's
membership on the wire; it reads no topics, so its owner says what the config topic holds.
"""

from penstock.connect.group.assignment import Assignment, Configured, ConnectProtocol, Work, WorkerState
from penstock.connect.group.session_keys import KeyRotation, RequestNotAuthentic, SessionKey, check, sign
from penstock.connect.group.settings import GroupSettings
from penstock.connect.group.worker_group import Listener, WorkerGroup

__all__ = [
    "Assignment",
    "Configured",
    "ConnectProtocol",
    "GroupSettings",
    "KeyRotation",
    "Listener",
    "RequestNotAuthentic",
    "SessionKey",
    "Work",
    "WorkerGroup",
    "WorkerState",
    "check",
    "sign",
]
