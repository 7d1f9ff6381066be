"""Membership of the group of processes that serve one application's views.

A member's metadata is its endpoint, like Kafka Streams' ``application.server``; the leader sends the list of
all endpoints to every member. The list determines which member holds which partition: see
`penstock.views.routes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.groups.heartbeats import Joined, Timeouts
from penstock.client.groups.membership import Membership as GroupMembership

PROTOCOL_TYPE: Final = "penstock-views"
_PROTOCOL: Final = "endpoints"
_VERSION: Final = 1


class Membership:
    """A thread that keeps this process in the group.

    Args:
        endpoint: where this process listens: ``http://host:port``.
        changed: called in the thread with all endpoints whenever they have changed.
    """

    def __init__(
        self,
        config: ClientConfig,
        group_id: str,
        endpoint: str,
        session_timeout_ms: int,
        changed: Callable[[frozenset[str]], None],
    ) -> None:
        timeouts = Timeouts.for_liveness(session_timeout_ms)
        part = _Endpoint(endpoint, changed)
        self._member = GroupMembership(config, group_id, PROTOCOL_TYPE, timeouts, part)

    def start(self) -> None:
        self._member.start()

    def close(self) -> None:
        """Leave the group, so that the other members need not wait for the session timeout."""
        self._member.close()


class _Endpoint:
    def __init__(self, endpoint: str, changed: Callable[[frozenset[str]], None]) -> None:
        self._endpoint = endpoint
        self._changed = changed

    def protocols(self) -> Mapping[str, bytes]:
        return {_PROTOCOL: json.dumps({"version": _VERSION, "endpoint": self._endpoint}).encode()}

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        endpoints = sorted({str(json.loads(metadata)["endpoint"]) for metadata in members.values()})
        everybody = json.dumps({"version": _VERSION, "endpoints": endpoints}).encode()
        return dict.fromkeys(members, everybody)

    def assigned(self, joined: Joined, assignment: bytes) -> None:
        self._changed(frozenset(json.loads(assignment)["endpoints"]))

    def rebalancing(self) -> None:
        """Do nothing: queries still go to the previous members, most of which are still there."""

    def lost(self) -> None:
        """Do nothing, for the same reason."""
