"""The application that a checkpoint belongs to, kept in its file ``penstock/streams.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from penstock.spark.sink.locations import Location
from penstock.topology.errors import StreamsError

_VERSION: Final = 1


class CheckpointMismatch(StreamsError):
    """The checkpoint belongs to another application, or to a topology that this one can't continue."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The properties that can't change while the checkpoint is used."""

    application: str
    has_state: bool
    shuffle_partitions: int


def read_kept(where: Location) -> Kept | None:
    """Return what the checkpoint holds, or None if it is new.

    Raises CheckpointMismatch if it belongs to any other kind of query or is damaged.
    """
    file = _file(where)
    data = file.read()
    if data is None:
        if where.child("metadata").read() is not None:
            raise CheckpointMismatch(
                f"the checkpoint {where.uri} is of a query that is not an application of penstock.streams"
            )
        return None
    try:
        fields = json.loads(data)
        if fields["version"] > _VERSION:
            raise CheckpointMismatch(
                f"{file.uri} has version {fields['version']}, expected at most {_VERSION}"
            )
        return Kept(str(fields["application"]), bool(fields["has_state"]), int(fields["shuffle_partitions"]))
    except (ValueError, KeyError, TypeError):
        raise CheckpointMismatch(f"{file.uri} is damaged: {data[:80]!r}") from None


def is_new(where: Location) -> bool:
    """Whether no batch was planned with it yet, so that the next one begins at the group's offsets."""
    return not any(name.isdigit() for name in where.child("offsets").names())


def continue_from(where: Location, wanted: Kept) -> Kept:
    """Return the checkpoint's properties; a new one stores those ``wanted``. Raises CheckpointMismatch."""
    kept = read_kept(where)
    if kept is None:
        fields = {"version": _VERSION, "application": wanted.application, "has_state": wanted.has_state}
        _file(where).write(json.dumps(fields | {"shuffle_partitions": wanted.shuffle_partitions}).encode())
        return wanted
    if kept.application != wanted.application:
        raise CheckpointMismatch(
            f"the checkpoint {where.uri} belongs to the application {kept.application}, not to "
            f"{wanted.application}"
        )
    if kept.has_state != wanted.has_state:
        was, now = ("state", "none") if kept.has_state else ("no state", "some")
        raise CheckpointMismatch(
            f"the checkpoint {where.uri} is of a topology with {was}, and the new one has {now}: Spark can't "
            "continue it. Start with a new checkpoint; the application continues from its group's offsets"
        )
    return kept


def _file(where: Location) -> Location:
    return where.child("penstock", "streams.json")
