"""The node's own image of the cluster: what is committed in the metadata log, and who wants to hear of it.

Every node has one, broker or controller. It is the one listener of the quorum; the controller, if this node
may be one, is told what concerns it from here, after the image has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

from penstock.broker.quorum.listener import CommittedBatch, FrozenState, SnapshotId
from penstock.metadata.image import MetadataDelta, MetadataImage
from penstock.protocol.messages import Message

log = logging.getLogger(__name__)

ImageListener = Callable[[MetadataDelta], Coroutine[object, object, None] | None]


class QuorumWatcher(Protocol):
    """What a controller hears of the quorum: `Controller` is one."""

    def committed(self, end_offset: int) -> None: ...

    def leader_changed(self, leader_id: int | None, epoch: int) -> None: ...

    def failed(self, reason: str) -> None: ...


class MetadataFollower:
    """A `QuorumListener` that keeps `image`.

    Listeners hear nothing before `tell_all`, so that they begin with everything at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.image = MetadataImage()
        """What is committed; the same object for good, changed between two turns of the loop."""
        self._watchers: list[QuorumWatcher] = []
        self._listeners: list[ImageListener] = []
        self._following: set[asyncio.Task[None]] = set()
        self._untold: MetadataDelta | None = MetadataDelta()
        """Until `tell_all`: all changes so far."""
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []

    def watch(self, watcher: QuorumWatcher) -> None:
        """Tell ``watcher`` of leaders and commits, after the image has them."""
        self._watchers.append(watcher)

    def on_image_change(self, listener: ImageListener) -> None:
        """Call ``listener`` after every commit that changed something, in the turn that changed it.

        The first call, by `tell_all`, brings everything that is there. A listener that needs longer returns
        a coroutine; `followed` waits for it.
        """
        self._listeners.append(listener)

    def tell_all(self) -> None:
        """From now on listeners hear of changes; now of all so far."""
        delta, self._untold = self._untold, None
        assert delta is not None, "listeners begin once"
        self._notify(delta)

    async def followed(self) -> None:
        """Return when all listeners are done with the changes they have been told so far."""
        following = list(self._following)
        if following:
            await asyncio.wait(following)

    async def reached(self, offset: int) -> None:
        """Return when the image has the record at ``offset``."""
        if self.image.offset < offset:
            reached: asyncio.Future[None] = self._loop.create_future()
            self._awaited.append((offset, reached))
            await reached

    # QuorumListener

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        delta = MetadataDelta() if self._untold is None else self._untold
        for batch in batches:
            for record in batch.records:
                self.image.replay(record, delta)
            self.image.offset, self.image.epoch = batch.last_offset, batch.epoch
        self._changed(delta)

    def handle_snapshot(self, snapshot_id: SnapshotId, records: Sequence[Message]) -> None:
        content = MetadataImage()
        for record in records:
            content.replay(record, MetadataDelta())
        content.offset, content.epoch = snapshot_id.end_offset - 1, snapshot_id.epoch
        delta = MetadataDelta() if self._untold is None else self._untold
        self.image.replace_with(content, delta)
        self._changed(delta)

    def _changed(self, delta: MetadataDelta) -> None:
        if self._untold is None and not delta.empty:
            self._notify(delta)
        for watcher in self._watchers:
            watcher.committed(self.image.offset + 1)
        if self._awaited:
            waiting, self._awaited = self._awaited, []
            for offset, reached in waiting:
                if offset > self.image.offset:
                    self._awaited.append((offset, reached))
                elif not reached.done():
                    reached.set_result(None)

    def handle_leader_change(self, leader_id: int | None, epoch: int) -> None:
        for watcher in self._watchers:
            watcher.leader_changed(leader_id, epoch)

    def handle_failure(self, reason: str) -> None:
        for watcher in self._watchers:
            watcher.failed(reason)

    def freeze(self) -> FrozenState | None:
        """None in the middle of a metadata transaction: what it has so far is in no snapshot."""
        if self.image.in_transaction:
            return None
        frozen = self.image.copy()
        return FrozenState(frozen.records, frozen.metadata_version)

    def _notify(self, delta: MetadataDelta) -> None:
        for listener in self._listeners:
            try:
                following = listener(delta)
            except Exception:
                log.exception("image listener failed offset=%d", self.image.offset)
            else:
                if following is not None:
                    task = self._loop.create_task(following)
                    self._following.add(task)
                    task.add_done_callback(self._listener_followed)

    def _listener_followed(self, task: asyncio.Task[None]) -> None:
        self._following.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("image listener failed offset=%d", self.image.offset, exc_info=error)
