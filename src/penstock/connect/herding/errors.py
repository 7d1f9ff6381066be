"""The refusals of herders.

    HerderError                 500
      NotFound                  404
      AlreadyExists             409
      Conflict                  409
      BadRequest                400
      RebalanceNeeded           409, or 500 for requests that only read
      WrongWorker               forwarded to another worker
        NotLeader
        NotAssigned

Beside them, `penstock.connect.group.session_keys.RequestNotAuthentic` refuses an internal request, with a
status of its own.
"""

from __future__ import annotations

from typing import ClassVar

from penstock.connect.errors import ConnectError


class HerderError(ConnectError):
    """An operation failed; the REST API answers with ``status``."""

    status: ClassVar[int] = 500


class NotFound(HerderError):
    """A connector, task, plugin or logger does not exist."""

    status = 404


class AlreadyExists(HerderError):
    """The connector to be created exists already."""

    status = 409


class Conflict(HerderError):
    """Another operation, such as new configurations of tasks, overtook this one."""

    status = 409


class BadRequest(HerderError):
    """The operation is not possible with this configuration or in this state."""

    status = 400


class RebalanceNeeded(HerderError):
    """The group is about to rebalance, so this worker does not know yet what it would answer."""

    def __init__(self) -> None:
        super().__init__("Request cannot be completed because a rebalance is expected")


class WrongWorker(HerderError):
    """Another worker has to perform the operation.

    ``forward_url`` is the URL of that worker's REST API; None if this worker does not know it at the moment.
    """

    def __init__(self, message: str, forward_url: str | None) -> None:
        super().__init__(message)
        self.forward_url = forward_url


class NotLeader(WrongWorker):
    """Only the leader performs this operation."""


class NotAssigned(WrongWorker):
    """Another worker runs this connector or task."""
