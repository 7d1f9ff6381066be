"""Runs one task in a thread of its own, and reports its state (Connect's WorkerTask).

A herder starts, pauses, resumes and stops a `TaskRunner` from any thread, without waiting, and waits with
`join`. What the task does is its `Work`: a source, a source with transactions, or a sink.
"""

from __future__ import annotations

import logging
import threading
import traceback
from typing import Protocol

from penstock.connect.stores import State
from penstock.connect.task_id import ConnectorTaskId
from penstock.connect.tasks.metrics import TaskMetrics

log = logging.getLogger(__name__)


class StatusListener(Protocol):
    """Takes the states of connectors and tasks, in their threads. Its methods must return soon."""

    def changed(self, subject: str | ConnectorTaskId, state: State, trace: str | None = None) -> None:
        """Note the state of a connector, by its name, or of a task.

        ``trace`` is the stack trace of a failure; the state is FAILED then. After `TaskRunner.cancel` a task
        reports nothing any more.
        """


class Work(Protocol):
    """The steps of a task. All methods run on the task's thread, except the last three."""

    steps_while_paused: bool
    """Whether a paused task has duties, such as membership in a group."""

    def start(self) -> None:
        """Acquire what the task needs, and start the user's task. Any exception fails the task."""

    def step(self) -> None:
        """Move some records, or wait for some; called again and again. Any exception fails the task."""

    def pause(self) -> None:
        """Prepare for a pause, in which `step` is called only if `steps_while_paused`."""

    def resume(self) -> None:
        """Continue after a pause."""

    def finish(self, *, failed: bool) -> None:
        """Store what can be stored, after the last step; ``failed`` says that a step has failed."""

    def close(self) -> None:
        """Stop the user's task and release everything, also when `start` has failed."""

    def wake(self) -> None:
        """Let a waiting step return soon, from any thread."""

    def request_stop(self) -> None:
        """Let a waiting step return soon, from any thread; `finish` and `close` follow."""

    def cancel(self) -> None:
        """Stop committing and unblock what can be unblocked, from any thread: a successor may run already."""


class TaskRunner:
    """One task and its thread.

    The listener gets RUNNING once the task has started, PAUSED, RUNNING again, and at the end FAILED with a
    trace or UNASSIGNED.
    """

    def __init__(
        self,
        metrics: TaskMetrics,
        work: Work,
        listener: StatusListener,
        *,
        paused: bool = False,
        version: str | None = None,
    ) -> None:
        self.task_id = metrics.task_id
        self.metrics = metrics
        self.version = version
        """The version of the task's class, for its status."""
        self._work = work
        self._listener = listener
        self._changed = threading.Condition()
        self._must_pause = paused
        self._is_stopping = False
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"task-thread-{self.task_id}", daemon=True)

    # From any thread

    def start(self) -> None:
        """Start the thread. A task that begins paused starts the user's task only when it is resumed."""
        self._thread.start()

    def pause(self) -> None:
        """Pause between two steps. Does nothing while the task is paused, or once it stops."""
        self._set_paused(True)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._set_paused(False)

    def stop(self) -> None:
        """Stop after the current step, which includes a last commit of offsets; `join` waits for it."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._work.request_stop()

    def cancel(self) -> None:
        """Abandon a task that does not stop in time: it commits and reports nothing any more."""
        with self._changed:
            self._is_cancelled = self._is_stopping = True
            self._changed.notify_all()
        self._work.cancel()
        self._work.request_stop()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def state(self) -> State:
        """The state that was reported last; UNASSIGNED before the first and after the end."""
        return self.metrics.state

    def _set_paused(self, paused: bool) -> None:
        with self._changed:
            if self._is_stopping or self._must_pause == paused:
                return
            self._must_pause = paused
            self._changed.notify_all()
        self._work.wake()

    # The thread

    def _run(self) -> None:
        try:
            self._run_work()
        except BaseException:
            self._report(State.FAILED, traceback.format_exc())
        else:
            self._report(State.UNASSIGNED)

    def _run_work(self) -> None:
        try:
            if self._must_pause:
                self._report(State.PAUSED)
                self._wait_while_paused()
            if not self._is_stopping:
                self._work.start()
                self._report(State.RUNNING)
                self._step_until_stopped()
        except BaseException:
            if not self._is_stopping:
                log.exception("the task failed, it does not run until it is restarted task=%s", self.task_id)
                raise
            log.warning("the task failed while it stopped task=%s", self.task_id, exc_info=True)
        finally:
            self._work.close()

    def _step_until_stopped(self) -> None:
        try:
            is_paused = False
            while not self._is_stopping:
                if self._must_pause != is_paused:
                    is_paused = not is_paused
                    self._turn(is_paused)
                elif is_paused and not self._work.steps_while_paused:
                    self._wait_while_paused()
                else:
                    self._work.step()
        except BaseException:
            self._finish_failed()
            raise
        if not self._is_cancelled:
            self._work.finish(failed=False)

    def _turn(self, is_paused: bool) -> None:
        if is_paused:
            self._work.pause()
            self._report(State.PAUSED)
        else:
            self._work.resume()
            self._report(State.RUNNING)

    def _wait_while_paused(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or not self._must_pause)

    def _finish_failed(self) -> None:
        if self._is_cancelled:
            return
        try:
            self._work.finish(failed=True)
        except Exception:
            log.exception("the task failed, and so did its last commit of offsets task=%s", self.task_id)

    def _report(self, state: State, trace: str | None = None) -> None:
        with self._changed:  # `cancel` may come at any time
            if not self._is_cancelled:
                self.metrics.state = state
                self._listener.changed(self.task_id, state, trace)
