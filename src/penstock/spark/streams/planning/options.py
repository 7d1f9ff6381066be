"""The options of an application's source and sink: those given at its start, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from penstock.client.config import ClientConfig
from penstock.client.settings import property_names, resolved
from penstock.spark.launching.profiles import Profile
from penstock.spark.sink.options import SinkOptions, parse_sink
from penstock.spark.source.options import SourceOptions, parse_streaming
from penstock.spark.streams.blocks.layout import LAYOUT
from penstock.spark.streams.planning.plan import map_side_parts
from penstock.topology.graph import Topology

Guarantee = Literal["exactly-once", "at-least-once"]

BATCH_RECORDS: Final = 1_000_000
"""The default limit of a batch for a topology with state.

A task holds its records of a batch in memory to order them. Without a limit, the first batch would be
everything that the topics hold.
"""

_OPTIONS_OF_BOTH: Final = frozenset(f"kafka.{name}" for name in property_names(ClientConfig))
"""The options of connections: addresses, timeouts, security."""
_SINK_OPTIONS: Final = frozenset(
    f"kafka.{name}"
    for name in (
        "batch.size",
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "transaction.timeout.ms",
        "max.request.size",
        "delivery.timeout.ms",
    )
)


def with_defaults(profile: Profile, topology: Topology, given: Mapping[str, str]) -> dict[str, str]:
    """Add the profile's options that are not given. Option names are case-insensitive, as in Spark."""
    bounded = {"maxOffsetsPerTrigger": str(BATCH_RECORDS)} if has_state(topology) else {}
    known = {name.lower() for name in given}
    defaults = bounded | dict(profile.options)
    return {name: value for name, value in defaults.items() if name.lower() not in known} | dict(given)


def source_options(
    bootstrap_servers: str, given: Mapping[str, str], own: Mapping[str, str], tasks_max: int
) -> SourceOptions:
    """Parse the options of an application's source: its ``own``, and those ``given`` for source and sink.

    ``tasks_max`` is the default of ``maxPartitions``. Raises ConfigError.
    """
    options = {"maxPartitions": str(tasks_max)}
    options |= {name: value for name, value in given.items() if name.lower() not in _SINK_OPTIONS}
    options |= {"kafka.bootstrap.servers": bootstrap_servers, **own}
    return in_blocks(parse_streaming(options))


def in_blocks(source: SourceOptions) -> SourceOptions:
    """Let the source read the columns that blocks are made of."""
    return replace(source, layout=replace(LAYOUT, damaged_batches=source.layout.damaged_batches))


def sink_options(
    bootstrap_servers: str, given: Mapping[str, str], guarantee: Guarantee, checkpoint: str
) -> SinkOptions:
    """Parse the options of an application's sink. Raises ConfigError."""
    of_the_sink = _SINK_OPTIONS | _OPTIONS_OF_BOTH
    known = resolved(given, prefix="kafka.")
    options = {name: value for name, value in known.items() if name.lower() in of_the_sink}
    options |= {"kafka.bootstrap.servers": bootstrap_servers}
    return parse_sink(options | {"delivery": guarantee, "checkpointLocation": checkpoint})


def has_state(topology: Topology) -> bool:
    """Whether any part of the topology runs behind the shuffle."""
    mapped = map_side_parts(topology)
    return any(part.id not in mapped for part in topology.sub_topologies)
