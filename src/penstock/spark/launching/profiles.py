"""Settings that belong together: how a session and a streams application favor latency or throughput.

Each setting has its reason beside it; docs/streams-clusters.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

ProfileName = Literal["quick", "steady", "low-latency", "throughput"]


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of one profile.

    ``jvm_options`` apply when the JVM starts, the other settings to an application in any session.
    ``shuffle_partitions`` is the number of tasks that work on state; None means one for each core.
    ``options`` are defaults for the source, which the application's own options override.
    """

    jvm_options: str = ""
    shuffle_partitions: int | None = None
    commit_interval_ms: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


# With the first compiler (C1) alone, a session starts and answers its first query in about two thirds of the
# time. The second compiler repays its start-up cost after half a minute of steady work.
_ONE_COMPILER: Final = "-XX:TieredStopAtLevel=1"

PROFILES: Final[Mapping[ProfileName, Profile]] = {
    # For tests, and jobs of a few seconds.
    "quick": Profile(jvm_options=_ONE_COMPILER),
    # For long-running queries: Spark's defaults.
    "steady": Profile(),
    "low-latency": Profile(
        # Small batches never keep the JVM busy. It is ready sooner this way, and the second compiler's
        # threads don't take the processor from the current batch.
        jvm_options=_ONE_COMPILER,
        # Each task of a batch costs a round trip through scheduler, Python worker and state store.
        shuffle_partitions=1,
        options={
            "maxPartitions": "1",
            # Limits the first batch after a pause, so that results keep coming during the catch-up.
            "maxOffsetsPerTrigger": "50000",
        },
    ),
    "throughput": Profile(
        # Its pauses don't matter here, and this collector uses less processor time than the default, G1.
        jvm_options="-XX:+UseParallelGC",
        # Spreads the fixed cost of a batch (planning, offsets, commit, transaction: about 0.1 s) over a
        # second of records.
        commit_interval_ms=1000,
        # Limits memory to that of one batch, however far behind the application is.
        options={"maxOffsetsPerTrigger": "1000000"},
    ),
}

assert set(PROFILES) == set(get_args(ProfileName))
