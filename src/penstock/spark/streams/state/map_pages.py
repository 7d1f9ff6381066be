"""Pages in a `MapState` of transformWithState, accessed by many calls in flight at the same time.

Spark's Python API waits for the response to each call, some 50 µs. Its server answers calls in the order of
arrival, so that pipelined calls take a quarter of that time. Writing the requests and reading the responses
here needs the client beneath the API, which Spark may change: if that client is not the one known here, the
calls go through the API one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final, TypeVar

from pyspark.sql.streaming.stateful_processor import MapState

T = TypeVar("T")

_HEAD: Final = Struct(">ii")  # version of the message, its size
_MESSAGE_VERSION: Final = 0
_BYTES_AHEAD: Final = 128 << 10
"""The size of the requests written before their responses are read; both ends must be able to buffer them."""
_CALLS_AHEAD: Final = 64
"""The number of requests written before their responses are read."""


class MapPages:
    """The `penstock.spark.streams.state.log.Pages` of the current group: rows of one binary."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._wire = _Wire.of(state)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if self._wire is None or len(keys) == 1:
            found = (self._state.getValue((key,)) for key in keys)
            return [None if row is None else bytes(row[0]) for row in found]
        return self._wire.get(keys)

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        if self._wire is None or len(items) == 1:
            for key, value in items:
                self._state.updateValue((key,), (value,))
        else:
            self._wire.put(items)

    def remove(self, keys: Sequence[bytes]) -> None:
        if self._wire is None or len(keys) == 1:
            for key in keys:
                self._state.removeKey((key,))
        else:
            self._wire.remove(keys)


class _Wire:
    """The client beneath a `MapState`, as in pyspark 4.3."""

    def __init__(self, client: Any, name: str, messages: Any) -> None:
        self._client = client
        self._name = name
        self._messages = messages
        self._dump = client.pickleSer.dumps
        self._load = client.pickleSer.loads

    @classmethod
    def of(cls, state: MapState) -> _Wire | None:
        try:
            import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

            client: Any = state._mapStateClient._stateful_processor_api_client
            parts = (
                client.sockfile.write,
                client.sockfile.flush,
                client._receive_proto_message,
                client.pickleSer,
            )
            return cls(client, state._stateName, messages) if all(parts) else None
        except (AttributeError, ImportError):
            return None

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        m = self._messages
        requests = (self._request(getValue=m.GetValue(userKey=self._dump((key,)))) for key in keys)
        # Responses are as large as the values, more than the server may be able to buffer: a few at a time.
        return [
            bytes(self._load(value)[0]) if value else None for value in self._run(requests, calls_ahead=4)
        ]

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        m = self._messages
        requests = (
            self._request(updateValue=m.UpdateValue(userKey=self._dump((key,)), value=self._dump((value,))))
            for key, value in items
        )
        for _ in self._run(requests, calls_ahead=_CALLS_AHEAD):
            pass

    def remove(self, keys: Sequence[bytes]) -> None:
        m = self._messages
        requests = (self._request(removeKey=m.RemoveKey(userKey=self._dump((key,)))) for key in keys)
        for _ in self._run(requests, calls_ahead=_CALLS_AHEAD):
            pass

    def _request(self, **call: Any) -> bytes:
        m = self._messages
        state_call = m.StateVariableRequest(mapStateCall=m.MapStateCall(stateName=self._name, **call))
        message: bytes = m.StateRequest(stateVariableRequest=state_call).SerializeToString()
        return message

    def _run(self, requests: Iterable[bytes], calls_ahead: int) -> Iterator[bytes]:
        """Yield the values of the responses. Raises StateCallFailed."""
        for window in _windows(requests, calls_ahead, _BYTES_AHEAD, len):
            for request in window:
                self._client.sockfile.write(_HEAD.pack(_MESSAGE_VERSION, len(request)))
                self._client.sockfile.write(request)
            self._client.sockfile.flush()
            answers = [self._client._receive_proto_message() for _ in window]
            for status, error, value in answers:
                if status != 0:
                    raise StateCallFailed(f"Spark's state store rejected a call on {self._name}: {error}")
                yield value


class StateCallFailed(Exception):
    """Spark's state store reported an error for a call."""


def _windows(items: Iterable[T], count: int, size: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield runs of at most ``count`` items and at most ``size`` in total, or of a single larger item."""
    source = iter(items)
    window: list[T] = []
    held = 0
    for item in islice(source, None):
        if window and (len(window) == count or held + size_of(item) > size):
            yield window
            window, held = [], 0
        window.append(item)
        held += size_of(item)
    if window:
        yield window
