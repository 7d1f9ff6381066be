"""An event loop with simulated time: it runs the callbacks that are ready, then jumps to the next timer.

Code runs on machines (`Machine`). A callback's machine is stored in its context, and contexts are inherited,
so everything that a node starts belongs to the node. When a machine is paused, its callbacks wait; when it
dies, none of them runs any more. Each machine has a monotonic clock that may be too fast or too slow. Within
a machine, callbacks run in the order in which they became ready, as asyncio promises; among several machines
the seed decides which one runs next.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
import math
import struct
import zlib
from asyncio import events
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final, Protocol
from unittest import mock

from penstock.testing.crash_files import Died
from penstock.testing.simulator.workers import VirtualExecutor

CALLBACKS_PER_TICK_MAX: Final = 100_000
TICK_S: Final = 0.01
"""More than `CALLBACKS_PER_TICK_MAX` callbacks within this time are an endless loop."""
TIMER_S_MIN: Final = 1e-6
"""The shortest delay of a timer: time passes between setting a timer and its end."""

MEASURING_MODULES: Final = (
    "penstock.broker.network.turns",
    "penstock.broker.network.connection",
    "penstock.broker.network.dispatch",
)

_pack_event = struct.Struct("<dIB").pack
_Callback = Callable[..., object]


class Livelock(AssertionError):
    """Callbacks start callbacks without end, while time stands still."""


class NothingLeft(AssertionError):
    """A task waits, and no event is left that could wake it."""


class Machine:
    """The place where code runs: one process on a host."""

    def __init__(self, number: int, name: str, host: str) -> None:
        self.number = number
        self.name = name
        self.host = host
        self.ready: deque[events.Handle] = deque()
        self.paused = False
        self.dead = False
        self.when_dead: list[Callable[[], object]] = []
        self.clock_rate = 1.0
        self.started_s = 0.0
        """How fast its clock runs, and when it started, both by the loop's own time."""

    def local_s(self, true_s: float) -> float:
        """The reading of the machine's monotonic clock at a true time."""
        return (true_s - self.started_s) * self.clock_rate

    def true_s(self, local_s: float) -> float:
        """The true time at which the machine's monotonic clock has this reading."""
        return self.started_s + local_s / self.clock_rate

    def __repr__(self) -> str:
        return self.name


_machine: contextvars.ContextVar[Machine] = contextvars.ContextVar("machine")


class _Handle(events.Handle):
    """A handle like asyncio's, without the debugging parts, since one is created for each callback."""

    __slots__ = ()

    def __init__(
        self, callback: _Callback, args: Any, loop: VirtualLoop, context: contextvars.Context | None
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class Socket(Protocol):
    """A simulated socket as the loop uses it."""

    def watch(self, reader: events.Handle | None = None, writer: events.Handle | None = None) -> None: ...
    def unwatch_reader(self) -> bool: ...
    def unwatch_writer(self) -> bool: ...
    def send_file(self, fd: int, position: int, count: int) -> int: ...


class _Task(asyncio.Task[Any]):
    """A task hashed by its number, so that a set of tasks has the same order in every run."""

    def __init__(self, coroutine: Any, *, loop: VirtualLoop, **kwargs: Any) -> None:
        loop.tasks += 1
        self._number = loop.tasks
        super().__init__(coroutine, loop=loop, **kwargs)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation.

    `rng` decides the order of machines. `now_s` is the true time since the simulation began.
    """

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.now_s = 0.0
        self.trace = 0
        """A checksum of everything that happened: what ran, when, and where."""
        self.callbacks = 0
        self.tasks = 0
        self.sockets: dict[int, Socket] = {}
        self.after_callback: Callable[[Machine], None] | None = None
        self._rng = rng
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self._timer_number = 0
        self._machines = 0
        self.world = self.machine("world", "127.0.0.1")
        """The machine on which the simulation itself runs."""
        self._runnable: dict[Machine, None] = {}
        self._world_context = self.context_of(self.world)
        self._tick_ends_s, self._tick_callbacks = 0.0, 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_max = 1_000
        self.set_task_factory(self._keep_task)

    def _keep_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """Create a task and keep it: destroying a dead machine's unfinished task would run its `finally`."""
        task = _Task(coroutine, loop=self, **kwargs)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = [kept for kept in self._tasks if not kept.done()]
            self._tasks_max = 2 * len(self._tasks) + 1_000
        return task

    # Machines

    def machine(self, name: str, host: str, clock_rate: float = 1.0) -> Machine:
        """Create a machine."""
        machine = Machine(self._machines, name, host)
        self._machines += 1
        machine.clock_rate = clock_rate
        machine.started_s = self.now_s
        return machine

    @property
    def current(self) -> Machine:
        """The machine whose code runs."""
        return _machine.get(self.world)

    def on(self, machine: Machine, callback: Callable[..., object], *args: object) -> None:
        """Schedule a callback as code of that machine."""
        context = contextvars.copy_context()
        context.run(_machine.set, machine)
        self.call_soon(callback, *args, context=context)

    def context_of(self, machine: Machine) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(_machine.set, machine)
        return context

    def pause(self, machine: Machine) -> None:
        """Hold the machine's callbacks until `resume`; to the network it looks alive."""
        machine.paused = True
        self._runnable.pop(machine, None)

    def resume(self, machine: Machine) -> None:
        machine.paused = False
        if machine.ready and not machine.dead:
            self._runnable[machine] = None

    def kill(self, machine: Machine) -> None:
        """Kill the machine: none of its code runs any more."""
        if machine.dead:
            return
        machine.dead = True
        machine.ready.clear()
        self._runnable.pop(machine, None)
        for told in machine.when_dead:
            self.on(self.world, told)

    # Time

    def time(self) -> float:
        return self.current.local_s(self.now_s)

    def block(self, seconds: float) -> None:
        """Let time pass while no callback runs, as a callback does that blocks."""
        self.now_s += seconds

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer by the current machine's clock."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        machine = self.current
        true_s = max(self.now_s + TIMER_S_MIN, machine.true_s(when))
        while machine.local_s(true_s) < when:  # the conversion has rounded down
            true_s = math.nextafter(true_s, math.inf)
        self._at(true_s, timer)
        return timer

    def at(
        self, true_s: float, callback: Callable[..., object], *args: Any, machine: Machine | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer by true time, as code of a machine."""
        context = self._world_context if machine is None else self.context_of(machine)
        timer = asyncio.TimerHandle(true_s, callback, args, self, context)
        self._at(max(self.now_s, true_s), timer)
        return timer

    def _at(self, true_s: float, timer: asyncio.TimerHandle) -> None:
        self._timer_number += 1
        heapq.heappush(self._timers, (true_s, self._timer_number, timer))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is discarded when it is due."""

    def call_soon(  # type: ignore[override]
        self, callback: _Callback, *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        handle = _Handle(callback, args, self, context)
        self._enqueue(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> events.Handle:
        return self.call_soon(callback, *args, context=context)

    def _enqueue(self, handle: events.Handle) -> None:
        machine = handle._context.get(_machine, self.world)  # type: ignore[attr-defined]
        if machine.dead:
            return
        machine.ready.append(handle)
        if not machine.paused:
            self._runnable[machine] = None

    def _run_once(self) -> None:
        """Run the callbacks that are ready, or else jump to the next timer."""
        runnable = self._runnable
        while not runnable:
            self._jump()
        while runnable and not self._stopping:  # type: ignore[attr-defined]
            if len(runnable) == 1:
                (machine,) = runnable
            else:
                machine = list(runnable)[int(self._rng.random() * len(runnable))]
            handle = machine.ready.popleft()
            if not machine.ready:
                del runnable[machine]
            if handle._cancelled:
                continue
            self.callbacks += 1
            if self.callbacks > self._tick_callbacks + CALLBACKS_PER_TICK_MAX:
                raise Livelock(f"{CALLBACKS_PER_TICK_MAX} callbacks at {self.now_s:.6f} s, last {handle}")
            self.trace = zlib.crc32(_pack_event(self.now_s, machine.number, 0), self.trace)
            handle._run()
            if self.after_callback is not None:
                self.after_callback(machine)

    def _jump(self) -> None:
        while self._timers and self._timers[0][2]._cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            raise NothingLeft("nothing is ready and no timer is set")
        self.now_s = max(self.now_s, self._timers[0][0])  # later after a callback that blocked
        if self.now_s >= self._tick_ends_s:
            self._tick_ends_s, self._tick_callbacks = self.now_s + TICK_S, self.callbacks
        while self._timers and self._timers[0][0] <= self.now_s:
            timer = heapq.heappop(self._timers)[2]
            if not timer._cancelled:
                self._enqueue(timer)

    def note(self, data: bytes | bytearray | memoryview) -> None:
        """Make data part of the trace."""
        self.trace = zlib.crc32(data, self.trace)

    def _check_closed(self) -> None:
        """Do nothing: objects that are destroyed after the end may still call, without effect."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no other thread to wake."""

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there is no selector."""

    # Work that blocks

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        assert isinstance(executor, VirtualExecutor), f"blocking work was submitted to {executor!r}"
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Died:
                raise
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        executor.schedule(work)
        return future

    # Sockets

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self.sockets[fd].watch(reader=events.Handle(callback, args, self, None))

    def remove_reader(self, fd: int) -> bool:  # type: ignore[override]
        return fd in self.sockets and self.sockets[fd].unwatch_reader()

    def add_writer(self, fd: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        self.sockets[fd].watch(writer=events.Handle(callback, args, self, None))

    def remove_writer(self, fd: int) -> bool:  # type: ignore[override]
        return fd in self.sockets and self.sockets[fd].unwatch_writer()

    @contextmanager
    def stopped_stopwatches(self) -> Iterator[None]:
        """Let all measured durations be zero, since turns of the loop are bounded in real nanoseconds."""
        with ExitStack() as patches:
            for module in MEASURING_MODULES:
                patches.enter_context(mock.patch.multiple(module, _now_ns=self._virtual_ns))
            yield

    def _virtual_ns(self) -> int:
        return int(self.now_s * 1e9)

    def abandon(self) -> None:
        """End the simulation: waiting tasks are never resumed and log no warnings."""
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                if (
                    inspect.iscoroutine(coroutine)
                    and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
                ):
                    # It would warn that it was never awaited.
                    coroutine.close()
