"""The answer of a call: there at once, or later. Handlers, coordinators and work in turns all give it.

An asyncio future would do the same, but it passes its result on in the next turn of the loop only. Requests
are answered in the turn that meets their last condition, and most answers are there when the call returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar, cast

from penstock.broker.network.context import RequestContext
from penstock.protocol.errors import KafkaError

T = TypeVar("T")
U = TypeVar("U")


class CloseConnection(Exception):
    """A handler raises this if it can only answer by closing the connection."""


class Answer(Generic[T]):
    """The value of a call, or the exception instead of it, for a single receiver.

    The receiver awaits the answer, reads its `value` once it `is_done`, or says what happens next by `then`,
    `and_then`, `recover` or `when_done`. What it passes to these runs at once, or in the turn that completes
    the answer.
    """

    # These are defaults of the class, because each request makes an answer, and most need only two of them.
    is_done: bool = False
    value: T = None  # type: ignore[assignment]  # not read before the answer is done
    """The value, once the answer is done and has no error."""
    error: BaseException | None = None
    blocks: bool = True
    """Whether the connection's next requests wait for this answer, because they must find the effects of the
    work that is still going on. Otherwise only the answer itself waits, for example for other replicas."""
    on_abandon: Callable[[], None] | None = None
    """Called when the answer is not needed any more."""
    task: asyncio.Task[object] | None = None
    """The task that works on the answer."""
    _receive: Callable[[Answer[T]], None] | None = None

    @classmethod
    def of(cls, value: T) -> Answer[T]:
        """Create an answer that is there at once."""
        answer = cls()
        answer.is_done = True
        answer.value = value
        return answer

    @classmethod
    def later(cls, *, blocks: bool, on_abandon: Callable[[], None] | None = None) -> Answer[T]:
        """Create an answer that `complete` or `fail` fills in."""
        answer = cls()
        answer.blocks = blocks
        answer.on_abandon = on_abandon
        return answer

    @classmethod
    def failed(cls, error: BaseException) -> Answer[T]:
        """Create an answer that has failed."""
        answer = cls()
        answer.is_done = True
        answer.error = error
        return answer

    @classmethod
    def of_future(cls, future: asyncio.Future[T]) -> Answer[T]:
        """Create an answer that is the result of a future. To abandon it cancels the future.

        If the future is done, the answer is there at once: a request that ends a wait of several is answered
        first, since the event loop completes the others' answers after it.
        """
        answer = cls()
        if future.done():
            answer._take(future)
        else:
            answer.on_abandon = cast("Callable[[], None]", future.cancel)
            future.add_done_callback(answer._take)
        return answer

    @classmethod
    def working(cls, work: Coroutine[Any, Any, T]) -> Answer[T]:
        """Start a task, and create the answer that is its result."""
        task = asyncio.ensure_future(work)
        answer = cls.of_future(task)
        answer.task = task
        return answer

    def _take(self, future: asyncio.Future[T]) -> None:
        if future.cancelled():
            self.fail(asyncio.CancelledError())
        elif (error := future.exception()) is not None:
            self.fail(error)
        else:
            self.complete(future.result())

    def complete(self, value: T) -> None:
        """Fill in the value."""
        assert not self.is_done, "an answer is given once"
        self.is_done = True
        self.value = value
        if self._receive is not None:
            self._receive(self)

    def fail(self, error: BaseException) -> None:
        """Fill in an exception; a handler's CloseConnection closes the connection."""
        assert not self.is_done, "an answer is given once"
        self.is_done = True
        self.error = error
        if self._receive is not None:
            self._receive(self)

    def result(self) -> T:
        """The value of an answer that is done. Raises its error."""
        assert self.is_done, "the answer is not there yet"
        if self.error is not None:
            raise self.error
        return self.value

    def abandon(self) -> None:
        """Call `on_abandon`, as the answer is not needed any more. A task that works on it is cancelled."""
        if not self.is_done and self.on_abandon is not None:
            self.on_abandon()

    def when_done(self, receive: Callable[[Answer[T]], None]) -> None:
        """Pass the answer to its receiver, now or once it is done."""
        if self.is_done:
            receive(self)
        else:
            assert self._receive is None, "an answer has one receiver"
            self._receive = receive

    def then(self, change: Callable[[T], U]) -> Answer[U]:
        """Return the answer with its value changed. An exception of `change` fails the answer."""
        return self.and_then(lambda value: Answer.of(change(value)))

    def and_then(self, ask: Callable[[T], Answer[U]]) -> Answer[U]:
        """Return the answer that `ask` gives for this one's value. An exception of `ask` fails the answer."""

        def following(done: Answer[T]) -> Answer[U]:
            return _called(ask, done.value) if done.error is None else cast("Answer[U]", done)

        return following(self) if self.is_done else self._continued(following)

    def recover(self, replace: Callable[[KafkaError], T]) -> Answer[T]:
        """Return the answer, with the value of `replace` instead of a KafkaError."""

        def following(done: Answer[T]) -> Answer[T]:
            if not isinstance(done.error, KafkaError):
                return done
            return _called(lambda error: Answer.of(replace(error)), done.error)

        return following(self) if self.is_done else self._continued(following)

    def _continued(self, following: Callable[[Answer[T]], Answer[U]]) -> Answer[U]:
        """The answer that `following` returns once this one is done."""
        last: Answer[U] = Answer.later(blocks=self.blocks, on_abandon=self.abandon)
        last.task = self.task

        def hand_on(done: Answer[U]) -> None:
            if done.error is None:
                last.complete(done.value)
            else:
                last.fail(done.error)

        def receive(done: Answer[T]) -> None:
            answer = following(done)
            last.task, last.on_abandon = answer.task, answer.abandon
            answer.when_done(hand_on)

        self.when_done(receive)
        return last

    def __await__(self) -> Generator[Any, None, T]:
        if not self.is_done:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_done(lambda _: None if woken.done() else woken.set_result(None))
            try:
                yield from woken
            except asyncio.CancelledError:
                self.abandon()
                raise
        return self.result()


def _called(ask: Callable[[T], Answer[U]], value: T) -> Answer[U]:
    try:
        return ask(value)
    except Exception as error:
        return Answer.failed(error)


def all_of(answers: Sequence[Answer[T]]) -> Answer[list[T]]:
    """The values of all answers, in their order, or the first error."""

    async def collect() -> list[T]:
        return [await answer for answer in answers]

    for answer in answers:
        if not answer.is_done:
            return Answer.working(collect())
        if answer.error is not None:
            return Answer.failed(answer.error)
    return Answer.of([answer.value for answer in answers])


Handler = Callable[[Any, Any, RequestContext], object]
"""(part of the node, request, context) → the response, or an `Answer` with the response, with its encoded
body, or with None for no response."""
