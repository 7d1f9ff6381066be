"""Settings that belong together: what a session and a streams application do for latency or for throughput.

Each setting says what it is for; docs/streams-clusters.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

ProfileName = Literal["quick", "steady", "low-latency", "throughput"]


@dataclass(frozen=True, slots=True)
class Profile:
    """``jvm_options`` and ``launch`` count when the JVM starts; the others for an application in any session.

    ``shuffle_partitions``: tasks that work on state, None: one for each core. ``options``: of the source,
    where the application sets no others.
    """

    jvm_options: str = ""
    launch: Mapping[str, str] = field(default_factory=dict)
    shuffle_partitions: int | None = None
    commit_interval_ms: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


# The first compiler alone: a session starts and answers its first query in about two thirds of the time. From
# half a minute of steady work on, the second compiler has earned its start-up back.
_ONE_COMPILER: Final = "-XX:TieredStopAtLevel=1"

PROFILES: Final[Mapping[ProfileName, Profile]] = {
    # Tests, and jobs of a few seconds.
    "quick": Profile(jvm_options=_ONE_COMPILER),
    # Queries that stay: the defaults.
    "steady": Profile(),
    "low-latency": Profile(
        # Small batches never keep the JVM busy: it is ready sooner, and the second compiler's threads don't
        # take the processor from the batch in hand.
        jvm_options=_ONE_COMPILER,
        # Each task of a batch costs a round through scheduler, Python worker and state store.
        shuffle_partitions=1,
        options={
            "maxPartitions": "1",
            # After a pause the first batch is no longer than this: results keep coming while it catches up.
            "maxOffsetsPerTrigger": "50000",
        },
    ),
    "throughput": Profile(
        # Pauses of the collector don't matter, and it takes less of the processor than the default, G1.
        jvm_options="-XX:+UseParallelGC",
        # What a batch costs whatever its size (planning, offsets, commit, transaction: about 0.1 s) is spread
        # over a second of records.
        commit_interval_ms=1000,
        # Memory is that of a batch, however far behind the application is.
        options={"maxOffsetsPerTrigger": "1000000"},
    ),
}

assert set(PROFILES) == set(get_args(ProfileName))
