"""The task of the HTTP sink, and its connector."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from penstock.client.connections.metadata import TopicPartition
from penstock.connect.connector.sink import SinkConnector, SinkTask
from penstock.connect.connectors.http.delivery.lanes import Lanes
from penstock.connect.connectors.http.delivery.redelivery import (
    Redelivery,
    Rejected,
    RetryRules,
    TryLater,
)
from penstock.connect.connectors.http.exchange.client import HttpClient
from penstock.connect.connectors.http.exchange.messages import shown_url
from penstock.connect.connectors.http.exchange.refusals import (
    blames_request,
    is_transient,
    retry_after_ms,
)
from penstock.connect.connectors.http.exchange.settings import authorization_of, tls_of
from penstock.connect.connectors.http.sink.definition import AUTHORIZATION, URL, sink_definition
from penstock.connect.connectors.http.sink.requests import Part, Requests
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, DataError

_ALREADY_GONE: Final = (404, 410)
"""Answers to a DELETE request that reach its aim."""


class HttpSinkTask(SinkTask):
    """Sends the records of each `put` as requests, and returns once each is accepted or reported."""

    definition = sink_definition()

    _client: HttpClient | None = None
    _lanes: Lanes | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        count: int = config["max.in.flight.requests"]
        self._requests = Requests(config)
        self._client = HttpClient(
            authorization_of(config, AUTHORIZATION),
            tls=tls_of(config, config[URL]),
            connect_timeout_s=config["http.timeout"],
            read_timeout_s=config["http.timeout"],
            connections=count,
        )
        self._lanes = Lanes(count)
        self._redelivery = Redelivery(
            RetryRules(
                max_retries=config["max.retries"],
                backoff_ms=config["retry.backoff.ms"],
                endless_backoff_ms=config["kafka.retry.backoff.ms"],
            )
        )

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self._redelivery.forget(partitions)

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert self._lanes is not None, "start() was called before"
        self._redelivery.run(self._lanes, records, self._send, self.context)

    def stop(self) -> None:
        if self._lanes is not None:
            self._lanes.close()
        if self._client is not None:
            self._client.close()

    def _send(self, records: Sequence[SinkRecord]) -> None:
        """Send the records of a lane, one request after the other."""
        parts: list[Part] = []
        for record in records:
            try:
                part = self._requests.part(record)
            except DataError as error:
                self._redelivery.rejected(record, error)
                continue
            if part is None:
                self._redelivery.delivered([record])
            else:
                parts.append(part)
        for group in self._requests.groups(parts):
            self._deliver(group)

    def _deliver(self, group: Sequence[Part]) -> None:
        """Send the request of a group. If it is refused, send each half alone, to find the records to blame.

        If the server fails on it (500), this is done in the last attempt only.

        Raises:
            RetriableError: the request may succeed later.
            ConnectError: the server refuses every request.
        """
        assert self._client is not None, "start() was called before"
        request = self._requests.request(group)
        answer = self._client.send(request)
        status, records = answer.status, [part.record for part in group]
        if answer.is_success or (request.method == "DELETE" and status in _ALREADY_GONE):
            self._redelivery.delivered(records)
            return
        problem = f"{request.method} {shown_url(request.url)} was refused with {answer}"
        may_split = len(group) > 1 and blames_request(status)
        if is_transient(status) and not (may_split and self._redelivery.is_last_attempt):
            blamed = records if blames_request(status) else ()
            raise TryLater(problem, retry_after_ms(answer.headers), blamed)
        if not blames_request(status):
            raise ConnectError(problem)
        if len(group) == 1:
            self._redelivery.rejected(records[0], Rejected(problem))
            return
        middle = len(group) // 2
        self._deliver(group[:middle])
        self._deliver(group[middle:])


class HttpSinkConnector(SinkConnector):
    """Tasks that send records to an HTTP server."""

    task_class = HttpSinkTask

    def start(self, config: Mapping[str, Any]) -> None:
        authorization_of(config, AUTHORIZATION)  # fails here if a key is missing, and not in each task

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        return True
