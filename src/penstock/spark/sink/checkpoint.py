"""The parts of a query's checkpoint that the sink reads, and the files that it keeps there.

Spark's part: ``metadata`` with the query's id, and ``offsets/<batch>``, the log of what each batch reads,
which Spark writes before the batch runs and does not change if the batch runs again. The sink's part, under
``penstock/``: the batches staged by tasks, and ``sink.json``, which records the first batch for which the
cluster must hold a marker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from penstock.client.connections.metadata import TopicPartition
from penstock.client.settings import ConfigError
from penstock.errors import PenstockError
from penstock.spark.sink.locations import Location

GROUP_KEY: Final = "@group"
"""The key beside topics in the offsets of a ``penstock`` source: ``{"id": group, "cluster": cluster id}``."""
MEMBERS_KEY: Final = "@members"
"""The key that replaces topics in the offsets of a host (`penstock.spark.hosting`).

Its value is ``{number: {"starts": …, "at": offsets, "group": …}}``, with a group only for members that the
batch moves.
"""

_OPTION: Final = "checkpointLocation"
_STATE_VERSION: Final = 1


class CheckpointError(PenstockError):
    """The checkpoint is missing, is damaged, or does not match what the cluster holds."""


class Planned(NamedTuple):
    """The member of a host for which a part of a batch was planned, and its start (`hosting.roster`)."""

    number: int
    starts: int


class GroupOffsets(NamedTuple):
    """The offsets where one source's part of a batch ends, for the consumer group that the source keeps.

    ``member`` is None, except in the query of a host.
    """

    group_id: str
    cluster_id: str | None
    offsets: Mapping[TopicPartition, int]
    member: Planned | None = None


class OffsetEntry(NamedTuple):
    """A batch in the offset log; its ``fingerprint`` differs if anything in the entry differs."""

    fingerprint: str
    groups: tuple[GroupOffsets, ...]


class SinkState(NamedTuple):
    """The content of ``sink.json``.

    Batches from ``since`` on have a marker, which is the group's offset of partition 0 of ``marker_topic``.
    """

    since: int
    marker_topic: str
    cluster_id: str | None


class Checkpoint:
    def __init__(self, location: Location) -> None:
        self.location = location
        self.staging = location.child("penstock", "staging")
        self._state = location.child("penstock", "sink.json")

    @classmethod
    def open(cls, uri: str) -> Checkpoint:
        """Open the checkpoint at this URI. Raises ConfigError."""
        return cls(Location.open(uri, _OPTION))

    def query_id(self) -> str | None:
        """The query's id, or None until Spark has written the checkpoint's ``metadata``."""
        data = self.location.child("metadata").read()
        if data is None:
            return None
        try:
            return str(json.loads(data)["id"])
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{self.location.uri}/metadata names no query: found {data[:80]!r}"
            ) from None

    def require_query_id(self) -> str:
        found = self.query_id()
        if found is None:
            raise ConfigError(
                f"option '{_OPTION}': the sink finds no file 'metadata' in {self.location.uri!r}, because "
                "Spark resolves this name in another file system: write it as a URI with its scheme"
            )
        return found

    def offset_entry(self, batch_id: int) -> OffsetEntry:
        """Return the batch's entry in the offset log. Raises CheckpointError."""
        data = self.location.child("offsets", str(batch_id)).read()
        if data is None:
            raise CheckpointError(f"the offset log of {self.location.uri!r} has no batch {batch_id}")
        return parse_offset_entry(data)

    def state(self) -> SinkState | None:
        """The sink's state, or None before its first batch. Raises CheckpointError."""
        data = self._state.read()
        if data is None:
            return None
        try:
            fields = json.loads(data)
            if fields["version"] > _STATE_VERSION:
                raise CheckpointError(
                    f"{self._state.uri} has version {fields['version']}, expected at most {_STATE_VERSION}"
                )
            return SinkState(int(fields["since"]), str(fields["marker_topic"]), fields["cluster_id"])
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(f"{self._state.uri} is damaged: {data[:80]!r}") from None

    def set_state(self, state: SinkState) -> None:
        fields = {"version": _STATE_VERSION} | state._asdict()
        self._state.write(json.dumps(fields).encode())

    def remove_staged(self, up_to: int) -> None:
        """Delete what tasks staged for batches up to this one, including attempts that lost."""
        for name in self.staging.names():
            if name.isdigit() and int(name) <= up_to:
                self.staging.child(name).remove()


def parse_offset_entry(data: bytes) -> OffsetEntry:
    """Parse an entry of either version of the log. Raises CheckpointError.

    Version 1 has a line for each source, in their order; version 2 puts a source's id and a colon before its
    offsets. The offsets of other kinds of sources may be any text.
    """
    lines = data.decode().split("\n")
    if len(lines) < 2 or lines[0] not in ("v1", "v2"):
        raise CheckpointError(f"the offset log has an entry of an unknown version: {data[:40]!r}")
    fingerprint = hashlib.sha256(data).hexdigest()[:16]
    return OffsetEntry(fingerprint, tuple(_groups(lines[2:], has_ids=lines[0] == "v2")))


def _groups(lines: list[str], *, has_ids: bool) -> Iterator[GroupOffsets]:
    for line in lines:
        offsets = _offsets(line.partition(":")[2] if has_ids and not line.startswith("{") else line)
        members = offsets.get(MEMBERS_KEY)
        if isinstance(members, dict):
            for number, each in members.items():
                if "group" in each:
                    planned = Planned(int(number), int(each["starts"]))
                    yield _group(each["group"], each["at"])._replace(member=planned)
            continue
        group = offsets.pop(GROUP_KEY, None)
        if isinstance(group, dict):
            yield _group(group, offsets)


def _group(group: Mapping[str, Any], offsets: Mapping[str, Any]) -> GroupOffsets:
    return GroupOffsets(
        str(group["id"]),
        group.get("cluster"),
        {
            TopicPartition(topic, int(number)): int(offset)
            for topic, partitions in offsets.items()
            if not topic.startswith("@")
            for number, offset in partitions.items()
        },
    )


def _offsets(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
