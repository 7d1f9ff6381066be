"""The members' positions, from the offsets of the host's query and from Spark's logs of these offsets."""

from __future__ import annotations

import json
from typing import Any

from penstock.spark.hosting.roster import Member
from penstock.spark.sink.checkpoint import MEMBERS_KEY
from penstock.spark.sink.locations import Location
from penstock.spark.source.checkpointed import JsonOffsets

Members = dict[str, dict[str, Any]]
"""The offsets of a host's query, under `MEMBERS_KEY`: see `penstock.spark.hosting.source`."""


def last_completed(where: Location) -> Members:
    """Return the offsets of the last completed batch, or nothing before the first one. Raises OSError."""
    numbers = [int(name) for name in where.child("commits").names() if name.isdigit()]
    if not numbers:
        return {}
    data = where.child("offsets", str(max(numbers))).read()
    for line in (data or b"").decode().split("\n"):
        _, brace, rest = line.partition("{")
        if MEMBERS_KEY in line:
            found: Members = json.loads(brace + rest)[MEMBERS_KEY]
            return found
    return {}


def position_in(ended: Members, member: Member) -> JsonOffsets:
    """Return where a member starts in the batch after one that ended at ``ended``."""
    entry = ended.get(str(member.number))
    if entry is None or entry["starts"] != member.starts:
        return member.begin
    at: JsonOffsets = entry["at"]
    return at
