"""The marker: the batch of a query that was published last, kept in the cluster itself.

It is the offset of partition 0 of one topic in the sink's own consumer group, committed in the same
transaction as the batch. While a transaction is open, the group reports an unstable offset. No other query's
transaction can hide that, as it could if queries shared a topic for their markers.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from typing import Final

from penstock.client.errors import ClientError
from penstock.client.groups.consumer_group import CommittedOffset

GROUP_PREFIX: Final = "penstock-sink-"
PAST_MAX: Final = 16
"""The number of past runs and of past drivers in a marker.

An offset's metadata may have 4096 bytes (offset.metadata.max.bytes): 16 runs take 640, 16 drivers 240.
"""


class MarkerDamaged(ClientError):
    """The offset that should be the sink's marker was committed by another program."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The state of a query's output after the batch ``batch_id``.

    ``fingerprint`` is that of the batch's entry in the offset log; ``past`` lists earlier runs in order.
    ``driver_id`` names the driver that may publish next, "" if none has claimed the query; ``past_drivers``
    are the drivers that it has replaced.
    """

    batch_id: int
    fingerprint: str
    run_id: str
    past: tuple[str, ...] = ()
    driver_id: str = ""
    past_drivers: tuple[str, ...] = ()

    def to_offset(self) -> CommittedOffset:
        """Convert the marker to an offset, whose number is that of the next batch."""
        fields = {
            "batch": self.batch_id,
            "entry": self.fingerprint,
            "run": self.run_id,
            "past": list(self.past),
            "driver": self.driver_id,
            "past_drivers": list(self.past_drivers),
        }
        return CommittedOffset(self.batch_id + 1, metadata=json.dumps(fields, separators=(",", ":")))

    @classmethod
    def from_offset(cls, committed: CommittedOffset, group_id: str) -> Marker:
        """Parse a committed marker. Raises MarkerDamaged."""
        marker: Marker | None = None
        with contextlib.suppress(ValueError, KeyError, TypeError):
            fields = json.loads(committed.metadata)
            marker = cls(
                int(fields["batch"]),
                str(fields["entry"]),
                str(fields["run"]),
                tuple(map(str, fields["past"])),
                str(fields["driver"]),
                tuple(map(str, fields["past_drivers"])),
            )
        if marker is None or marker.batch_id + 1 != committed.offset:
            raise MarkerDamaged(
                f"the group '{group_id}' belongs to an exactly-once sink, but its offset {committed.offset} "
                f"was committed by another program: found the metadata {committed.metadata[:80]!r}"
            )
        return marker

    def past_of(self, run_id: str) -> tuple[str, ...]:
        """Return the earlier runs for a marker that ``run_id`` writes after this one."""
        if run_id == self.run_id:
            return self.past
        return (*self.past, self.run_id)[-PAST_MAX:]

    def of_driver(self, driver_id: str) -> Marker:
        """Return the marker once ``driver_id`` has taken over; an unknown driver ("") changes nothing."""
        if driver_id in ("", self.driver_id):
            return self
        past = (*self.past_drivers, self.driver_id) if self.driver_id else self.past_drivers
        return replace(self, driver_id=driver_id, past_drivers=past[-PAST_MAX:])
