"""What the active controller alone knows of brokers: when each was last heard of, and how far it has read.

Kafka's BrokerHeartbeatManager. None of it is in the metadata log, which would grow with every heartbeat; a
controller that takes over starts anew and gives every unfenced broker a whole session. Times are of a clock
that is never set, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.metadata.image import BrokerRegistration

_UNKNOWN: Final = -1


@dataclass(slots=True)
class _Heartbeats:
    """``metadata_offset`` is the last record that the broker has told to have replayed."""

    metadata_offset: int = _UNKNOWN
    controlled_shutdown_offset: int = _UNKNOWN
    """Who has replayed that record no longer sends clients to the broker; -1 if it isn't about to stop."""


@dataclass(slots=True, frozen=True)
class _Session:
    """The incarnation that was heard of, and when."""

    broker_epoch: int
    last_contact_ms: int


class BrokerHeartbeats:
    """Sessions and offsets by broker id. ``session_timeout_ms`` is ``broker.session.timeout.ms``."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, _Heartbeats] = {}
        self._sessions: dict[int, _Session] = {}
        self._registration_offsets: dict[int, int] = {}

    def take_over(self, brokers: Iterable[BrokerRegistration], last_offset: int, now_ms: int) -> None:
        """Begin anew, with every unfenced broker of the image as if heard of now.

        ``last_offset`` is that of the image: no registration in it is newer.
        """
        self._brokers, self._sessions, self._registration_offsets = {}, {}, {}
        for broker in brokers:
            self.registered(broker.broker_id, last_offset)
            if not broker.fenced:
                self.heard_of(broker.broker_id, broker.epoch, now_ms)

    # Sessions

    def heard_of(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker has sent a heartbeat."""
        self._sessions[broker_id] = _Session(broker_epoch, now_ms)

    def has_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether this incarnation of the broker must be taken to be alive."""
        session = self._sessions.get(broker_id)
        return (
            session is not None
            and session.broker_epoch == broker_epoch
            and not self._is_expired(session, now_ms)
        )

    def end_session(self, broker_id: int) -> None:
        """The broker may stop now: its next incarnation need not wait for this one's session to time out."""
        self._sessions.pop(broker_id, None)

    def pop_expired(self, now_ms: int) -> tuple[int, int] | None:
        """Id and epoch of the broker that has been silent for longest, once that is more than a session."""
        if not self._sessions:
            return None
        broker_id = min(self._sessions, key=lambda known: (self._sessions[known].last_contact_ms, known))
        session = self._sessions[broker_id]
        if not self._is_expired(session, now_ms):
            return None
        del self._sessions[broker_id]
        return broker_id, session.broker_epoch

    def since_last_contact_ms(self, broker_id: int, now_ms: int) -> int | None:
        """For how long a broker has been silent; None if it has no session."""
        session = self._sessions.get(broker_id)
        return None if session is None else now_ms - session.last_contact_ms

    def forgive(self, silence_ms: int) -> None:
        """The controller itself has heard nobody for so long (its process was stopped): blame no broker."""
        self._sessions = {
            broker_id: _Session(session.broker_epoch, session.last_contact_ms + silence_ms)
            for broker_id, session in self._sessions.items()
        }

    def _is_expired(self, session: _Session, now_ms: int) -> bool:
        return session.last_contact_ms + self.session_timeout_ms < now_ms

    # Offsets

    def registered(self, broker_id: int, offset: int) -> None:
        """A broker's registration is, or will be, the record at ``offset``."""
        self._brokers[broker_id] = _Heartbeats()
        self._registration_offsets[broker_id] = offset

    def registration_changed(self, broker_id: int) -> None:
        """How far the broker has read is not known again before its next heartbeat."""
        broker = self._brokers.setdefault(broker_id, _Heartbeats())
        broker.metadata_offset = _UNKNOWN

    def unregistered(self, broker_id: int) -> None:
        """Forget a broker. Its session is left to run out, as nothing depends on it."""
        self._brokers.pop(broker_id, None)
        self._registration_offsets.pop(broker_id, None)

    def registration_offset(self, broker_id: int) -> int:
        """The offset of a broker's registration, or a later one."""
        return self._registration_offsets[broker_id]

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int) -> None:
        """A heartbeat told ``metadata_offset``, and left the broker fenced or not.

        A broker that is fenced is not in controlled shutdown any more: it may stop at once.
        """
        broker = self._brokers.setdefault(broker_id, _Heartbeats())
        broker.metadata_offset = metadata_offset
        if fenced:
            broker.controlled_shutdown_offset = _UNKNOWN

    def is_shutting_down(self, broker_id: int) -> bool:
        broker = self._brokers.get(broker_id)
        return broker is not None and broker.controlled_shutdown_offset >= 0

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """The broker has asked to stop; the records that move its leaderships end at ``offset``."""
        broker = self._brokers[broker_id]
        if broker.controlled_shutdown_offset < 0:
            broker.controlled_shutdown_offset = offset

    def controlled_shutdown_offset(self, broker_id: int) -> int:
        return self._brokers[broker_id].controlled_shutdown_offset

    def lowest_offset(self, broker_ids: Iterable[int]) -> int | None:
        """The offset that all of these brokers have replayed; None for no brokers."""
        return min(
            (self._brokers.setdefault(broker_id, _Heartbeats()).metadata_offset for broker_id in broker_ids),
            default=None,
        )
