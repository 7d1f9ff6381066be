"""Group commit: one round of fsyncs for all requests that wait for one.

Requests that arrive during a round wait for the next one, so the cost per request falls with their number.
With `penstock.acks.fsync`, every response that acknowledges a write waits for a round that began after the
write. Without it, only `flush.messages` uses rounds.

Reads do not wait: a consumer may see a record that a power failure removes before it was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.network.answers import Answer, CloseConnection
from penstock.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from penstock.broker.network.answers import Handler
    from penstock.broker.network.context import RequestContext
    from penstock.storage.partition.log import Log

log = logging.getLogger(__name__)

FLUSHERS: Final = 8
"""The number of logs synced concurrently; the file system merges concurrent syncs."""

ACKNOWLEDGING: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.DELETE_GROUPS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""The APIs whose responses acknowledge a write. The controller's decisions are always synced."""

Then = Callable[[BaseException | None], None]


class GroupCommit:
    """The rounds of one node. `unsynced` collects the logs with appends, in their order.

    It belongs to the event loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, acks_fsync: bool, flushers: Executor | None = None
    ) -> None:
        self.acks_fsync = acks_fsync
        self.unsynced: dict[Log, None] = {}
        self.rounds = 0
        self._loop = loop
        self._flushers = flushers or ThreadPoolExecutor(FLUSHERS, thread_name_prefix="group-commit")
        self._waiting: list[Then] = []
        self._is_committing = False

    def when_durable(self, then: Then) -> None:
        """Call `then` once all records appended by now are durable, or with the error that prevents it."""
        self._waiting.append(then)
        if not self._is_committing:
            self._is_committing = True
            # The round begins at the end of this turn, to include what else the turn appends. It is needed
            # even if no log is unsynced, because a retried request must not overtake its first attempt.
            self._loop.call_soon(self._begin_round)

    @property
    def is_idle(self) -> bool:
        """Whether all appended records are durable."""
        return not self.unsynced and not self._is_committing

    def flush(self, unsynced: Log) -> asyncio.Future[None]:
        """Make a log durable up to its current end. The future raises StorageFailed."""
        self.unsynced[unsynced] = None
        return self._durable()

    async def settled(self) -> None:
        """Return once all records appended by now are durable. Raises StorageFailed."""
        if not self.is_idle:
            await self._durable()

    def _durable(self) -> asyncio.Future[None]:
        done: asyncio.Future[None] = self._loop.create_future()

        def then(error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.when_durable(then)
        return done

    def _begin_round(self) -> None:
        logs, waiting = list(self.unsynced), self._waiting
        self.unsynced.clear()
        self._waiting = []
        syncs = [self._loop.run_in_executor(self._flushers, unsynced.flush) for unsynced in logs]
        if not syncs:
            self._end_round(waiting, [])
            return
        self.rounds += 1
        gathered = asyncio.gather(*syncs, return_exceptions=True)
        gathered.add_done_callback(lambda done: self._end_round(waiting, done.result()))

    def _end_round(self, waiting: list[Then], results: list[BaseException | None]) -> None:
        error = next((result for result in results if result is not None), None)
        if error is not None:
            log.error("group commit failed waiting=%d error=%s", len(waiting), error)
        for then in waiting:
            then(error)
        if self._waiting:
            self._begin_round()
        else:
            self._is_committing = False

    def close(self) -> None:
        """Wait until running syncs are done. Blocks."""
        self._flushers.shutdown()

    def acknowledging(self, api_key: ApiKey, handle: Handler) -> Handler:
        """Wrap `handle` so that its responses wait until the writes are durable (`penstock.acks.fsync`)."""
        if not self.acks_fsync or api_key not in ACKNOWLEDGING:
            return handle

        def handle_durably(part: object, request: object, context: RequestContext) -> Answer[object]:
            response = handle(part, request, context)
            if type(response) is not Answer:
                return self._durable_answer(response, blocks=False)
            blocks = response.blocks and not response.is_done
            return response.and_then(partial(self._durable_answer, blocks=blocks))

        return handle_durably

    def _durable_answer(self, response: object, *, blocks: bool) -> Answer[object]:
        """Answer with the response once its writes are durable.

        If they cannot be, a handler that was still working fails; one that was done has no other answer, so
        the connection is closed.
        """
        if response is None or self.is_idle:
            return Answer.of(response)
        answer: Answer[object] = Answer.later(blocks=blocks)

        def then(error: BaseException | None) -> None:
            if error is None:
                answer.complete(response)
            else:
                answer.fail(error if blocks else CloseConnection(str(error)))

        self.when_durable(then)
        return answer
