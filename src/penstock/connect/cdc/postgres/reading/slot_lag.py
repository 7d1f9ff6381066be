"""Watches how far a slot is behind the server's WAL, which the server keeps on its disk for the slot.

A thread of its own asks the server, because the stream may wait for its records to be written, and that is
when the lag grows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NamedTuple

import psycopg

from penstock.connect.cdc.postgres.framing import format_lsn
from penstock.connect.cdc.postgres.reading.connecting import Server
from penstock.connect.errors import ConnectError

log = logging.getLogger(__name__)

_QUERY: Final = """
select (now_at - confirmed_flush_lsn)::int8, (now_at - restart_lsn)::int8, (confirmed_flush_lsn - '0/0')::int8
from pg_replication_slots, lateral (
    select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end
) w(now_at)
where slot_name = %s"""


@dataclass(frozen=True)
class LagSettings:
    """The time between looks, and the most bytes of WAL that the slot may keep; 0 for no limit."""

    interval_s: float
    most_bytes: int
    fails: bool

    @staticmethod
    def of(properties: Mapping[str, str]) -> LagSettings:
        """Read ``slot.lag.*``."""
        return LagSettings(
            int(properties.get("slot.lag.check.interval.ms", "60000")) / 1000,
            int(properties.get("slot.lag.max.bytes", "0")),
            properties.get("slot.lag.action", "warn").lower() == "fail",
        )


class Lag(NamedTuple):
    """Bytes of WAL that are not confirmed yet, bytes that the server keeps, and the confirmed position."""

    behind: int
    kept: int
    confirmed: int


class SlotWatch:
    """The thread. ``fail`` gets the error if the slot keeps too much and the settings say so."""

    def __init__(
        self, server: Server, slot: str, settings: LagSettings, fail: Callable[[ConnectError], None]
    ) -> None:
        self._server = server
        self._slot = slot
        self._settings = settings
        self._fail = fail
        self._stopping = threading.Event()
        self._lag: Lag | None = None
        self._thread = threading.Thread(target=self._run, name=f"lag {slot}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def gauges(self) -> Mapping[str, float]:
        """The last numbers, for metrics."""
        lag = self._lag
        if lag is None:
            return {}
        return {
            "slot_behind_bytes": lag.behind,
            "slot_kept_bytes": lag.kept,
            "slot_confirmed_lsn": lag.confirmed,
        }

    def stop(self) -> None:
        """Let the thread end, without waiting for it."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._lag = self._look()
            except psycopg.Error as error:
                log.warning("slot lag is not known slot=%s reason=%s", self._slot, error)
            else:
                if self._lag is not None and not self._is_allowed(self._lag):
                    return
            self._stopping.wait(self._settings.interval_s)

    def _look(self) -> Lag | None:
        with closing(self._server.connect("lag")) as connection:
            row = connection.execute(_QUERY.encode(), [self._slot]).fetchone()
        return None if row is None or None in row else Lag(*row)

    def _is_allowed(self, lag: Lag) -> bool:
        """Log the lag; False if the task has to fail."""
        numbers = (self._slot, lag.behind, lag.kept, format_lsn(lag.confirmed))
        text = "slot lag slot=%s behind_bytes=%s kept_bytes=%s confirmed_lsn=%s"
        most = self._settings.most_bytes
        if not most or lag.kept <= most:
            log.info(text, *numbers)
            return True
        log.warning(f"{text} slot.lag.max.bytes=%s", *numbers, most)
        if self._settings.fails:
            self._fail(
                ConnectError(
                    f"the slot {self._slot} keeps {lag.kept} bytes of the server's WAL; slot.lag.max.bytes "
                    f"allows {most}. Let the task catch up with a higher limit, or drop the slot"
                )
            )
        return not self._settings.fails
