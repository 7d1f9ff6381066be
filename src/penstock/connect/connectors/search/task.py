"""The task of the search sink, and its connector."""

from __future__ import annotations

import logging
import threading
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
    place_of,
)
from penstock.connect.connectors.http.exchange.authorization import FixedAuthorization, basic
from penstock.connect.connectors.http.exchange.client import HttpClient
from penstock.connect.connectors.http.exchange.messages import HttpAnswer, HttpRequest, Unreachable
from penstock.connect.connectors.http.exchange.refusals import is_transient, retry_after_ms
from penstock.connect.connectors.http.exchange.settings import tls_of
from penstock.connect.connectors.search.bulk import Outcome, bulk_request, chunks, outcomes
from penstock.connect.connectors.search.definition import sink_definition
from penstock.connect.connectors.search.documents import Document, Documents, Operation
from penstock.connect.connectors.search.indices import Indices
from penstock.connect.data.json_text import to_json
from penstock.connect.data.records import SinkRecord
from penstock.connect.errors import ConnectError, DataError

log = logging.getLogger(__name__)

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_MALFORMED: Final = (400, 413)


class SearchSinkTask(SinkTask):
    """Writes the records of each `put` as documents, and returns once the engine has them."""

    definition = sink_definition()

    _client: HttpClient | None = None
    _lanes: Lanes | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        count: int = config["max.in.flight.requests"]
        user, password = config["connection.username"], config["connection.password"]
        self._urls = [each.rstrip("/") for each in config["connection.url"]]
        self._urls_lock = threading.Lock()
        self._client = HttpClient(
            FixedAuthorization(basic(user, password.value) if user and password else None),
            tls=tls_of(config, *self._urls),
            connect_timeout_s=config["connection.timeout.ms"] / 1000,
            read_timeout_s=config["read.timeout.ms"] / 1000,
            connections=count,
        )
        self._documents = Documents(config)
        self._indices = Indices(config, self._ask)
        self._batch_size: int = config["batch.size"]
        self._batch_bytes: int = config["bulk.size.bytes"]
        self._drops_invalid: bool = config["drop.invalid.message"]
        self._on_malformed: str = config["behavior.on.malformed.documents"]
        self._on_conflict: str = config["behavior.on.version.conflict"]
        self._lanes = Lanes(count)
        self._redelivery = Redelivery(
            RetryRules(max_retries=config["max.retries"], backoff_ms=config["retry.backoff.ms"])
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

    # Requests

    def _ask(self, method: str, path: str, content: Mapping[str, Any] | None) -> HttpAnswer:
        body = to_json(content)
        headers = {"accept": "application/json"} | ({"content-type": "application/json"} if body else {})
        return self._exchange(HttpRequest(method, self._urls[0] + path, headers, body))

    def _exchange(self, request: HttpRequest) -> HttpAnswer:
        """Send a request to the first node. If it does not answer, others are tried at the next attempt."""
        assert self._client is not None, "start() was called before"
        try:
            return self._client.send(request)
        except Unreachable:
            with self._urls_lock:
                if request.url.startswith(f"{self._urls[0]}/"):  # no other lane was faster
                    self._urls = [*self._urls[1:], self._urls[0]]
            raise

    def _send(self, records: Sequence[SinkRecord]) -> None:
        """Write the documents of a lane, one request after the other."""
        documents = [each for record in records if (each := self._document(record)) is not None]
        for chunk in chunks(documents, self._batch_size, self._batch_bytes):
            self._write(chunk)

    def _document(self, record: SinkRecord) -> Document | None:
        try:
            document = self._documents.document(record)
        except DataError as error:
            if self._drops_invalid:
                log.warning("a record is dropped record=%s error=%s", place_of(record), error)
                self._redelivery.delivered([record])
            else:
                self._redelivery.rejected(record, error)
            return None
        if document is None:
            self._redelivery.delivered([record])
        else:
            self._indices.require(document.index, record.topic, record.value_schema)
        return document

    def _write(self, documents: Sequence[Document]) -> None:
        """Write documents with one request. If it is refused as a whole, write each half alone.

        Raises:
            RetriableError: some documents are missing, and may be written later.
            ConnectError: the engine refuses every request, or a document that must not be skipped.
        """
        answer = self._exchange(bulk_request(self._urls[0], documents))
        if answer.is_success:
            self._conclude(outcomes(documents, answer))
            return
        problem = f"the bulk request was refused with {answer}"
        if is_transient(answer.status):
            raise TryLater(problem, retry_after_ms(answer.headers))
        if answer.status not in _MALFORMED:
            raise ConnectError(problem)
        if len(documents) == 1:
            self._refused(Outcome(documents[0], answer.status, str(answer)))
            return
        middle = len(documents) // 2
        self._write(documents[:middle])
        self._write(documents[middle:])

    # Answers

    def _conclude(self, found: Sequence[Outcome]) -> None:
        """Note which documents are written. Raises RetriableError if some are missing."""
        missing: list[Outcome] = []
        waiting: set[tuple[str, str]] = set()
        for each in found:
            document = each.document
            place = None if document.has_version or document.id is None else (document.index, document.id)
            is_disturbed = document.operation is Operation.UPDATE and each.status == _CONFLICT
            if is_transient(each.status) or is_disturbed:
                missing.append(each)
                if place is not None:
                    waiting.add(place)
            elif place in waiting:
                missing.append(each)  # written too early: it has to follow the one that is missing
            elif 200 <= each.status < 300 or (
                document.operation is Operation.DELETE and each.status == _NOT_FOUND
            ):
                self._redelivery.delivered([document.record])
            else:
                self._refused(each)
        if missing:
            first = missing[0]
            raise TryLater(f"{len(missing)} documents were not written: status {first.status}: {first.error}")

    def _refused(self, outcome: Outcome) -> None:
        """Treat a document that the engine refuses. Raises ConnectError if it must not be skipped."""
        document, status, error = outcome
        record = document.record
        problem = f"document {document.id} of index {document.index} was refused with {status}: {error}"
        if status == _CONFLICT:
            behavior = self._on_conflict
        elif status in _MALFORMED:
            behavior = self._on_malformed
        else:
            raise ConnectError(problem)
        if behavior == "fail":
            raise ConnectError(problem)
        if behavior == "report":
            self._redelivery.rejected(record, Rejected(problem))
            return
        log.log(
            logging.WARNING if behavior == "warn" else logging.DEBUG,
            "a document is skipped record=%s reason=%s",
            *(place_of(record), problem),
        )
        self._redelivery.delivered([record])


class SearchSinkConnector(SinkConnector):
    """Tasks that write documents to OpenSearch or Elasticsearch."""

    task_class = SearchSinkTask

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        return True
