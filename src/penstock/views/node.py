"""Nodes: processes that answer every query, from their own replicas or through the node that holds them.

Any node may answer for a partition that it has. All nodes read the same committed logs, so it is harmless if
a node is wrongly considered dead or has missed a change of the group. When a partition moves to another node,
the old one keeps it until the new one has read its log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from penstock.client.connections.metadata import TopicPartition
from penstock.views.asking import Asked, encode, entry_of, from_base64, kind_of, to_base64
from penstock.views.catalog import ViewedStore
from penstock.views.errors import (
    InvalidQuery,
    KeyNotFound,
    NoHolder,
    NotPresent,
    PositionNotReached,
    StoreRestoring,
    ViewError,
)
from penstock.views.forwarding import Forwarder, Unreachable
from penstock.views.position import Position, merged
from penstock.views.queries import Answer, Query
from penstock.views.reads import Found, GetValue, GetWindow, Scan
from penstock.views.replica import Replica
from penstock.views.routes import Routes
from penstock.views.views import Views

log = logging.getLogger(__name__)

FORWARDED: Final = "penstock-forwarded"
_TRY_AGAIN_S: Final = 0.1
_HAND_OVER_S: Final = 0.5
_EARLIER: Final = 3
"""The number of previous member lists that are remembered.

A partition's holder may have been replaced this often before its latest successor has read the log.
"""
_WIRE_S: Final = 1.0
"""How much longer than its own timeout a forwarded query may take, for the network."""
_PASSED_ON: Final = (StoreRestoring.code, NotPresent.code)


class Node:
    """One process that serves views. It belongs to one event loop, except for `joined`.

    Args:
        endpoint: this node's own endpoint, as the other nodes know it.
        standbys: how many nodes keep a partition in addition to the first.
        forwarder: the client for requests to other nodes.
    """

    def __init__(
        self, views: Views, endpoint: str, standbys: int, forwarder: Forwarder | None = None
    ) -> None:
        self.views = views
        self.endpoint = endpoint
        self.routes = Routes(frozenset(), standbys)
        self._earlier: tuple[Routes, ...] = ()
        self._handing_over: dict[TopicPartition, None] = {}
        self._forwarder = forwarder or Forwarder()

    def choice(self, topic: str, count: int) -> frozenset[int]:
        """Return the partitions to keep: those that the routes assign, and those not yet handed over."""
        kept = {tp.partition for tp in tuple(self._handing_over) if tp.topic == topic}
        return self.routes.held_by(self.endpoint, count) | kept

    def joined(self, members: frozenset[str]) -> None:
        """Switch to the new member list of the group. The group's thread calls this."""
        if members == self.routes.members:
            return
        log.info("view members changed members=%s", ", ".join(sorted(members)))
        before, after = self.routes, replace(self.routes, members=members)
        for topic, count in self.views.counts.items():
            for number in before.held_by(self.endpoint, count) - after.held_by(self.endpoint, count):
                self._handing_over[TopicPartition(topic, number)] = None
        self._earlier = (before, *self._earlier)[:_EARLIER]
        self.routes = after
        self.views.choose(self.choice)

    async def hand_over(self) -> None:
        """Run forever: release partitions that their new holders have read."""
        while True:
            await asyncio.sleep(_HAND_OVER_S)
            for tp in list(self._handing_over):
                count = self.views.counts.get(tp.topic, 0)
                holders = self.routes.holders(tp.partition, count) if tp.partition < count else ()
                if self.endpoint in holders or await self._have(holders, tp):
                    del self._handing_over[tp]
                    self.views.choose(self.choice)

    async def _have(self, holders: Iterable[str], tp: TopicPartition) -> bool:
        for endpoint in holders:
            try:
                response = await self._forwarder.get(endpoint, "/health", [], _WIRE_S)
                answer = msgspec.json.decode(response.body)
                if not answer["partitions"].get(str(tp), {}).get("ready"):
                    return False
            except (Unreachable, msgspec.DecodeError, KeyError):
                return False
        return True

    def close(self) -> None:
        self._forwarder.close()

    # Answers

    async def answer(self, asked: Asked, target: str, *, is_forwarded: bool) -> dict[str, Any]:
        """Answer a query in the form of its JSON.

        ``target`` is the path, still encoded, with the query; it is sent to other nodes. A query that another
        node has forwarded is answered only from this node's replicas. Raises ViewError.
        """
        deadline = time.monotonic() + asked.timeout_s
        count = self.views.counts.get(asked.store.topic)
        if count is not None and max(asked.partitions or (0,)) >= count:
            raise InvalidQuery(f"partitions={asked.partitions}: expected 0 to {count - 1}")
        if is_forwarded:
            return await self._here(asked, asked.partitions or (), deadline, wait=False)
        while True:
            try:
                if asked.read is None or asked.read.key is None:
                    found = await self._everywhere(asked, target, deadline)
                else:
                    found = await self._by_key(asked, target, deadline)
                break
            except (NoHolder, NotPresent, StoreRestoring):
                if time.monotonic() + _TRY_AGAIN_S > deadline:
                    raise
                await asyncio.sleep(_TRY_AGAIN_S)
        if asked.is_single and not found["entries"]:
            raise KeyNotFound(f"store {asked.store.name} has no value for the key", found["position"])
        return found

    async def _by_key(self, asked: Asked, target: str, deadline: float) -> dict[str, Any]:
        """Answer from the key's partition or, if that is uncertain, from one partition after the other."""
        numbers = self.views.partitions_of(_query(asked, asked.partitions))
        quick = self._at_once(asked, numbers)
        if quick is not None:
            return quick
        positions = []
        found: dict[str, Any] = {}
        for group in self._together(asked.store, numbers):
            found = await self._from_holders(asked, group, target, deadline)
            positions.append(Position.from_json(found["position"]))
            if found["entries"]:
                break
        found["position"] = merged(positions).to_json()
        return found

    def _at_once(self, asked: Asked, numbers: tuple[int, ...]) -> dict[str, Any] | None:
        """Answer the usual case immediately: a single value that this node holds."""
        if not isinstance(asked.read, GetValue | GetWindow):
            return None
        for number in numbers:
            kept = self.views.replica(TopicPartition(asked.store.topic, number))
            if kept is None or not kept.is_ready:
                return None
        answer = self.views.answer(_query(asked, numbers))
        return None if answer is None else _page(answer, asked)

    def _together(self, store: ViewedStore, numbers: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Group the partitions by the node that can answer for them in one request.

        The order is kept; the first partition, the likely one, is alone.
        """
        count = self.views.counts[store.topic]
        groups: dict[str, list[int]] = {}
        for number in numbers[1:]:
            members = self._candidates(number, count)
            groups.setdefault(members[0] if members else "", []).append(number)
        return [numbers[:1], *map(tuple, groups.values())]

    def _candidates(self, partition: int, count: int) -> list[str]:
        """Return the current holders and those of previous member lists, with this node first."""
        routes = (self.routes, *self._earlier)
        members = dict.fromkeys(member for known in routes for member in known.holders(partition, count))
        return sorted(members, key=lambda member: member != self.endpoint)

    async def _everywhere(self, asked: Asked, target: str, deadline: float) -> dict[str, Any]:
        count = self.views.counts.get(asked.store.topic)
        if count is None:
            raise StoreRestoring(f"topic {asked.store.topic} does not exist yet: waiting for it")
        numbers = range(count) if asked.partitions is None else asked.partitions
        groups: dict[str, list[int]] = {}
        for number in numbers:
            groups.setdefault(self._first_ready(asked.store, number, count), []).append(number)
        pages = await asyncio.gather(
            *(self._from_holders(asked, tuple(group), target, deadline) for group in groups.values())
        )
        return _joined(pages, asked)

    def _first_ready(self, store: ViewedStore, number: int, count: int) -> str:
        """Return this node if it can answer, else the first holder."""
        kept = self.views.replica(TopicPartition(store.topic, number))
        if kept is not None and kept.is_ready:
            return self.endpoint
        holders = [member for member in self._candidates(number, count) if member != self.endpoint]
        return holders[0] if holders else self.endpoint

    async def _from_holders(
        self, asked: Asked, numbers: tuple[int, ...], target: str, deadline: float
    ) -> dict[str, Any]:
        """Request these partitions from one node after the other, until one answers.

        If no node has all of them, request each partition separately.
        """
        count = self.views.counts[asked.store.topic]
        options = [self._candidates(number, count) for number in numbers]
        shared = [member for member in options[0] if all(member in others for others in options[1:])]
        failures: list[str] = []
        for member in shared:
            try:
                if member == self.endpoint:
                    is_alone = len(options[0]) == 1
                    return await self._here(asked, numbers, deadline, wait=is_alone)
                return await self._from(member, asked, numbers, target, deadline)
            except (Unreachable, StoreRestoring, NotPresent) as error:
                failures.append(str(error))
        if len(numbers) > 1:
            pages = [await self._from_holders(asked, (number,), target, deadline) for number in numbers]
            return _joined(pages, asked)
        raise NoHolder(
            f"partition {numbers[0]} of store {asked.store.name}: no node can answer now "
            f"({'; '.join(failures) or 'there is none'})"
        )

    async def _here(
        self, asked: Asked, numbers: tuple[int, ...], deadline: float, *, wait: bool
    ) -> dict[str, Any]:
        """Answer from this node's replicas.

        ``wait`` says whether to wait for logs that are still being read; the position is awaited in any case.
        """
        if asked.read is None:
            return self._count_here(asked, numbers)
        query = _query(asked, numbers)
        if not wait:
            for number in numbers:
                self._require_ready(asked.store, number)
        found = await self._look(query)
        while found is None:
            ready = asyncio.wrap_future(self.views.when_ready(query))
            try:
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time() + deadline - time.monotonic()
                ):
                    position = await ready
            except TimeoutError:
                raise self.views.why_not(query) from None
            found = self.views.finish(query, position)
        return _page(found, asked)

    async def _look(self, query: Query) -> Answer[Found] | None:
        """Run the query; a read that takes a lock runs in a thread.

        A large transaction may hold the lock.
        """
        if isinstance(query.read, GetValue | GetWindow):
            return self.views.answer(query)
        return await asyncio.to_thread(self.views.answer, query)

    def _require_ready(self, store: ViewedStore, number: int) -> None:
        kept = self.views.replica(TopicPartition(store.topic, number))
        if kept is None:
            raise NotPresent(f"partition {number} of store {store.name} is not held by {self.endpoint}")
        if not kept.is_ready:
            raise StoreRestoring(
                f"{kept.tp} is still being read by {self.endpoint}, at offset {kept.position}"
            )

    def _count_here(self, asked: Asked, numbers: tuple[int, ...]) -> dict[str, Any]:
        total, offsets = 0, {}
        for number in numbers:
            self._require_ready(asked.store, number)
            kept = self.views.replica(TopicPartition(asked.store.topic, number))
            assert kept is not None
            total += len(kept)
            offsets[kept.tp] = kept.position
        return {"entries": [], "count": total, "position": Position(offsets).to_json()}

    async def _from(
        self, member: str, asked: Asked, numbers: tuple[int, ...], target: str, deadline: float
    ) -> dict[str, Any]:
        """Forward the query to a node. Raises Unreachable, and the error that the other node raised."""
        left_s = max(0.0, deadline - time.monotonic())
        path, _, query = target.partition("?")
        kept = [part for part in query.split("&") if part and part.partition("=")[0] not in _REPLACED]
        kept += [f"partitions={','.join(map(str, numbers))}", f"timeout_ms={int(left_s * 1000)}"]
        headers = [(FORWARDED, self.endpoint)]
        if asked.at_least.offsets:
            headers.append(("penstock-at-least", asked.at_least.to_json()))
        response = await self._forwarder.get(member, f"{path}?{'&'.join(kept)}", headers, left_s + _WIRE_S)
        try:
            answer: dict[str, Any] = msgspec.json.decode(response.body)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{member} answered with status {response.status}: {error}") from None
        if response.status == 200:
            return answer
        raise _raised(answer, member, response.status)

    # About itself

    def held(self) -> Iterator[tuple[str, Replica]]:
        """Yield the partitions of this node, each with the name of its store."""
        for store in self.views.viewed:
            for kept in self.views.held(store).values():
                yield store.name, kept

    def health(self) -> dict[str, Any]:
        """Return the partitions of this node with their progress, and the other members."""
        partitions = {
            str(kept.tp): {
                "store": store,
                "ready": kept.is_ready,
                "position": kept.position,
                "entries": len(kept),
            }
            for store, kept in self.held()
        }
        is_ready = bool(self.routes.members) and not self.views.unready()
        return {
            "status": "ready" if is_ready else "restoring",
            "application": self.views.catalog.application,
            "endpoint": self.endpoint,
            "members": sorted(self.routes.members),
            "partitions": partitions,
        }

    def stores(self) -> dict[str, Any]:
        found = [
            {
                "name": store.name,
                "kind": kind_of(store.spec),
                "key": store.spec.key.name,
                "value": store.spec.value.name,
                "topic": store.topic,
                "partitions": self.views.counts.get(store.topic),
            }
            for store in self.views.viewed
        ]
        return {"stores": found}


_REPLACED: Final = ("partitions", "timeout_ms", "at_least")
_BY_CODE: Final[Mapping[str, type[ViewError]]] = {
    kind.code: kind for kind in (KeyNotFound, StoreRestoring, PositionNotReached, NotPresent, NoHolder)
}


def _raised(answer: Mapping[str, Any], member: str, status: int) -> Exception:
    error = answer.get("error") or {}
    kind = _BY_CODE.get(str(error.get("code")))
    if kind is None:
        return Unreachable(f"{member} answered with status {status}: {error.get('message')}")
    return kind(error["message"])


def _query(asked: Asked, numbers: tuple[int, ...] | None) -> Query:
    assert asked.read is not None
    return Query(asked.store, asked.read, numbers, asked.at_least)


def _page(answer: Answer[Found], asked: Asked) -> dict[str, Any]:
    """Convert an answer to a page whose entries have places, so that pages can be merged; see `shown`."""
    entries = []
    for row in answer.value.rows:
        entry = entry_of(row, asked.store.spec, asked.encoding)
        entry["place"] = to_base64(row.place)
        entries.append(entry)
    resume = answer.value.resume
    return {
        "entries": entries,
        "next": None if resume is None else to_base64(resume),
        "position": answer.position.to_json(),
    }


def _joined(pages: list[dict[str, Any]], asked: Asked) -> dict[str, Any]:
    """Merge the pages of several nodes, as `merged_rows` does: nothing past where a page stopped."""
    position = merged(Position.from_json(page["position"]) for page in pages).to_json()
    if asked.read is None:
        return {"entries": [], "count": sum(page["count"] for page in pages), "position": position}
    if len(pages) == 1:
        return pages[0]
    if not isinstance(asked.read, Scan):  # a key is in one page only
        return next((page for page in pages if page["entries"]), pages[0]) | {"position": position}
    reverse, limit = asked.read.reverse, asked.read.limit
    placed = [(from_base64(entry["place"], "a place"), entry) for page in pages for entry in page["entries"]]
    placed.sort(key=lambda item: item[0], reverse=reverse)
    stops = [from_base64(page["next"], "a place") for page in pages if page["next"] is not None]
    resume = None
    if stops:
        stop = resume = max(stops) if reverse else min(stops)
        placed = [item for item in placed if (item[0] >= stop if reverse else item[0] <= stop)]
    if len(placed) > limit:
        placed = placed[:limit]
        resume = placed[-1][0]
    return {
        "entries": [entry for _, entry in placed],
        "next": None if resume is None else to_base64(resume),
        "position": position,
    }


def shown(found: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """Return the part of an answer that clients receive."""
    for entry in found["entries"]:
        entry.pop("place", None)
    position = msgspec.Raw(found["position"].encode())
    if asked.is_single:
        return {"store": asked.store.name, **found["entries"][0], "position": position}
    if asked.read is None:
        return {"store": asked.store.name, "count": found["count"], "position": position}
    return {
        "store": asked.store.name,
        "entries": found["entries"],
        "next": found.get("next"),
        "position": position,
    }


def body_of(found: dict[str, Any], asked: Asked, *, is_forwarded: bool) -> bytes:
    """Encode an answer as JSON. Raises UnsupportedQuery."""
    return encode(found if is_forwarded else shown(found, asked))
