"""The state of brokers that only the active controller has: last heartbeats and replayed offsets.

This is Kafka's BrokerHeartbeatManager. The state is not in the metadata log, which would grow with every
heartbeat. A controller that takes over starts with empty state, and gives every unfenced broker a full
session. Times are in milliseconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.metadata.image import BrokerRegistration

_UNKNOWN: Final = -1


@dataclass(slots=True)
class _Heartbeats:
    """The offsets of one broker; ``metadata_offset`` is the last record it reported as replayed."""

    metadata_offset: int = _UNKNOWN
    controlled_shutdown_offset: int = _UNKNOWN
    """Brokers that replayed this record send no clients to the stopping one; -1 if it is not stopping."""


@dataclass(slots=True, frozen=True)
class _Session:
    """The incarnation that sent the last heartbeat, and the time of that heartbeat."""

    broker_epoch: int
    last_contact_ms: int


class BrokerHeartbeats:
    """The sessions and offsets of all brokers; ``session_timeout_ms`` is ``broker.session.timeout.ms``."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, _Heartbeats] = {}
        self._sessions: dict[int, _Session] = {}
        self._registration_offsets: dict[int, int] = {}

    def take_over(self, brokers: Iterable[BrokerRegistration], last_offset: int, now_ms: int) -> None:
        """Start over, as if every unfenced broker of the image had just sent a heartbeat.

        ``last_offset`` is the image's offset, and no registration in the image is newer.
        """
        self._brokers, self._sessions, self._registration_offsets = {}, {}, {}
        for broker in brokers:
            self.registered(broker.broker_id, last_offset)
            if not broker.fenced:
                self.heard_of(broker.broker_id, broker.epoch, now_ms)

    # Sessions

    def heard_of(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Note a heartbeat of a broker."""
        self._sessions[broker_id] = _Session(broker_epoch, now_ms)

    def has_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether this incarnation of the broker counts as alive."""
        session = self._sessions.get(broker_id)
        return (
            session is not None
            and session.broker_epoch == broker_epoch
            and not self._is_expired(session, now_ms)
        )

    def end_session(self, broker_id: int) -> None:
        """End a stopping broker's session, so that its next incarnation need not wait for the timeout."""
        self._sessions.pop(broker_id, None)

    def pop_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Remove the broker that has been silent the longest, if its session expired; return id and epoch."""
        if not self._sessions:
            return None
        broker_id = min(self._sessions, key=lambda known: (self._sessions[known].last_contact_ms, known))
        session = self._sessions[broker_id]
        if not self._is_expired(session, now_ms):
            return None
        del self._sessions[broker_id]
        return broker_id, session.broker_epoch

    def since_last_contact_ms(self, broker_id: int, now_ms: int) -> int | None:
        """The time since a broker's last heartbeat; None if it has no session."""
        session = self._sessions.get(broker_id)
        return None if session is None else now_ms - session.last_contact_ms

    def forgive(self, silence_ms: int) -> None:
        """Extend all sessions by a pause in which this process was stopped and received no heartbeats."""
        self._sessions = {
            broker_id: _Session(session.broker_epoch, session.last_contact_ms + silence_ms)
            for broker_id, session in self._sessions.items()
        }

    def _is_expired(self, session: _Session, now_ms: int) -> bool:
        return session.last_contact_ms + self.session_timeout_ms < now_ms

    # Offsets

    def registered(self, broker_id: int, offset: int) -> None:
        """Start tracking a broker whose registration is, or will be, the record at ``offset``."""
        self._brokers[broker_id] = _Heartbeats()
        self._registration_offsets[broker_id] = offset

    def registration_changed(self, broker_id: int) -> None:
        """Reset the broker's offset, which stays unknown until its next heartbeat."""
        broker = self._brokers.setdefault(broker_id, _Heartbeats())
        broker.metadata_offset = _UNKNOWN

    def unregistered(self, broker_id: int) -> None:
        """Remove a broker; its session may expire on its own, because nothing depends on it."""
        self._brokers.pop(broker_id, None)
        self._registration_offsets.pop(broker_id, None)

    def registration_offset(self, broker_id: int) -> int:
        """The offset of a broker's registration, or a later one."""
        return self._registration_offsets[broker_id]

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int) -> None:
        """Note the ``metadata_offset`` of a heartbeat, and whether the broker is fenced after it.

        A fenced broker is no longer in controlled shutdown, because it may stop at once.
        """
        broker = self._brokers.setdefault(broker_id, _Heartbeats())
        broker.metadata_offset = metadata_offset
        if fenced:
            broker.controlled_shutdown_offset = _UNKNOWN

    def is_shutting_down(self, broker_id: int) -> bool:
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.controlled_shutdown_offset >= 0

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """Note that the broker wants to stop; the records that move its leaderships end at ``offset``."""
        broker = self._brokers[broker_id]
        if broker.controlled_shutdown_offset < 0:
            broker.controlled_shutdown_offset = offset

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        return self._brokers[broker_id].controlled_shutdown_offset

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """The offset up to which all of these brokers have replayed the log; None if there are no brokers."""
        return min(
            (self._brokers.setdefault(broker_id, _Heartbeats()).metadata_offset for broker_id in broker_ids),
            default=None,
        )
