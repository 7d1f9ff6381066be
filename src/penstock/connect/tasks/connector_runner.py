"""Runs one connector in a thread of its own: starts it, pauses it, and asks it to configure tasks."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from penstock.connect.connector.connector import Connector, parsed
from penstock.connect.data.records import Offset, Partition
from penstock.connect.errors import ConnectError
from penstock.connect.stores import ConnectorOffsets, State, TargetState
from penstock.connect.tasks.runner import StatusListener
from penstock.connect.tasks.sources.offset_reading import StoredOffsets

log = logging.getLogger(__name__)

_REPORTED = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}
_TOPICS = ("topics", "topics.regex")


class ConnectorRunner:
    """One connector and its thread (Connect's WorkerConnector).

    The listener gets RUNNING, PAUSED, STOPPED, at the end UNASSIGNED, and FAILED with a trace, after which
    only STOPPED and the end follow. ``reconfigure`` is called, on any thread, when the connector wants
    `task_configs` to be called again. ``offsets`` is for sources and belongs to the caller.
    """

    def __init__(
        self,
        name: str,
        connector: Connector,
        properties: Mapping[str, str],
        listener: StatusListener,
        reconfigure: Callable[[], None],
        *,
        offsets: ConnectorOffsets | None = None,
        current_properties: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.name = name
        self.connector = connector
        self.state = State.UNASSIGNED
        """The state that was reported last; UNASSIGNED before the first and after the end."""
        self._properties = properties
        self._listener = listener
        self._is_started = False
        """Whether the connector's `start` has returned and its `stop` is due."""
        self._changed = threading.Condition()
        self._wanted: tuple[TargetState, Future[TargetState]] | None = None
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"connector-thread-{name}", daemon=True)
        context = _Context(current_properties or (lambda: properties), reconfigure, self.fail, offsets)
        connector.context = context
        self._context = context

    # From any thread

    def start(self) -> None:
        """Start the thread, which waits for the first `transition`."""
        self._thread.start()

    def transition(self, state: TargetState) -> Future[TargetState]:
        """Start, pause, stop or resume the connector; the future fails with ConnectError if that fails.

        A transition that has not begun is given up for a newer one.
        """
        future: Future[TargetState] = Future()
        with self._changed:
            previous, self._wanted = self._wanted, (state, future)
            self._changed.notify_all()
        if previous is not None:
            previous[1].set_exception(
                ConnectError(
                    f"Could not begin changing connector state to {previous[0].name} before another request"
                    " to change state was made; the new request (which is to change the state to"
                    f" {state.name}) has pre-empted this one"
                )
            )
        return future

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the configurations of the tasks, in the caller's thread. Raises what the connector raises.

        A sink's task gets the connector's topics. A faulty connector may return more than ``max_tasks``.
        """
        topics = {key: self._properties[key] for key in _TOPICS if key in self._properties}
        return [{**config, **topics} for config in self.connector.task_configs(max_tasks)]

    def fail(self, error: BaseException) -> None:
        """Fail the connector, from any thread; the first failure counts."""
        with self._changed:
            if self._failure is None:
                self._failure = error
                self._changed.notify_all()

    def stop(self) -> None:
        """End the thread, after the connector has stopped; `join` waits for it."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Abandon a connector that does not stop in time: report UNASSIGNED now, and nothing any more."""
        self._report(State.UNASSIGNED)
        with self._changed:
            self._is_cancelled = self._is_stopping = True
            self._changed.notify_all()
        self._context.close()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._is_stopping or self._has_new_failure)
                wanted, self._wanted = self._wanted, None
            if self._has_new_failure:
                assert self._failure is not None
                log.error("the connector has failed connector=%s", self.name, exc_info=self._failure)
                self._report_failure(self._failure)
            if self._is_stopping:
                self._end(wanted)
                return
            if wanted is not None:
                self._handle(*wanted)

    @property
    def _has_new_failure(self) -> bool:
        return self._failure is not None and self.state is not State.FAILED and not self._is_stopped

    @property
    def _is_stopped(self) -> bool:
        return self.state is State.STOPPED

    def _handle(self, target: TargetState, future: Future[TargetState]) -> None:
        if self.state is State.FAILED and target is not TargetState.STOPPED:
            message = f"Cannot transition connector to {target.name} since it has failed"
            future.set_exception(ConnectError(f"connector '{self.name}': {message}"))
            return
        try:
            self._become(target)
        except Exception as error:
            failed = ConnectError(
                f"Failed to transition connector {self.name} to state {target.name}: {error}"
            )
            failed.__cause__ = error
            future.set_exception(failed)
        else:
            future.set_result(target)

    def _become(self, target: TargetState) -> None:
        if self.state is _REPORTED[target]:
            return
        try:
            if target is TargetState.STARTED:
                self.connector.start(parsed(self.connector.definition, self._properties))
                self._is_started = True
            else:
                self._stop_connector()
        except Exception as error:
            log.exception("the connector failed connector=%s target=%s", self.name, target.name)
            if target is not TargetState.STOPPED:
                self._report_failure(error)
                raise
        self._report(_REPORTED[target])

    def _stop_connector(self) -> None:
        if self._is_started:
            self._is_started = False
            self.connector.stop()

    def _end(self, wanted: tuple[TargetState, Future[TargetState]] | None) -> None:
        if wanted is not None:
            target, future = wanted
            future.set_exception(
                ConnectError(
                    f"Could not begin changing connector state to {target.name} as the connector has been"
                    " scheduled for shutdown"
                )
            )
        try:
            self._stop_connector()
        except Exception as error:
            log.exception("the connector failed while it stopped connector=%s", self.name)
            self._report_failure(error)
        else:
            self._report(State.UNASSIGNED)
        finally:
            self._context.close()

    def _report_failure(self, error: BaseException) -> None:
        self._report(State.FAILED, "".join(traceback.format_exception(error)))

    def _report(self, state: State, trace: str | None = None) -> None:
        with self._changed:
            if not self._is_cancelled:
                self.state = state
                self._listener.changed(self.name, state, trace)


class _Context:
    """The worker, as the connector sees it."""

    def __init__(
        self,
        configs: Callable[[], Mapping[str, str]],
        reconfigure: Callable[[], None],
        fail: Callable[[BaseException], None],
        offsets: ConnectorOffsets | None,
    ) -> None:
        self._configs = configs
        self._reconfigure = reconfigure
        self._fail = fail
        self._offsets = None if offsets is None else StoredOffsets(offsets)

    def close(self) -> None:
        if self._offsets is not None:
            self._offsets.close()

    def configs(self) -> Mapping[str, str]:
        return self._configs()

    def request_task_reconfiguration(self) -> None:
        self._reconfigure()

    def raise_error(self, error: Exception) -> None:
        self._fail(error)

    def offset(self, partition: Partition) -> Offset | None:
        [found] = self.offsets([partition])
        return found

    def offsets(self, partitions: Sequence[Partition]) -> list[Offset | None]:
        if self._offsets is None:
            raise ConnectError("only source connectors have offsets")
        return self._offsets.offsets(partitions)
