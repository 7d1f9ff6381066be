"""The marker: which batch of a query was published last, kept by the cluster itself.

It is the offset of partition 0 of one topic in a consumer group of the sink's own, committed in the same
transaction as the batch. A transaction that is open shows as an unstable offset; no other query's transaction
can hide it, as would happen in a topic that queries share.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import Final

from penstock.client.groups import CommittedOffset

GROUP_PREFIX: Final = "penstock-sink-"
#: Metadata of an offset may have 4096 bytes (offset.metadata.max.bytes): 16 run ids take 640.
PAST_RUNS_MAX: Final = 16


class MarkerDamaged(Exception):
    """The offset that should be the sink's marker was committed by somebody else."""


@dataclass(frozen=True, slots=True)
class Marker:
    """``fingerprint`` is that of the batch's entry in the offset log, ``past`` the earlier runs in order."""

    batch_id: int
    fingerprint: str
    run_id: str
    past: tuple[str, ...] = ()

    def to_offset(self) -> CommittedOffset:
        """The offset is that of the batch to come."""
        fields = {
            "batch": self.batch_id,
            "entry": self.fingerprint,
            "run": self.run_id,
            "past": list(self.past),
        }
        return CommittedOffset(self.batch_id + 1, metadata=json.dumps(fields, separators=(",", ":")))

    @classmethod
    def from_offset(cls, committed: CommittedOffset, group_id: str) -> Marker:
        """Raises MarkerDamaged."""
        marker: Marker | None = None
        with contextlib.suppress(ValueError, KeyError, TypeError):
            fields = json.loads(committed.metadata)
            past = tuple(map(str, fields["past"]))
            marker = cls(int(fields["batch"]), str(fields["entry"]), str(fields["run"]), past)
        if marker is None or marker.batch_id + 1 != committed.offset:
            raise MarkerDamaged(
                f"the group '{group_id}' belongs to an exactly-once sink, but its offset {committed.offset} "
                f"was committed by somebody else: found the metadata {committed.metadata[:80]!r}"
            )
        return marker

    def past_of(self, run_id: str) -> tuple[str, ...]:
        """The earlier runs as ``run_id``, which follows this marker, has to keep them."""
        if run_id == self.run_id:
            return self.past
        return (*self.past, self.run_id)[-PAST_RUNS_MAX:]
