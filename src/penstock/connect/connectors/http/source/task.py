"""The task of the HTTP source, and its connector."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.connect.connector.source import SourceConnector, SourceTask
from penstock.connect.connectors.http.exchange.client import HttpClient
from penstock.connect.connectors.http.exchange.messages import HttpAnswer, HttpRequest, shown_url
from penstock.connect.connectors.http.exchange.refusals import backoff_ms, is_transient, retry_after_ms
from penstock.connect.connectors.http.exchange.settings import authorization_of, tls_of
from penstock.connect.connectors.http.source.asking import Asking, conditional, validators_of
from penstock.connect.connectors.http.source.definition import (
    AUTHORIZATION,
    URL,
    codes_of,
    pairs_of,
    source_definition,
)
from penstock.connect.connectors.http.source.items import KEY, Item, Items, parsed_json
from penstock.connect.connectors.http.source.paging import Paging
from penstock.connect.connectors.http.source.progress import Position, Progress, Sweep
from penstock.connect.data.records import Offset, SourceRecord
from penstock.connect.errors import ConnectError, RetriableError

log = logging.getLogger(__name__)

_BACKOFF_MAX_MS: Final = 60_000
_PAGE_GONE: Final = (400, 404, 410)
"""Answers for the page of a sweep that was begun before a restart and that the server has forgotten."""


class HttpSourceTask(SourceTask):
    """Polls an API: one page each time, and the first page again after an interval."""

    definition = source_definition()

    _client: HttpClient | None = None

    def start(self, config: Mapping[str, Any]) -> None:
        self._topic: str = config["kafka.topic"]
        self._paging = Paging(config)
        self._asking = Asking(config, self._paging)
        self._items = Items(config)
        self._direction: str = config["http.response.list.order.direction"].upper()
        self._processed = codes_of(config["http.response.policy.codes.process"])
        self._skipped = codes_of(config["http.response.policy.codes.skip"])
        self._interval_ms: int = config["http.timer.interval.millis"]
        self._catchup_ms: int = config["http.timer.catchup.interval.millis"]
        self._max_retries: int = config["max.retries"]
        self._backoff_ms: int = config["retry.backoff.ms"]
        self._client = HttpClient(
            authorization_of(config, AUTHORIZATION),
            tls=tls_of(config, config[URL]),
            connect_timeout_s=config["http.client.connection.timeout.millis"] / 1000 or None,
            read_timeout_s=config["http.client.read.timeout.millis"] / 1000 or None,
        )
        self._partition = {"url": shown_url(config[URL])}
        stored = self.context.offset(self._partition)
        self._progress = (
            Progress(Position(pairs_of(config["http.offset.initial"])))
            if stored is None
            else Progress.stored(stored)
        )
        self._is_resumed = self._progress.sweep is not None
        self._stored: Offset = self._progress.offset()
        """The offset before the current batch, which all of its records but the last carry."""
        self._held: list[Item] = []
        """The items of a sweep whose newest item is first; they become records at its end."""
        self._is_descending = self._direction == "DESC"
        self._sweep_news = 0
        self._failures = 0
        self._next_s = 0.0

    def poll(self) -> Sequence[SourceRecord]:
        if time.monotonic() < self._next_s:
            return []
        sweep = self._progress.sweep or Sweep(None, self._progress.position)
        request = self._asking.request(sweep.since, sweep.page)
        answer = self._answer(request)
        if answer is None:
            return []
        if not any(answer.status in codes for codes in self._processed):
            self._held = []  # the next sweep finds these items again
            self._end_sweep()
            return []
        content = parsed_json(answer.body) if answer.body else None
        items = self._items.found(content) if answer.body else []
        following = self._paging.following(sweep.page, request.url, answer, content, len(items))
        if sweep.page is None and self._direction == "IMPLICIT":
            self._is_descending = descends(items)
        if self._is_descending:
            news = self._hold(items, sweep, following is not None)
            if news is None:  # more pages belong to this batch
                self._progress = replace(self._progress, sweep=Sweep(following, sweep.since))
                return []
            following = None
        else:
            news = sweep.since.news(items)
        return self._concluded(news, sweep, following, request, answer, is_empty=not items)

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()

    # Requests

    def _answer(self, request: HttpRequest) -> HttpAnswer | None:
        """Return the answer to a request, or None if it has to be asked later.

        Raises:
            ConnectError: the server refuses, or there were too many failures in a row.
        """
        assert self._client is not None, "start() was called before"
        sent = conditional(request, self._progress.validators) if self._paging.mode == "none" else request
        try:
            answer = self._client.send(sent)
        except RetriableError as error:
            self._retry(str(error), 0)
            return None
        if any(answer.status in codes for codes in (*self._processed, *self._skipped)):
            self._failures = 0
            self._is_resumed = False
            return answer
        problem = f"{request.method} {shown_url(request.url)} was refused with {answer}"
        if is_transient(answer.status):
            self._retry(problem, retry_after_ms(answer.headers))
            return None
        if self._is_resumed and answer.status in _PAGE_GONE:
            log.warning(
                "a sweep begins again, its next page is gone topic=%s reason=%s", self._topic, problem
            )
            self._is_resumed = False
            assert self._progress.sweep is not None, "it was resumed"
            self._progress = Progress(self._progress.sweep.since)
            return None
        raise ConnectError(problem)

    def _retry(self, problem: str, after_ms: int) -> None:
        self._failures += 1
        if self._failures > self._max_retries:
            raise ConnectError(f"Failed after {self._max_retries} retries: {problem}")
        wait_ms = max(after_ms, backoff_ms(self._failures, self._backoff_ms, _BACKOFF_MAX_MS))
        log.warning("a poll is repeated wait_ms=%d topic=%s reason=%s", wait_ms, self._topic, problem)
        self._wait(wait_ms)

    def _wait(self, wait_ms: int) -> None:
        self._next_s = time.monotonic() + wait_ms / 1000

    # Items

    def _hold(self, items: Sequence[Item], sweep: Sweep, has_more: bool) -> list[Item] | None:
        """Keep the items of a page; return all of the sweep's, the oldest first, once no more are new."""
        self._held += items
        if has_more and items and len(sweep.since.news(items[::-1])) == len(items):
            return None
        held, self._held = self._held[::-1], []
        if all(each.offset for each in held):  # newer items have moved others to a page that came later
            held = list({each.mark: each for each in held}.values())
        return sweep.since.news(held)

    def _concluded(
        self,
        news: Sequence[Item],
        sweep: Sweep,
        following: Any,
        request: HttpRequest,
        answer: HttpAnswer,
        *,
        is_empty: bool,
    ) -> list[SourceRecord]:
        """Note the progress after a page, and return its records."""
        position = self._progress.position
        for each in news:
            position = position.after(each)
        self._sweep_news += len(news)
        validators = validators_of(request, answer) if self._paging.mode == "none" else {}
        self._progress = Progress(
            position, None if following is None else Sweep(following, sweep.since), validators
        )
        if following is None:
            self._end_sweep()
        elif is_empty and self._paging.waits_at_end:
            self._wait(self._interval_ms)
        records = [self._record(each, self._stored) for each in news]
        if records:
            self._stored = records[-1].source_offset = self._progress.offset()
        return records

    def _end_sweep(self) -> None:
        """Wait for the next sweep: shorter if items were new but not recent, since more may follow them."""
        self._progress = replace(self._progress, sweep=None)
        millis = self._progress.position.millis
        is_recent = millis is not None and millis > time.time() * 1000 - self._interval_ms
        is_behind = self._sweep_news > 0 and not is_recent
        self._sweep_news = 0
        self._wait(self._catchup_ms if is_behind else self._interval_ms)

    def _record(self, item: Item, offset: Offset) -> SourceRecord:
        return SourceRecord(
            topic=self._topic,
            key=item.offset.get(KEY),
            value=item.value,
            timestamp_ms=item.millis,
            source_partition=self._partition,
            source_offset=offset,
        )


def descends(items: Sequence[Item]) -> bool:
    """Whether the newest item is first."""
    if not items or items[0].millis is None or items[-1].millis is None:
        return False
    return items[0].millis > items[-1].millis


class HttpSourceConnector(SourceConnector):
    """One task that polls one API."""

    task_class = HttpSourceTask

    def start(self, config: Mapping[str, Any]) -> None:
        authorization_of(config, AUTHORIZATION)  # both fail here if a key is missing, and not in the task
        Paging(config)

    def exactly_once_support(self, properties: Mapping[str, str]) -> bool | None:
        """A restart repeats nothing if items have a place: by their offsets, or on a page that has a name."""
        has_offsets = bool(properties.get("http.response.record.offset.pointer", "").strip())
        return has_offsets or properties.get("http.page.mode", "none").lower() in ("link", "cursor")

    def alter_offsets(
        self, properties: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if "url" not in partition:
                raise ConnectError("Partition objects should contain the key 'url'")
            if offset is not None:
                Progress.stored(offset)
        return True
