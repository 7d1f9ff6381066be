"""The options of an application's source and sink, from what it was started with and where little is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from penstock.client.config import ClientConfig
from penstock.client.settings import property_names
from penstock.spark.profiles import Profile
from penstock.spark.sink.options import SinkOptions, parse_sink
from penstock.spark.source.options import SourceOptions, parse_streaming
from penstock.spark.streams.plan import LAYOUT, map_side_parts
from penstock.topology.graph import Topology

Guarantee = Literal["exactly-once", "at-least-once"]

#: Of a topology with state where nothing else is said. A task holds its records of a batch in memory, so that
#: it can order them: without a limit the first batch would be all that the topics hold.
BATCH_RECORDS: Final = 1_000_000

#: How servers are talked to: names, patience, security.
_OPTIONS_OF_BOTH: Final = frozenset(f"kafka.{name}" for name in property_names(ClientConfig))
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
    """The profile's options, where no other was given; Spark's option names are the same in upper and lower
    case."""
    bounded = {"maxOffsetsPerTrigger": str(BATCH_RECORDS)} if has_state(topology) else {}
    known = {name.lower() for name in given}
    defaults = bounded | dict(profile.options)
    return {name: value for name, value in defaults.items() if name.lower() not in known} | dict(given)


def source_options(
    bootstrap_servers: str, given: Mapping[str, str], own: Mapping[str, str], tasks_max: int
) -> SourceOptions:
    """Of an application's source: what was ``given`` for source and sink, and its ``own``. ``tasks_max``:
    where nothing else is said. Raises ConfigError."""
    options = {"maxPartitions": str(tasks_max)}
    options |= {name: value for name, value in given.items() if name.lower() not in _SINK_OPTIONS}
    options |= {"kafka.bootstrap.servers": bootstrap_servers, **own}
    return replace(parse_streaming(options), layout=LAYOUT)


def sink_options(
    bootstrap_servers: str, given: Mapping[str, str], guarantee: Guarantee, checkpoint: str
) -> SinkOptions:
    """Raises ConfigError."""
    of_the_sink = _SINK_OPTIONS | _OPTIONS_OF_BOTH
    options = {name: value for name, value in given.items() if name.lower() in of_the_sink}
    options |= {"kafka.bootstrap.servers": bootstrap_servers}
    return parse_sink(options | {"delivery": guarantee, "checkpointLocation": checkpoint})


def has_state(topology: Topology) -> bool:
    """Whether any part of it runs behind the shuffle."""
    mapped = map_side_parts(topology)
    return any(part.id not in mapped for part in topology.sub_topologies)
