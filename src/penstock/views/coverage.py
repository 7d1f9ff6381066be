"""Coverage: from a position in an application's inputs to a position in its changelogs (compare KIP-796).

A writer knows its record's position in an input topic. The results of that record are in a changelog, at
offsets that the writer doesn't know. They can be determined from outside, because a transaction of the
application commits its group's offsets together with its results:

    1. Wait until the group's committed offsets are past the record: then its results are committed.
    2. If the results go through a repartition topic, wait for the current end of that topic, as in 1.
    3. The current end of the changelog is a position that covers the results. A view that has reached it
       contains them.

An end here is that of all records, committed or not. The markers of one transaction reach its partitions one
after the other, so the last stable offset may lag for a moment.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, UnknownPartition
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.client.reading.offsets import LATEST, list_offsets
from penstock.views.catalog import ViewedStore
from penstock.views.errors import InvalidQuery, ViewsClosed
from penstock.views.position import Position

log = logging.getLogger(__name__)

_POLL_S: Final = 0.005
_POLL_MAX_S: Final = 0.05


@dataclass
class _Question:
    topic: str
    """The changelog."""
    stages: list[str]
    """The repartition topics that the results have yet to pass."""
    until: Mapping[TopicPartition, int]
    """The offsets that the group must have committed."""
    answer: Future[Position] = field(default_factory=Future)


class Coverage:
    """Resolves positions of inputs by polling the cluster, in its own thread, while there are requests."""

    def __init__(self, config: ClientConfig, group: str) -> None:
        self._config = config
        self._group_id = group
        self._changed = threading.Condition()
        self._new: list[_Question] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def of_inputs(self, store: ViewedStore, position: Position) -> Future[Position]:
        """Return the position of the store's changelog that covers this position of its input topics.

        The future completes once the application has committed that far; cancel it to stop waiting. Raises
        InvalidQuery for topics that the store doesn't depend on.
        """
        topics = {tp.topic for tp in position.offsets}
        unknown = sorted(topics - store.upstream.keys())
        if unknown:
            known = ", ".join(sorted({store.topic, *store.upstream}))
            raise InvalidQuery(
                f"store {store.name} does not depend on topic {', '.join(unknown)}: expected a position of "
                f"{known}"
            )
        stages = [name for topic in sorted(topics) for name in store.upstream[topic]]
        question = _Question(store.topic, stages, dict(position.offsets))
        with self._changed:
            if self._closed:
                raise ViewsClosed("the views are closed")
            self._new.append(question)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"{self._group_id} coverage", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        return question.answer

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(10)

    # The thread

    def _run(self) -> None:
        open_questions: list[_Question] = []
        wait_s = _POLL_S
        with Cluster(self._config) as cluster:
            group = ConsumerGroup(cluster, self._group_id)
            while True:
                with self._changed:
                    if not self._new and not self._closed:
                        self._changed.wait(wait_s if open_questions else None)
                    if self._closed:
                        break
                    if self._new:
                        wait_s = _POLL_S
                    open_questions += self._new
                    self._new = []
                try:
                    asked = len(open_questions)
                    open_questions = _step(cluster, group, open_questions)
                    wait_s = _POLL_S if len(open_questions) < asked else min(2 * wait_s, _POLL_MAX_S)
                except ClientError as error:
                    wait_s = _POLL_MAX_S
                    if not error.retriable:
                        _fail(open_questions, error)
                        open_questions = []
                    else:
                        log.info(
                            "position of a group is fetched again group=%s error=%s", self._group_id, error
                        )
        _fail([*open_questions, *self._new], ViewsClosed("the views are closed"))


def _step(cluster: Cluster, group: ConsumerGroup, questions: list[_Question]) -> list[_Question]:
    """Advance every request as far as possible now; return those that are still open."""
    questions = [question for question in questions if not question.answer.cancelled()]
    partitions = {tp for question in questions for tp in question.until}
    committed = group.committed(partitions, require_stable=False)
    left = []
    for question in questions:
        while all(committed.get(tp, _NOTHING)[0] >= end for tp, end in question.until.items()):
            if not question.stages:
                _answer(question, _ends(cluster, question.topic))
                break
            question.until = _ends(cluster, question.stages.pop(0))
            committed = committed | group.committed(question.until.keys(), require_stable=False)
        else:
            left.append(question)
    return left


_NOTHING: Final = (0,)


def _ends(cluster: Cluster, topic: str) -> dict[TopicPartition, int]:
    """Return the ends of a topic. A repartition topic that doesn't exist has none: no record passes it."""
    found = cluster.topics((topic,))
    partitions = [TopicPartition(topic, number) for known in found.values() for number in known.partitions]
    try:
        listed = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    except UnknownPartition:
        return {}
    return {tp: at.offset for tp, at in listed.items()}


def _answer(question: _Question, ends: dict[TopicPartition, int]) -> None:
    if question.answer.set_running_or_notify_cancel():
        question.answer.set_result(Position(ends))


def _fail(questions: list[_Question], error: BaseException) -> None:
    for question in questions:
        if question.answer.set_running_or_notify_cancel():
            question.answer.set_exception(error)
