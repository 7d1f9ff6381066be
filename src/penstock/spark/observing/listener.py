"""Pass Spark's reports of its queries to watchers.

pyspark creates an object from each report, with a call to the JVM for each of its fields, a hundred for a
batch. The JVM calls this listener directly, and the listener requests the JSON.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from penstock.spark.progress import Progress, read_progress

log = logging.getLogger(__name__)


class Watcher(Protocol):
    """A receiver of reports, called in threads of py4j; Spark's other listeners wait meanwhile."""

    def started(self, query_id: str, run_id: str, name: str | None) -> None: ...

    def progressed(self, progress: Progress) -> None: ...

    def idled(self, query_id: str) -> None: ...

    def ended(self, query_id: str, run_id: str, error: str | None) -> None: ...


class WatchingListener(StreamingQueryListener):
    """A listener for ``spark.streams.addListener`` that notifies watchers of every query of the session.

    Its methods receive the JVM's events, not pyspark's.
    """

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers
        self._wrapped: Any = None

    @property
    def _jlistener(self) -> Any:
        """The object that pyspark registers, created once the JVM's class is available."""
        if self._wrapped is None:
            jvm: Any = SparkContext._jvm
            self._wrapped = jvm.PythonStreamingQueryListenerWrapper(self)
        return self._wrapped

    def onQueryStarted(self, event: Any) -> None:
        query_id, run_id = event.id().toString(), event.runId().toString()
        for watcher in self._watchers:
            watcher.started(query_id, run_id, event.name())

    def onQueryProgress(self, event: Any) -> None:
        try:
            progress = read_progress(event.progress().json())
        except Exception:
            # An error would be lost in the JVM's log, and the metrics would stop changing without notice.
            log.exception("progress of a batch not readable")
            return
        for watcher in self._watchers:
            watcher.progressed(progress)

    def onQueryIdle(self, event: Any) -> None:
        query_id = event.id().toString()
        for watcher in self._watchers:
            watcher.idled(query_id)

    def onQueryTerminated(self, event: Any) -> None:
        error = event.exception()
        found = error.get() if error.isDefined() else None
        for watcher in self._watchers:
            watcher.ended(event.id().toString(), event.runId().toString(), found)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
