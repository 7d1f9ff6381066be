"""The node's image of the cluster: the committed content of the metadata log, and listeners for its changes.

Every node has one, broker or controller. `MetadataFollower` is the quorum's only listener. It notifies the
node's own controller, if there is one, after the image has changed.
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
    """An observer of commits, leader changes and failures of the quorum, such as `Controller`."""

    def committed(self, end_offset: int) -> None: ...

    def leader_changed(self, leader_id: int | None, epoch: int) -> None: ...

    def failed(self, reason: str) -> None: ...


class MetadataFollower:
    """A `QuorumListener` that keeps `image` current.

    Image listeners get no change before `publish_all`, which passes them everything so far at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.image = MetadataImage()
        """The committed metadata. It is always the same object, and changes only on the event loop."""
        self._watchers: list[QuorumWatcher] = []
        self._listeners: list[ImageListener] = []
        self._following: set[asyncio.Task[None]] = set()
        self._unpublished: MetadataDelta | None = MetadataDelta()
        """All changes so far, until `publish_all` passes them on; None afterwards."""
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []

    def watch(self, watcher: QuorumWatcher) -> None:
        """Notify ``watcher`` of leaders and commits, after the image has them."""
        self._watchers.append(watcher)

    def on_image_change(self, listener: ImageListener) -> None:
        """Call ``listener`` after every commit that changed something, in the turn that changed it.

        The first call, by `publish_all`, passes everything that the image has. A listener that needs longer
        returns a coroutine; `followed` waits for it.
        """
        self._listeners.append(listener)

    def publish_all(self) -> None:
        """Notify listeners of all changes so far, and from now on of each change."""
        delta, self._unpublished = self._unpublished, None
        assert delta is not None, "call publish_all only once"
        self._notify(delta)

    async def followed(self) -> None:
        """Wait until all listeners have finished with the changes so far."""
        following = list(self._following)
        if following:
            await asyncio.wait(following)

    async def reached(self, offset: int) -> None:
        """Wait until the image has the record at ``offset``."""
        if self.image.offset < offset:
            reached: asyncio.Future[None] = self._loop.create_future()
            self._awaited.append((offset, reached))
            await reached

    # QuorumListener

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        delta = MetadataDelta() if self._unpublished is None else self._unpublished
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
        delta = MetadataDelta() if self._unpublished is None else self._unpublished
        self.image.replace_with(content, delta)
        self._changed(delta)

    def _changed(self, delta: MetadataDelta) -> None:
        if self._unpublished is None and not delta.empty:
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
        """Return a copy of the image for a snapshot; None within a metadata transaction.

        A snapshot must not contain a part of a transaction.
        """
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
