"""Read from the image and write as the leader: decide, append, wait for the replay, answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, RecordTooLarge
from penstock.client.reading.offsets import LATEST, list_offsets
from penstock.registry.store.config import StoreConfig
from penstock.registry.store.election import Election, Identity, Leadership
from penstock.registry.store.image import Broken, Image, NotRead
from penstock.registry.store.topic import require_topic
from penstock.registry.store.writer import Fenced, Writer
from penstock.registry.subjects import Decision, Record, Registry, RequestRefused, Settings
from penstock.registry.subjects.records import noop_record

log = logging.getLogger(__name__)

T = TypeVar("T")

STORE_ERROR: Final = 50001
TIMED_OUT: Final = 50002
SCHEMA_TOO_LARGE: Final = 42209
_ATTEMPTS: Final = 3


class NotLeader(Exception):
    """Another instance leads, or none does; nothing was written."""


class Store:
    """The registry's state at one instance. It is thread-safe.

    All failures raise RequestRefused, except NotLeader.
    """

    def __init__(self, config: StoreConfig, settings: Settings, identity: Identity) -> None:
        self.config = config
        self.cluster_id = ""
        # One write takes at most this long in all, including the waits for its leader, its broker and its
        # replay.
        bounded = replace(config.client, api_timeout_ms=config.timeout_ms)
        self._cluster = Cluster(bounded)
        self._ends = Cluster(bounded)
        self._ends_lock = threading.Lock()
        self._image = Image(config.client, config.topic, lambda: Registry(settings))
        # The id depends only on the topic, so that groups that share a topic by mistake fence each other and
        # never assign the same id twice.
        self._writer = Writer(self._cluster, config.topic, f"schema-registry-{config.topic}")
        self._election = Election(config.client, config.group_id, identity, config.session_timeout_ms)
        self._write_lock = threading.Lock()
        self._claimed: int | None = None

    @property
    def election(self) -> Election:
        return self._election

    def start(self) -> None:
        """Read the topic to its end, join the group and wait until it has formed.

        Raises ConfigError, ClientError, Broken, and TimeoutError after ``kafkastore.init.timeout.ms``.
        """
        deadline_s = time.monotonic() + self.config.start_timeout_ms / 1000
        with Cluster(replace(self.config.client, api_timeout_ms=self.config.start_timeout_ms)) as cluster:
            require_topic(cluster, self.config)
            self.cluster_id = cluster.metadata.cluster_id or ""
        self._image.start()
        if not self._image.wait_until_read(deadline_s - time.monotonic()):
            why = self._image.trouble or "no answer"
            raise TimeoutError(
                f"topic '{self.config.topic}' was not read to its end within "
                f"{self.config.start_timeout_ms} ms: {why}"
            )
        self._election.start()
        # Without an eligible member there is no leader, but reads can still be answered.
        if self.config.is_eligible:
            self._election.wait_for_leader(deadline_s - time.monotonic())

    def close(self) -> None:
        self._election.close()
        self._image.close()
        self._cluster.close()
        self._ends.close()

    # Reads

    def read(self, question: Callable[[Registry], T]) -> T:
        try:
            return self._image.read(question)
        except (Broken, NotRead) as error:
            raise _store_error(error) from error

    def catch_up(self) -> None:
        """Wait until all records now in the topic are replayed here, after another instance wrote."""
        tp = TopicPartition(self.config.topic, 0)
        try:
            with self._ends_lock:
                end = list_offsets(self._ends, {tp: LATEST})[tp].offset
            if not self._image.wait_for(end - 1, self._timeout_s):
                raise RequestRefused(TIMED_OUT, f"The records up to offset {end - 1} have not arrived")
        except (ClientError, Broken) as error:
            raise _store_error(error) from error

    # Writes

    def write(self, operation: Callable[[Registry], Decision]) -> Any:
        """Carry out a write and return its answer once its records are in the log and replayed here."""
        if not self._write_lock.acquire(timeout=self._timeout_s):
            raise RequestRefused(TIMED_OUT, f"Other writes took longer than {self._timeout_s:g} s")
        try:
            for _ in range(_ATTEMPTS):
                leadership = self._election.leadership
                if not self._election.leads(leadership.generation):
                    raise NotLeader
                try:
                    return self._write(operation, leadership)
                except Fenced as error:
                    # Nothing was written. By now the group may have another leader, or this one claims the
                    # topic again.
                    log.info("a write was fenced, trying again error=%s", error)
                    self._claimed = None
            raise RequestRefused(STORE_ERROR, f"Another registry writes to topic {self.config.topic}")
        finally:
            self._write_lock.release()

    def _write(self, operation: Callable[[Registry], Decision], leadership: Leadership) -> Any:
        try:
            self._claim(leadership.generation)
            decision = self._image.read(operation)
            if decision.records:
                self._append(decision.records, leadership.generation)
            return decision.answer
        except RecordTooLarge as error:
            raise RequestRefused(
                SCHEMA_TOO_LARGE, f"Register operation failed because schema is too large: {error}"
            ) from error
        except Fenced:
            raise
        except (ClientError, Broken, NotRead) as error:
            self._claimed = None
            raise _store_error(error) from error

    def _claim(self, generation: int) -> None:
        """Fence all other writers and replay everything they have written.

        This happens once per generation, and after each write whose outcome is unknown.
        """
        if self._claimed == generation:
            return
        self._claimed = None
        self._writer.claim()
        self._append((noop_record(),), generation)
        self._claimed = generation

    def _append(self, records: tuple[Record, ...], generation: int) -> None:
        if not self._election.leads(generation):
            raise NotLeader
        offset = self._writer.append(records)
        if not self._image.wait_for(offset, self._timeout_s):
            self._claimed = None
            raise RequestRefused(
                TIMED_OUT, f"The record at offset {offset} was not read back within {self._timeout_s:g} s"
            )

    @property
    def _timeout_s(self) -> float:
        return self.config.timeout_ms / 1000


def _store_error(error: Exception) -> RequestRefused:
    return RequestRefused(STORE_ERROR, f"Error in the backend Kafka store: {error}")
