"""The random choices of a seed: the nodes of a cluster, its clients, and how often faults happen."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from penstock.testing.simulator.layout import Layout

LAYOUTS: Final = (
    Layout((1,), (1,)),
    Layout((1, 2, 3), (1, 2, 3)),
    Layout((1, 2, 3, 4, 5), (1, 2, 3, 4, 5)),
    Layout((1, 2, 3), (1, 2, 3), first_voters=(1, 2, 3)),
    Layout((1, 2, 3, 4), (1, 2, 3, 4), first_voters=(1, 2, 3)),
    Layout((1, 2, 3), (11, 12, 13)),
    Layout((1, 2, 3), (11, 12, 13, 14), first_voters=(11, 12, 13)),
)
LAYOUT_WEIGHTS: Final = (2, 8, 1, 4, 3, 2, 2)


@dataclass(frozen=True)
class Scenario:
    """The parameters of one simulation; `of` draws them from a seed."""

    layout: Layout
    partitions: int
    producers: int
    transactors: int
    members: int
    pause_s: float
    fault_pause_s: float
    duration_s: float
    shares_id: bool
    """Whether transactional producers share one id, and so fence each other."""
    segment_bytes: int
    topics_change: bool
    """Whether a topic is repeatedly deleted and recreated, and topics get more partitions."""
    deletes_records: bool
    log_directories: int
    """The number of log directories of each node."""
    grows: bool
    """Whether the last of more than three brokers joins while the others run."""
    has_guests: bool
    """Whether there are clients that need permissions, which change while they work."""

    @classmethod
    def of(cls, rng: Random) -> Scenario:
        return cls(
            layout=rng.choices(LAYOUTS, LAYOUT_WEIGHTS)[0],
            partitions=rng.randint(1, 3),
            producers=rng.randint(1, 3),
            transactors=rng.choice((0, 1, 1, 2)),
            members=rng.choice((0, 2, 3)),
            pause_s=rng.choice((0.03, 0.06, 0.2)),
            fault_pause_s=rng.choice((0.5, 1.0, 2.0, 4.0)),
            duration_s=rng.uniform(4, 8),
            shares_id=rng.random() < 0.3,
            segment_bytes=rng.choice((1_500, 6_000, 1_000_000)),
            topics_change=rng.random() < 0.4,
            deletes_records=rng.random() < 0.4,
            log_directories=rng.choice((1, 1, 2, 3)),
            grows=rng.random() < 0.5,
            has_guests=rng.random() < 0.4,
        )
