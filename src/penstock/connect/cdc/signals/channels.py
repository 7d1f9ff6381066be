"""Channels that bring signals from outside the database: a file, and a topic.

A thread reads them, because brokers may be slow. A signal is removed from its channel only once it is
acknowledged, which the reader of the database does when the stored offset holds what the signal started. A
signal whose effect is not stored yet comes again after a crash.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.group_consumer import ConsumerSettings, GroupConsumer
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.settings import from_properties
from penstock.connect.cdc.signals.messages import Signal
from penstock.connect.cdc.signals.settings import SignalSettings
from penstock.errors import PenstockError

log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
"""Longest wait for records of the signal topic, so that a stop is noticed."""


class SignalChannel(Protocol):
    """A place where signals arrive."""

    def read(self) -> Iterable[Signal]:
        """Return the signals that arrived since the last call."""
        ...

    def acknowledge(self) -> None:
        """Remove all signals that were read."""
        ...

    def close(self) -> None:
        """Release the channel."""
        ...


class FileChannel:
    """A file with one JSON object per line: id, type and data. Read lines are removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def read(self) -> Iterable[Signal]:
        """Return the signals of the lines that are complete."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return []
        if len(content) < self._read:
            self._read = 0  # someone else has emptied it or written it again
        added = content[self._read :]
        complete = added if added.endswith(b"}") else added[: added.rfind(b"\n") + 1]
        self._read += len(complete)
        lines = complete.decode(errors="replace").splitlines()
        return [found for line in lines if line.strip() and (found := _signal(line)) is not None]

    def acknowledge(self) -> None:
        """Remove the lines that were read."""
        if self._read:
            try:
                self._path.write_bytes(self._path.read_bytes()[self._read :])
            except OSError as error:
                log.warning("signals could not be removed file=%s reason=%s", self._path, error)
                return
            self._read = 0

    def close(self) -> None:
        """Do nothing."""


class KafkaChannel:
    """A topic of one partition. Records with the connector's topic prefix as key are signals for it."""

    def __init__(self, settings: SignalSettings, prefix: str) -> None:
        properties = {
            "bootstrap.servers": settings.bootstrap_servers,
            "session.timeout.ms": "10000",
            **settings.consumer,
            "group.id": settings.group_id,
        }
        self._prefix = prefix
        self._positions: dict[TopicPartition, int] = {}
        self._consumer = GroupConsumer(
            ClientConfig.from_properties(properties),
            from_properties(ConsumerSettings, properties),
            from_properties(FetchConfig, properties),
            [settings.topic],
            self,
        )

    def read(self) -> Iterable[Signal]:
        """Return the signals among the next records."""
        found = []
        for each in self._consumer.poll(_POLL_S):
            self._positions[TopicPartition(each.topic, each.partition)] = each.offset + 1
            if each.key is None or bytes(each.key).decode(errors="replace") != self._prefix:
                log.info("signal ignored, its key is not the topic prefix key=%r", each.key)
            elif each.value and (signal := _signal(bytes(each.value).decode(errors="replace"))) is not None:
                found.append(signal)
        return found

    def acknowledge(self) -> None:
        """Commit the offsets after all records that were read."""
        if self._positions:
            self._consumer.commit(self._positions)
            self._positions = {}

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing."""

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is not committed: another task reads these records again."""
        self._positions = {}

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is not committed."""
        self._positions = {}


class SignalReader:
    """The thread that reads all channels, and the signals that wait for the reader of the database."""

    def __init__(self, openers: Iterable[Callable[[], SignalChannel]], poll_s: float) -> None:
        self._openers = list(openers)
        self._poll_s = poll_s
        self._waiting: deque[Signal] = deque()
        self._handled = 0
        self._taken = 0
        self._arrived = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signals", daemon=True)

    def start(self) -> None:
        """Start the thread, if there are channels."""
        if self._openers:
            self._thread.start()

    def take(self) -> Signal | None:
        """Remove the oldest signal; None if there is none."""
        if not self._waiting:
            return None
        self._taken += 1
        return self._waiting.popleft()

    def put_back(self, signal: Signal) -> None:
        """Let the signal that was taken last be the next one again."""
        self._taken -= 1
        self._waiting.appendleft(signal)

    def acknowledge(self) -> None:
        """Let the channels forget all signals that were taken."""
        self._handled = self._taken

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        channels: list[SignalChannel] = []
        acknowledged = 0
        while not self._stopping.is_set():
            try:
                while len(channels) < len(self._openers):
                    channels.append(self._openers[len(channels)]())
                for each in channels:
                    for signal in each.read():
                        self._arrived += 1
                        self._waiting.append(signal)
                if acknowledged != self._handled and self._handled == self._arrived:
                    for each in channels:
                        each.acknowledge()
                    acknowledged = self._arrived
            except (PenstockError, OSError) as error:
                log.warning("signals cannot be read, trying again reason=%s", error)
            self._stopping.wait(self._poll_s)
        for each in channels:
            with suppress(PenstockError):
                each.close()


def open_channels(settings: SignalSettings, prefix: str) -> SignalReader:
    """The reader of the channels that are enabled, besides the signal table. It has yet to be started."""
    openers: list[Callable[[], Any]] = []
    if "file" in settings.channels:
        openers.append(lambda: FileChannel(Path(settings.file)))
    if "kafka" in settings.channels:
        openers.append(lambda: KafkaChannel(settings, prefix))
    return SignalReader(openers, settings.poll_s)


def _signal(text: str) -> Signal | None:
    try:
        found = json.loads(text)
        return Signal(str(found["id"]), str(found["type"]), dict(found.get("data") or {}))
    except (ValueError, TypeError, KeyError) as error:
        log.warning("signal ignored, expected an object with id, type and data reason=%r", error)
        return None
