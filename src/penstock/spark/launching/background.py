"""Starts a Spark session in a thread, while its caller starts other things."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock.spark.launching.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionInBackground:
    """A session for the duration of a ``with`` block. The arguments are those of `build_session`."""

    def __init__(self, app_name: str, **options: Any) -> None:
        self._threads = ThreadPoolExecutor(1, "spark-session")
        self._session = self._threads.submit(build_session, app_name, **options)

    def __enter__(self) -> SessionInBackground:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()
        if self._session.exception() is None:
            self._session.result().stop()

    def session(self) -> SparkSession:
        """Return the session once it has started. Raises what `build_session` raises."""
        return self._session.result()
