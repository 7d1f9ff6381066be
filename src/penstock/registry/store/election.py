"""Elect the leader by the group protocol of Confluent's registry, so that both can share a group.

Each member announces its address and whether it may lead. The leader of the Kafka group, which need not be
the registry's leader, names the registry's leader: the current one if exactly one member claims to be it,
else the eligible member with the smallest URL.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.client.config import ClientConfig
from penstock.client.groups.heartbeats import Joined, Timeouts
from penstock.client.groups.membership import Membership

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "sr"
PROTOCOL: Final = "v0"
_VERSION: Final = 1
_NO_ERROR: Final = 0
_DUPLICATE_URLS: Final = 1
# Errors that JSON from another implementation may cause.
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Identity:
    """The address at which the other instances reach this one."""

    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"
    is_leader: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def as_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "leader": self.is_leader,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Identity:
        return cls(
            str(found["host"]),
            int(found["port"]),
            bool(found.get("master_eligibility", True)),
            str(found.get("scheme") or "http"),
            bool(found.get("leader", False)),
        )


@dataclass(frozen=True, slots=True)
class Leadership:
    """The result of one generation of the group. Without a leader no instance may write."""

    generation: int
    leader: Identity | None
    is_own: bool


NOBODY: Final = Leadership(-1, None, False)


def choose(members: Mapping[str, Identity]) -> str | None:
    """Return the member id of the leader, or None if no member is eligible. Pure."""
    eligible = sorted((identity.url, member) for member, identity in members.items() if identity.is_eligible)
    leading = [member for _, member in eligible if members[member].is_leader]
    if len(leading) == 1:
        return leading[0]
    return eligible[0][1] if eligible else None


def assignment(members: Mapping[str, Identity]) -> bytes:
    """Encode the assignment that all members receive."""
    urls = {identity.url for identity in members.values()}
    leader = choose(members)
    told: dict[str, Any] = {
        "version": _VERSION,
        "error": _NO_ERROR if len(urls) == len(members) else _DUPLICATE_URLS,
    }
    if leader is not None:
        told |= {"master": leader, "master_identity": members[leader].as_json()}
    return json.dumps(told).encode()


class Election:
    """This instance's membership in the group, and the current leadership."""

    def __init__(
        self, config: ClientConfig, group_id: str, identity: Identity, session_timeout_ms: int
    ) -> None:
        self.identity = identity
        self._changed = threading.Condition()
        self._leadership = NOBODY
        self._was_leader = False
        timeouts = Timeouts.for_liveness(session_timeout_ms)
        self._member = Membership(config, group_id, PROTOCOL_TYPE, timeouts, self)

    def start(self) -> None:
        self._member.start()

    def close(self) -> None:
        self._member.close()

    @property
    def leadership(self) -> Leadership:
        return self._leadership

    def leads(self, generation: int) -> bool:
        """Whether this instance leads in that generation and no other instance can have replaced it yet."""
        now = self._leadership
        return now.is_own and now.generation == generation and self._member.is_surely_in

    def wait_for_leader(self, timeout_s: float) -> Leadership:
        """Wait for a leader, at most ``timeout_s``, and return the leadership."""
        return self._wait(lambda now: now.leader is not None, timeout_s)

    def wait_for_another(self, than: Leadership, timeout_s: float) -> Leadership:
        """Wait for a leader of a later generation, at most ``timeout_s``, and return the leadership."""
        return self._wait(lambda now: now.leader is not None and now is not than, timeout_s)

    def _wait(self, is_wanted: Callable[[Leadership], bool], timeout_s: float) -> Leadership:
        with self._changed:
            self._changed.wait_for(lambda: is_wanted(self._leadership), timeout_s)
            return self._leadership

    # The membership calls these methods.

    def protocols(self) -> Mapping[str, bytes]:
        identity = replace(self.identity, is_leader=self._was_leader)
        return {PROTOCOL: json.dumps(identity.as_json()).encode()}

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        found = {}
        for member, metadata in members.items():
            try:
                found[member] = Identity.from_json(json.loads(metadata))
            except _UNREADABLE:
                log.error(
                    "the metadata of a group member can't be read member=%s metadata=%r",
                    member,
                    bytes(metadata[:200]),
                )
        return dict.fromkeys(members, assignment(found))

    def assigned(self, joined: Joined, assignment: bytes) -> None:
        try:
            told = json.loads(assignment)
            found = told.get("master_identity")
            leader = None if found is None else Identity.from_json(found)
        except _UNREADABLE:
            log.error("the assignment by the group's leader can't be read assignment=%r", assignment[:200])
            self._set(NOBODY)
            return
        if told.get("error", _NO_ERROR) != _NO_ERROR:
            log.error(
                "several members of the group announce the same URL, so none may lead until each has its own "
                "url=%s",
                self.identity.url,
            )
            self._set(NOBODY)
            return
        is_own = told.get("master") == joined.member_id
        self._was_leader = is_own
        if leader is None:
            log.warning("no member of the group is eligible to lead, so writes are refused")
        else:
            log.info("the leader is known url=%s is_this_instance=%s", leader.url, is_own)
        self._set(Leadership(joined.generation, leader, is_own))

    def rebalancing(self) -> None:
        self._set(NOBODY)

    def lost(self) -> None:
        self._set(NOBODY)

    def _set(self, leadership: Leadership) -> None:
        with self._changed:
            self._leadership = leadership
            self._changed.notify_all()
